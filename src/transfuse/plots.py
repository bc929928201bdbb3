"""Pictures of records: barriers, planes, couplings, similarity of layers, the objective.

In: records and plain numbers. Out: matplotlib figures, which are saved as vectors with `figure.savefig("name.svg")` (or
.pdf) or shown by a notebook. Made to be read at half a column of a paper, in colours that the colour-blind tell apart,
without TeX. matplotlib is an extra, imported when a picture is made. No state of pyplot is used or changed.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from .arguments import (
    MATRIX,
    NETWORK_OR_STATE,
    TEXT,
    Kind,
    check_arguments,
    count,
    either,
    instance,
    many,
    mapping,
    optional,
)
from .barycenter import Step
from .errors import InputError, listing
from .landscape import Barrier, ModuleOrState, Plane, cosines, more_is_better
from .landscape.pictures import (
    barrier_label,
    contour_levels,
    entries_per_row,
    mark_label,
    places_between,
    pooled,
    short_number,
)
from .modules import state_of
from .types import Array, State

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Given = ParamSpec("Given")
Result = TypeVar("Result")

HALF_COLUMN = 3.3  # inches: the width of one of two columns of a paper
# Okabe and Ito's colours, told apart by the colour-blind; with markers, so that print in grey will do.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
STYLE: dict[str, Any] = {
    "font.size": 8,
    "font.family": "sans-serif",
    "axes.titlesize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "lines.linewidth": 1.4,
    "lines.markersize": 3.5,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
    "savefig.dpi": 200,
}
FINEST = 96  # cells along a side of a coupling's picture: smaller ones could not be seen at its size

AXES = optional(Kind(lambda value: hasattr(value, "get_figure") and hasattr(value, "plot"), "axes of matplotlib"))
NAME = optional(TEXT)
BARRIERS = mapping(
    either(instance(Barrier, ""), many(instance(Barrier, ""), "")),
    "barriers by name, or lists of them: {'aligned': transfuse.barrier(...)}",
)
LEVELS = either(count(2), many(Kind(lambda value: isinstance(value, int | float), ""), "a list of values"))
ENDS = many(TEXT, "the names of both ends: ['a', 'b']")
PLANES = mapping(instance(Plane, ""), "planes by name: {'auto': transfuse.plane(...)}")
MATRICES = mapping(MATRIX, "matrices by space: fusion.couplings[1]")
OTHERS = mapping(NETWORK_OR_STATE, "networks or states by name: {'aligned': twin}")


def styled(draw: Callable[Given, Result]) -> Callable[Given, Result]:
    """A decorator of functions that draw: they do so in our style, whatever the user's is."""

    @wraps(draw)
    def inner(*args: Given.args, **kwargs: Given.kwargs) -> Result:
        try:
            from matplotlib import style
        except ImportError as error:
            raise InputError(
                "figures need matplotlib, which is not installed: pip install 'transfuse[plots]'"
            ) from error
        with style.context(["default", STYLE]):
            return draw(*args, **kwargs)

    return inner


