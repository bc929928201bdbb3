"""The correction that was asked for: looked up in the table once, at the beginning, and run at the end.

In: a name and an aim, as they were given. Out: a record that knows what it may try on which network: whoever has it
need not know the table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from torch import nn

from ..errors import InputError
from ..types import Watch
from .aims import AUTO_AIM, checked_aim
from .batch_norm import norms_of
from .choose import Uncorrected, best_of, candidates, prepared
from .corrected import Corrected
from .table import AUTO, CORRECTIONS, NONE, Correction

MERGED = "units were merged, and the aligned networks do not compute what the models do: then only {able} is possible"


@dataclass(frozen=True)
class ChosenCorrection:
    """A correction as it was asked for.

    Args:
        name: What it is called: a row of `CORRECTIONS`, `auto` or `none`.
        row: The row, if it was asked for by its name.
        aim: What it aims at: a row of `AIMS`, or `auto`.
        seed: For what is random in it.
    """

    name: str
    row: Correction | None
    aim: str
    seed: int = 0

    @staticmethod
    def of(name: str, aim: str = AUTO_AIM, seed: int = 0) -> ChosenCorrection:
        """The correction of a name.

        Raises:
            InputError: there is no such correction, or no such aim.
        """
        if name not in (AUTO, NONE, *CORRECTIONS):
            raise InputError(f"correct is {name!r}; expected {AUTO}, {NONE}, {', '.join(CORRECTIONS)}")
        return ChosenCorrection(name, CORRECTIONS.get(name), checked_aim(aim), seed)

    @property
    def wanted(self) -> bool:
        """Whether there shall be a correction at all."""
        return self.name != NONE

    def check(self, model: nn.Module, *, inputs: bool) -> None:
        """Refuse a correction that has no inputs to go by, or is none of this network.

        Raises:
            InputError: in these cases.
        """
        if self.row and not inputs:
            raise InputError(f"correct is {self.name!r}, but there are no inputs; pass data= or example_inputs")
        if self.row and self.row.needs_batch_norm and not norms_of(model):
            raise InputError(
                f"correct is {self.name!r}, but the models have no batch norm with running statistics; choose another"
            )

    def made(self, start: Uncorrected, watch: Watch, *, data: bool) -> tuple[nn.Module, Corrected]:
        """The network with this correction, or with the best of those that can be made; and what was done.

        Args:
            start: What is to be corrected.
            watch: Is told of each correction.
            data: Whether there is data, and not synthetic inputs only.
        """
        rows = self._carrying(start.model) if start.carried else self._rows(start.model, data=data)
        if not rows:
            able = " or ".join(_able_to_carry(start.model))
            return start.model, Corrected(NONE, note=MERGED.format(able=able))
        own = replace(start, aim=self.aim, seed=self.seed)
        return best_of(rows, own, watch, forced=self.row is not None)

    def _rows(self, model: nn.Module, *, data: bool) -> Sequence[str]:
        """Names of the corrections to try."""
        possible = candidates(model, data=data)
        return prepared(self.name, possible) if self.row else possible

    def _carrying(self, model: nn.Module) -> Sequence[str]:
        """Names of the corrections to try where parents are of other widths than the network."""
        able = _able_to_carry(model)
        possible = [name for name, row in able.items() if row.automatic]
        if not self.row:
            return possible
        return prepared(self.name, possible) if self.name in able else []


def _able_to_carry(model: nn.Module) -> Mapping[str, Correction]:
    """The corrections that can be made of a network whose parents are of other widths, by name."""
    normed = bool(norms_of(model))
    carrying = {name: row for name, row in CORRECTIONS.items() if row.carries}
    return {name: row for name, row in carrying.items() if row.needs_units or row.after or not normed}
