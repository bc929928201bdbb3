"""What there is to do: an experiment of a profile, as jobs; each becomes one line of results.

In: names. Out: jobs with their configurations. Nothing is trained or read here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from transfuse import InputError

from .catalogue import EXPERIMENTS
from .plain import as_plain, differences, fingerprint
from .profiles import PROFILES
from .records import Build, Cell, Row, Setting
from .rows import ROWS

MOST = 6  # groups of a cell: where there are more networks, they are for fusions of many
RECORDED = {
    "correct": "finish"
}  # options under the names that they had when results were first recorded: keys depend on them
PICTURED = 0  # the group whose planes are measured; barriers are of all


@dataclass(frozen=True)
class Job:
    """One row of one cell, for one group of base networks.

    Args:
        experiment: Its name.
        profile: Its name.
        cell: The column of the table.
        row: Its name.
        group: The number of the group.
        mixed: Whether base networks are trained in mixed precision, whatever the profile says.
    """

    experiment: str
    profile: str
    cell: Cell
    row: str
    group: int
    mixed: bool = False

    @property
    def members(self) -> list[tuple[str, Setting, int]]:
        """Name, setting and seed of each base network."""
        return members(self.cell, self.profile, self.group, mixed=self.mixed)

    @property
    def target(self) -> Build | None:
        """The network whose widths the result has; None: the first model."""
        return None if self.cell.target is None else PROFILES[self.profile].settings[self.cell.target].network

    @property
    def weights(self) -> tuple[float, ...] | None:
        """Proportions of the members, in their order."""
        turned = self.cell.turns and self.group % 2
        return self.cell.weights[::-1] if self.cell.weights is not None and turned else self.cell.weights

    @property
    def choices(self) -> list[dict[str, Any]]:
        """Hyper-parameters to choose from."""
        grid = PROFILES[self.profile].grid_of(self.row)
        return [dict(zip(grid, each, strict=True)) for each in product(*grid.values())]

    @property
    def pictured(self) -> bool:
        """Whether a landscape has its plane; one of many points on a curve has none."""
        return self.group == PICTURED and self.cell.place is None

    def configuration(self) -> dict[str, Any]:
        """All that decides the result, beside base networks from elsewhere."""
        return configuration(self.cell, self.row, self.profile, self.group, mixed=self.mixed)

    def key(self, identities: Sequence[str]) -> str:
        """The name of the result, given what the base networks are."""
        about = [self.experiment, self.profile, self.cell.title, self.row, self.configuration(), list(identities)]
        return fingerprint(about)

    def work(self, identities: Sequence[str]) -> str:
        """The name of what is done: the same in all experiments that have it."""
        return fingerprint([self.row, self.configuration(), list(identities)])

    def deviations(self) -> list[str]:
        """What is not as in the paper."""
        reference = configuration(self.cell, self.row, "paper", self.group)
        own = self.configuration()
        found = differences(own["target"], reference["target"], "target")
        found += differences(own["grid"], reference["grid"], "chosen from")
        several = len(self.cell.settings) > 1
        for name, mine, theirs in zip(self.cell.settings, own["settings"], reference["settings"], strict=True):
            found += [f"{name}: {each}" if several else each for each in differences(mine, theirs)]
        return found


def settings_of(cell: Cell, profile: str, *, mixed: bool = False) -> list[Setting]:
    """The settings of a cell, in the order of their names; in mixed precision if that is asked for."""
    found = [PROFILES[profile].settings[name] for name in cell.settings]
    return [each.in_mixed_precision() for each in found] if mixed else found


def members(cell: Cell, profile: str, group: int, *, mixed: bool = False) -> list[tuple[str, Setting, int]]:
    """Base networks of a group: seeds follow each other, and no two groups share one."""
    known = list(zip(cell.settings, settings_of(cell, profile, mixed=mixed), strict=True))
    found = [(*known[number % len(known)], group * cell.models + number) for number in range(cell.models)]
    return found[::-1] if cell.turns and group % 2 else found


def configuration(cell: Cell, row: str, profile: str, group: int, *, mixed: bool = False) -> dict[str, Any]:
    """A plain record of all choices."""
    chosen = PROFILES[profile]
    settings = settings_of(cell, profile, mixed=mixed)
    plain = as_plain(
        {
            "row": _recorded(ROWS[row]),
            "models": cell.models,
            "weights": cell.weights,
            "turns": cell.turns,
            "target": None if cell.target is None else chosen.settings[cell.target].network,
            "group": group,
            "grid": chosen.grid_of(row),
            "settings": [setting.choices() for setting in settings],
        }
    )
    if cell.amount is not None:
        plain["amount"] = as_plain(cell.amount)
    if cell.clients is not None:
        plain["clients"] = as_plain(cell.clients)
    if ROWS[row].kind == "landscape":
        plain["landscape"] = {"points": chosen.points, "shown": chosen.shown}
        if group == PICTURED:
            plain["landscape"] |= {"plane": chosen.plane, "pictured": chosen.pictured}
    return dict(plain)


def _recorded(row: Row) -> Row:
    """A row with the names of options that records know it by."""
    return replace(row, options={RECORDED.get(name, name): value for name, value in row.options.items()})


def groups(cell: Cell, profile: str) -> range:
    """The groups that the profile's base networks make; at least one, and not more than `MOST`."""
    settings = PROFILES[profile].settings
    possible = min(settings[name].networks for name in cell.settings) // cell.models
    return range(max(1, min(MOST, possible)))


def jobs(
    experiment: str,
    profile: str,
    seeds: Sequence[int] | None = None,
    cells: Sequence[str] = (),
    rows: Sequence[str] = (),
    *,
    mixed: bool = False,
) -> list[Job]:
    """All jobs of an experiment, group by group.

    Args:
        experiment: Its name.
        profile: Its name.
        seeds: Numbers of groups; None for those that the profile says.
        cells: Only cells with one of these texts in their titles; a text that is a whole title means that cell alone.
        rows: Only these rows.
        mixed: Whether base networks are trained in mixed precision, whatever the profile says.
    """
    problems = [f"no row is called {row!r}; the rows: {', '.join(ROWS)}" for row in rows if row not in ROWS]
    if experiment not in EXPERIMENTS:
        problems.append(f"no experiment is called {experiment!r}; the experiments: {', '.join(EXPERIMENTS)}")
    if profile not in PROFILES:
        problems.append(f"no profile is called {profile!r}; the profiles: {', '.join(PROFILES)}")
    if problems:
        raise InputError("\n".join(problems))
    all_cells = EXPERIMENTS[experiment].cells
    return [
        Job(experiment, profile, cell, row, group, mixed)
        for cell in (_named(all_cells, cells) if cells else all_cells[: PROFILES[profile].cells])
        for group in (groups(cell, profile) if seeds is None else seeds)
        for row in cell.rows
        if not rows or row in rows
    ]


def _named(cells: Sequence[Cell], texts: Sequence[str]) -> list[Cell]:
    """Cells by their titles, or by what stands in these: "6 MLPNet" is not to mean 16 of them too."""
    titles = {cell.title.lower() for cell in cells}
    whole, parts = ([text.lower() for text in texts if (text.lower() in titles) is known] for known in (True, False))
    return [cell for cell in cells if cell.title.lower() in whole or any(text in cell.title.lower() for text in parts)]