@styled
def barriers(
    curves: Mapping[str, Barrier | Sequence[Barrier]], *, metric: str | None = None, label: str | None = None,
    ends: Sequence[str] = ("model 1", "model 2"), axes: Axes | None = None,
) -> Figure:  # fmt: skip
    """Draw values along segments, one curve for each barrier, with its height in the legend.

    Of several barriers under one name the mean is drawn, in a band from the lowest to the highest value.

    Args:
        curves: Barriers by name, or lists of barriers that were measured at the same positions.
        metric: What to show; the first metric by default.
        label: What is written at the vertical axis; the metric by default.
        ends: Names of the two networks, which are written below the ends of the curves.
        axes: Where to draw; in a new figure by default.

    Raises:
        InputError: there is nothing to draw, barriers of a list have other positions, or matplotlib is not installed.
    """
    check_arguments(
        curves=(curves, BARRIERS), metric=(metric, NAME), label=(label, NAME), ends=(ends, ENDS), axes=(axes, AXES)
    )
    given = {name: [each] if isinstance(each, Barrier) else list(each) for name, each in curves.items()}
    _check_curves(given, ends)
    axes = axes or _figure(HALF_COLUMN, 2.3).subplots()
    for number, (name, own) in enumerate(given.items()):
        values = np.stack([each.of(metric) for each in own])
        colour = COLOURS[number % len(COLOURS)]
        if len(own) > 1:
            axes.fill_between(own[0].positions, values.min(0), values.max(0), color=colour, alpha=0.2, linewidth=0)
        axes.plot(
            own[0].positions,
            values.mean(0),
            color=colour,
            marker=MARKERS[number % len(MARKERS)],
            markevery=max(1, len(own[0].positions) // 12),
            label=barrier_label(name, own, metric),
        )
    shown = metric or next(iter(given.values()))[0].metrics[0]
    axes.set_ylabel(label or shown)
    places = places_between(ends)
    axes.set_xticks(list(places), list(places.values()))
    axes.margins(x=0.02)
    if not more_is_better(shown) and all((each.of(metric) >= 0).all() for own in given.values() for each in own):
        axes.set_ylim(0, axes.get_ylim()[1] * 1.05)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), handlelength=1.5)  # below: curves fill the rest
    return _of(axes)


def _check_curves(given: Mapping[str, Sequence[Barrier]], ends: Sequence[str]) -> None:
    """Refuse to draw nothing, and means of what was measured at other places."""
    if not given or not all(given.values()):
        raise InputError("curves is empty: there are no barriers to draw; give one or more, by name")
    if len(ends) != 2:
        raise InputError(f"ends has {len(ends)} names; expected those of the two networks: ['a', 'b']")
    if torn := [name for name, own in given.items() if len({tuple(each.positions) for each in own}) > 1]:
        raise InputError(
            f"barriers of {', '.join(torn)} were measured at different positions, so they have no mean; measure all of "
            "them with the same points="
        )


@styled
def plane(
    plane: Plane, *, metric: str | None = None, title: str | None = None, levels: int | Sequence[float] = 11,
    axes: Axes | None = None,
) -> Figure:  # fmt: skip
    """Draw a plane through networks: filled contours, whose heights above the lowest value grow by a factor, and marks.

    Args:
        plane: What `transfuse.plane` gave.
        metric: What to show; the first metric by default.
        title: What is written above the picture; the metric by default.
        levels: How many levels the contours have; or these values, from the lowest to the highest.
        axes: Where to draw; in a new figure by default.

    Raises:
        InputError: no value is finite, or matplotlib is not installed.
    """
    from matplotlib.colors import BoundaryNorm

    check_arguments(
        plane=(plane, instance(Plane, "what transfuse.plane gave")), metric=(metric, NAME), title=(title, NAME),
        levels=(levels, LEVELS), axes=(axes, AXES),
    )  # fmt: skip
    values = plane.of(metric)
    edges = _levels(plane, metric, values, levels) if isinstance(levels, int) else list(levels)
    axes = axes or _figure(HALF_COLUMN, _height(plane)).subplots()
    axes.set_facecolor("0.85")  # where a value is not finite, nothing is drawn
    shown = np.ma.masked_invalid(values)
    norm = BoundaryNorm(edges, 256)
    filled = axes.contourf(plane.x, plane.y, shown, edges, cmap="viridis", norm=norm, extend="neither")
    axes.contour(plane.x, plane.y, shown, edges[1:-1], colors="white", linewidths=0.3, alpha=0.6)
    beside = axes.inset_axes((1.03, 0, 0.035, 1))  # as high as the map, whatever its aspect
    bar = _of(axes).colorbar(filled, cax=beside, ticks=edges)
    bar.ax.set_yticklabels([short_number(edge) for edge in edges])
    bar.outline.set_linewidth(0)
    axes.set_title(title or metric or plane.metrics[0], wrap=True)
    axes.set_aspect("equal")
    axes.set_xlim(plane.x[0], plane.x[-1])
    axes.set_ylim(plane.y[0], plane.y[-1])
    _marks(axes, plane)
    return _of(axes)


