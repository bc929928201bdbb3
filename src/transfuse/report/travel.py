"""The way from model 1 to others, straight and aligned: on the curves of a metric, and on the plane, step by step.

In: barriers, a plane. Out: pictures on which points travel, and the texts that belong to each step. Points move by the
style sheet alone, back and forth, so a page does without script; with script a reader moves them by a slider.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from markupsafe import Markup

from ..landscape import Barrier, Plane
from ..landscape.pictures import PLACES, barrier_label, column_texts
from .contents import Results
from .surface import Ground, plane_map, shared_levels
from .svg import Chart, Point, curves

SECONDS = 6  # from one end to the other: slow enough to follow two points at once
Route = Sequence[Point]  # where a point stands on a drawing at each step


@dataclass(frozen=True, eq=False)
class Journey:
    """One metric along barriers, and on the plane if there is one.

    Args:
        key: Letters that are this journey's alone on its page: names of animations begin with them.
        metric: What is shown.
        barriers: Segments by name, all evaluated at the same positions.
        chart: Where values stand on the chart; the same for all journeys of a page.
        end: What the last position is called.
        ground: The plane on its drawing; nothing if there is none.
        ways: The ends on the plane of those segments that run along it.
    """

    key: str
    metric: str
    barriers: Mapping[str, Barrier]
    chart: Chart
    end: str
    ground: Ground | None
    ways: Mapping[str, tuple[Point, Point]]

    @property
    def positions(self) -> list[float]:
        """Where networks were evaluated, from 0 to 1."""
        return [float(each) for each in next(iter(self.barriers.values())).positions]


def journeys(results: Mapping[str, Results], metric: str, end: str = PLACES[1.0]) -> dict[str, Journey]:
    """The journeys of a page by key, one for each of some results, all in the same scale of values and colours."""
    shown = {key: each for key, each in results.items() if each.barriers}
    if not shown:
        return {}
    chart = Chart.around(chain.from_iterable(_series(each.barriers, metric) for each in shown.values()))
    planes = [each.plane for each in shown.values() if each.plane]
    levels = shared_levels(planes, metric) if planes else ()
    return {
        key: Journey(key, metric, each.barriers, chart, end, _ground(each.plane, metric, levels), each.ways)
        for key, each in shown.items()
    }


def end_name(models: int) -> str:
    """What the end of the way is called on a page about so many models: with more than two there are several ends."""
    return PLACES[1.0] if models <= 2 else "the other model"


def _series(barriers: Mapping[str, Barrier], metric: str) -> Iterable[tuple[list[float], list[float]]]:
    """Positions and values of each barrier."""
    return ((each.positions.tolist(), each.of(metric).tolist()) for each in barriers.values())


def _ground(plane: Plane | None, metric: str, levels: tuple[float, ...]) -> Ground | None:
    return Ground(plane, metric, levels) if plane else None


def travel_chart(journey: Journey) -> Markup:
    """The curves of a journey, with the heights of the barriers in the legend, and a traveller on each."""
    names = [barrier_label(name, each, journey.metric) for name, each in journey.barriers.items()]
    series = dict(zip(names, _series(journey.barriers, journey.metric), strict=True))
    ticks = {**PLACES, 1.0: journey.end}
    return curves(series, journey.chart, ticks=ticks, label=journey.metric, over=_travellers(journey, "c"))


def travel_map(journey: Journey) -> Markup:
    """The plane of a journey, with the ways along it and a traveller on each."""
    assert journey.ground is not None
    ways = {index: (route[0], route[-1]) for index, route in picture_routes(journey, "m").items()}
    lines = "".join(
        f'<path class="{kind}" d="M{start[0]:.1f} {start[1]:.1f}L{end[0]:.1f} {end[1]:.1f}"/>'
        for index, (start, end) in ways.items()
        for kind in ("way edge", f"way s{index % 6}")
    )
    return plane_map(journey.ground, Markup(lines) + _travellers(journey, "m"), list(ways.values()))


def picture_routes(journey: Journey, picture: str) -> dict[int, Route]:
    """Where the traveller of each segment stands at each step, on the chart (`c`) or on the map (`m`)."""
    found: dict[int, Route] = {}
    for index, (name, barrier) in enumerate(journey.barriers.items()):
        if picture == "c":
            values = zip(barrier.positions.tolist(), barrier.of(journey.metric).tolist(), strict=True)
            found[index] = [journey.chart.inside(x, y) for x, y in values]
        elif journey.ground and name in journey.ways:
            (x, y), (u, v) = (journey.ground.place(*end) for end in journey.ways[name])
            found[index] = [(x + t * (u - x), y + t * (v - y)) for t in journey.positions]
    return found


def _travellers(journey: Journey, picture: str) -> Markup:
    """A point for each segment, at its middle until it is moved; its steps stand in `data-steps`."""
    parts = []
    for index, route in picture_routes(journey, picture).items():
        x, y = route[len(route) // 2]
        steps = " ".join(f"{x:.1f},{y:.1f}" for x, y in route)
        parts.append(
            f'<circle class="traveller s{index % 6} {journey.key}-{picture}{index}" r="6.5" '
            f'transform="translate({x:.1f} {y:.1f})" data-steps="{steps}"/>'
        )
    return Markup("".join(parts))


def motion(all_journeys: Iterable[Journey]) -> str:
    """The part of a style sheet that moves the travellers of a page back and forth."""
    rules = []
    for journey in all_journeys:
        for picture in ("c", "m"):
            for index, route in picture_routes(journey, picture).items():
                name = f"{journey.key}-{picture}{index}"
                frames = "".join(
                    f"{100 * place:.4g}%{{transform:translate({x:.1f}px,{y:.1f}px)}}"
                    for place, (x, y) in zip(journey.positions, route, strict=True)
                )
                rules.append(
                    f"@keyframes {name}{{{frames}}}.{name}{{animation:{name} {SECONDS}s linear infinite alternate}}"
                )
    return "\n".join(rules)


def step_values(journey: Journey, unit: str) -> dict[str, list[str]]:
    """For each segment its values at all steps, as texts with their unit."""
    return {
        name: [f"{text}{unit}" for text in column_texts(barrier.of(journey.metric).tolist())]
        for name, barrier in journey.barriers.items()
    }


def step_names(journey: Journey) -> list[str]:
    """What each step is called: the models by name, others by their share of the way."""
    named = {0.0: PLACES[0.0], 0.5: "half-way", 1.0: journey.end}
    return [named.get(place, f"{100 * place:.3g} % of the way") for place in journey.positions]