@styled
def planes(surfaces: Mapping[str, Plane], *, metric: str | None = None, columns: int = 3) -> Figure:
    """Draw planes beside each other, in the same colours for the same values.

    Args:
        surfaces: Planes by name, which is the title of each.
        metric: What to show; the first metric by default.
        columns: How many pictures stand beside each other.

    Raises:
        InputError: there is nothing to draw, no value is finite, or matplotlib is not installed.
    """
    check_arguments(surfaces=(surfaces, PLANES), metric=(metric, NAME), columns=(columns, count(1)))
    if not surfaces:
        raise InputError("surfaces is empty: there are no planes to draw; give one or more, by name")
    first = next(iter(surfaces.values()))
    shared = _levels(first, metric, np.concatenate([each.of(metric).ravel() for each in surfaces.values()]), 11)
    columns = min(columns, len(surfaces))
    rows = -(-len(surfaces) // columns)
    figure = _figure(HALF_COLUMN * columns, max(map(_height, surfaces.values())) * rows)
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes, (name, surface) in zip(grid, surfaces.items(), strict=False):
        plane(surface, metric=metric, title=f"{name}: {metric or surface.metrics[0]}", levels=shared, axes=axes)
    for axes in grid[len(surfaces) :]:
        axes.remove()
    return figure


@styled
def couplings(matrices: Mapping[str, ArrayLike], *, columns: int = 3) -> Figure:
    """Draw the couplings of one model as heat maps [target units, model units], with how many entries a row has.

    Positive entries are blue, negated units orange. Wide matrices are shown in fewer cells, each the largest entry of
    its part.

    Args:
        matrices: Couplings by space: `fusion.couplings[model]`.
        columns: How many pictures stand beside each other.

    Raises:
        InputError: there is nothing to draw, or matplotlib is not installed.
    """
    check_arguments(matrices=(matrices, MATRICES), columns=(columns, count(1)))
    if not matrices:
        raise InputError(
            "matrices is empty: there are no couplings to draw, for a layout without spaces matches no units"
        )
    columns = min(columns, len(matrices))
    rows = -(-len(matrices) // columns)
    figure = _figure(HALF_COLUMN * columns / 2, 1.9 * rows)
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes, (name, matrix) in zip(grid, matrices.items(), strict=False):
        entries = np.asarray(matrix, float)
        shown = pooled(entries, FINEST)
        top = float(np.abs(shown).max()) or 1.0
        axes.imshow(shown, cmap="PuOr", vmin=-top, vmax=top, interpolation="nearest", aspect="auto")
        axes.set_title(f"{name}\n{short_number(entries_per_row(entries))} entries per unit")
        axes.set_xticks([])
        axes.set_yticks([])
        axes.set_xlabel(f"{entries.shape[1]} model units")
        axes.set_ylabel(f"{entries.shape[0]} target units")
        axes.spines[:].set_visible(True)
    for axes in grid[len(matrices) :]:
        axes.remove()
    return figure


@styled
def similarity(reference: ModuleOrState, others: Mapping[str, ModuleOrState], *, axes: Axes | None = None) -> Figure:
    """Draw how near each tensor of other networks is to that of a reference: the cosine of their angle.

    Args:
        reference: A module or state.
        others: Networks of the same widths, by name: `{"as trained": b, "aligned": twin}`.
        axes: Where to draw; in a new figure by default.

    Raises:
        InputError: there is nothing to draw, networks have other tensors, or matplotlib is not installed.
    """
    check_arguments(reference=(reference, NETWORK_OR_STATE), others=(others, OTHERS), axes=(axes, AXES))
    own, states = state_of(reference), {name: state_of(other) for name, other in others.items()}
    _check_alike(own, states)
    found = {name: cosines(own, state) for name, state in states.items()}
    names = list(next(iter(found.values())))
    axes = axes or _figure(HALF_COLUMN, 0.8 + 0.17 * len(names)).subplots()
    places = np.arange(len(names))
    lines = np.array([[each[name] for each in found.values()] for name in names])
    axes.hlines(places, np.nanmin(lines, 1), np.nanmax(lines, 1), color="0.8", linewidth=1, zorder=1)
    for number, (label, each) in enumerate(found.items()):
        marker, colour = MARKERS[number % len(MARKERS)], COLOURS[number % len(COLOURS)]
        axes.plot(list(each.values()), places, linestyle="none", marker=marker, color=colour, label=label)
    axes.axvline(0, color="0.7", linewidth=0.6, zorder=0)
    axes.set_yticks(places, names)
    axes.invert_yaxis()
    axes.set_xlim(min(-0.1, float(np.nanmin(lines)) - 0.05), 1.05)
    axes.set_xlabel("cosine to the reference")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2)
    return _of(axes)


@styled
def history(steps: Sequence[Step], *, axes: Axes | None = None) -> Figure:
    """Draw the objective after each sweep of a fusion.

    Args:
        steps: What `fusion.history` holds.
        axes: Where to draw; in a new figure by default.
    """
    from matplotlib.ticker import MaxNLocator

    check_arguments(steps=(steps, many(instance(Step, ""), "the steps of a fusion: fusion.history")), axes=(axes, AXES))
    axes = axes or _figure(HALF_COLUMN, 2.0).subplots()
    numbers = range(1, len(steps) + 1)
    axes.plot(numbers, [step.objective for step in steps], marker=MARKERS[0], color=COLOURS[0])
    axes.set_xlabel("sweep")
    axes.set_ylabel("objective")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    return _of(axes)


def inline_picture(draw: Callable[[], Figure]) -> str:
    """A figure as an image inside of a page, for notebooks; nothing where it cannot be drawn."""
    try:
        figure = draw()
    except InputError:  # without matplotlib, or with nothing to draw, a notebook shows the table alone
        return ""
    drawn = io.BytesIO()
    figure.savefig(drawn, format="svg")
    return f'<img alt="" src="data:image/svg+xml;base64,{base64.b64encode(drawn.getvalue()).decode()}">'


def _check_alike(own: State, states: Mapping[str, State]) -> None:
    """Refuse networks that lack tensors of the reference, or have them in other shapes."""
    if not states:
        raise InputError(
            "others is empty: there is no network to compare with the reference; give one or more, by name"
        )
    wrong = [
        f"{label}: {name} is {list(state[name].shape) if name in state else 'missing'}, expected {list(tensor.shape)}"
        for label, state in states.items()
        for name, tensor in own.items()
        if name not in state or state[name].shape != tensor.shape
    ]
    if wrong:
        raise InputError(
            listing("others do not have the tensors of the reference; give networks of its widths:", wrong)
        )


def _figure(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height))


def _of(axes: Axes) -> Figure:
    """The figure in which axes stand, also if they are in a part of it."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    return figure


def _levels(plane: Plane, metric: str | None, values: Array, count: int) -> list[float]:
    """Levels of contours, narrow where values of this metric are good."""
    return contour_levels(values, count, more_is_better=more_is_better(metric or plane.metrics[0]))


def _height(plane: Plane) -> float:
    """The height in inches at which both axes of a plane have one scale, beside the bar of colours."""
    return float(np.clip(0.75 * HALF_COLUMN * np.ptp(plane.y) / np.ptp(plane.x) + 0.45, 1.6, 4.5))


def _marks(axes: Axes, plane: Plane) -> None:
    """Draw networks as points, their names beside them, on the side where there is more room."""
    from matplotlib.patheffects import withStroke

    halo = [withStroke(linewidth=2, foreground="white")]
    middle = (plane.x[0] + plane.x[-1]) / 2
    for number, mark in enumerate(plane.marks):
        axes.plot(mark.x, mark.y, MARKERS[number % len(MARKERS)], color="white", markeredgecolor="black", markersize=5)
        left = mark.x > middle
        label = mark_label(mark, plane).replace(" (", "\n(")  # in two lines, where one might leave the map
        axes.annotate(
            label, (mark.x, mark.y), xytext=(-5 if left else 5, 4), textcoords="offset points",
            ha="right" if left else "left", path_effects=halo,
        )  # fmt: skip
