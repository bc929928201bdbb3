"""Records of landscapes: `Barrier`, `Simplex`, `Plane`; saved and loaded as JSON or npz, by the name of the file.

Plain numbers only: no networks, no functions.
"""

from __future__ import annotations

import io
import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from zipfile import BadZipFile

import numpy as np

from ..errors import InputError
from ..files import write_whole
from ..types import Array
from .scoring import more_is_better

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


KIND = "transfuse"  # the key under which a file says which record it holds


@dataclass(frozen=True, eq=False)
class Record:
    """Measured values by the name of their metric, which can be saved to a file and loaded."""

    values: Mapping[str, Array]

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of the metrics that were measured."""
        return tuple(self.values)

    def of(self, metric: str | None = None) -> Array:
        """The values of a metric; of the first one by default.

        Raises:
            InputError: there is no such metric; it names those that there are.
        """
        metric = metric or self.metrics[0]
        if metric not in self.values:
            raise InputError(f"no metric is called {metric!r}; the metrics: {', '.join(self.metrics)}")
        return self.values[metric]

    def plain(self) -> dict[str, Any]:
        """The record as JSON can hold it; `restored` gives it back."""
        return {KIND: type(self).__name__.lower(), **_plain(vars(self))}

    @classmethod
    def restored(cls, found: Mapping[str, Any]) -> Self:
        """The record that `plain` told of.

        Raises:
            InputError: it is a record of another kind.
        """
        rest = dict(found)
        if (saved := rest.pop(KIND)) != (kind := cls.__name__.lower()):
            raise InputError(f"this holds a {saved}, not a {kind}; load it by {str(saved).capitalize()}.load")
        return cls(**cls._restored(rest))

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write to a `.json` or `.npz` file, whole or not at all."""
        if _suffix(path) == ".json":
            return write_whole(path, (json.dumps(self.plain(), indent=1, allow_nan=False) + "\n").encode())
        arrays, rest = _split(vars(self))
        told = {name: value for name, value in self.plain().items() if name in rest or name == KIND}
        buffer = io.BytesIO()
        np.savez_compressed(buffer, allow_pickle=False, record=json.dumps(told), **arrays)
        return write_whole(path, buffer.getvalue())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read what `save` wrote.

        Raises:
            InputError: the file holds no record of this kind.
        """
        kind, suffix = cls.__name__.lower(), _suffix(path)
        try:
            return cls.restored(_read(Path(path), suffix))
        except FileNotFoundError:
            raise InputError(f"{path} does not exist; give a file that `save` wrote") from None
        except InputError as error:
            raise InputError(f"{path}: {error}") from None
        except (ValueError, KeyError, TypeError, OSError, BadZipFile) as error:
            raise InputError(
                f"{path} does not hold a whole {kind} that transfuse saved ({error}); give a file that `save` wrote"
            ) from error

    @classmethod
    def _restored(cls, found: dict[str, Any]) -> dict[str, Any]:
        return {**found, "values": {name: np.array(value, float) for name, value in found["values"].items()}}


@dataclass(frozen=True, eq=False, repr=False)
class Barrier(Record):
    """Values along the segment between two networks.

    Args:
        values: For each metric its values at the positions.
        positions: From 0 (the first network) to 1 (the second); 1/2 is one of them.
    """

    positions: Array

    def excess(self, metric: str | None = None) -> Array:
        """At each position the value minus the linear interpolation of the ends."""
        values = self.of(metric)
        excess: Array = values - (values[0] + self.positions * (values[-1] - values[0]))
        return excess

    def height(self, metric: str | None = None) -> float:
        """The largest excess: `max_t L(t) - ((1 - t) L(0) + t L(1))` (Entezari et al. 2022, Definition 2.1).

        Of a metric of which more is better, such as `accuracy`, it is the largest lack: how far values fall below the
        interpolation of the ends.
        """
        excess = self.excess(metric)
        return float((-excess if more_is_better(metric or self.metrics[0]) else excess).max()) + 0.0  # no "-0"

    def midpoint(self, metric: str | None = None) -> float:
        """The value half-way between the two networks."""
        return float(self.of(metric)[self.positions == 0.5][0])

    def plot(self, *, name: str = "barrier", metric: str | None = None, axes: Axes | None = None) -> Figure:
        """Draw the values along the segment; `transfuse.plots.barriers` draws several such curves in one figure.

        Args:
            name: What the curve is called in the legend.
            metric: What to show; the first metric by default.
            axes: Where to draw, axes of matplotlib; in a new figure by default.
        """
        from .. import plots  # a door upwards: `DOORS` in tests/test_rooms.py says why

        return plots.barriers({name: self}, metric=metric, axes=axes)

    def __str__(self) -> str:
        """A line about each metric: its values at the ends and at the midpoint, and the barrier."""
        return "\n".join(
            f"{name}: {values[0]:.4g} to {values[-1]:.4g}, midpoint {self.midpoint(name):.4g}, "
            f"barrier {self.height(name):.4g}"
            for name, values in self.values.items()
        )

    __repr__ = __str__  # arrays would fill a screen

    def _repr_html_(self) -> str:
        """What `str` tells, and a small picture: notebooks show it."""
        from .. import plots  # a door upwards: `DOORS` in tests/test_rooms.py says why

        return f"<pre>{escape(str(self))}</pre>{plots.inline_picture(self.plot)}"

    @classmethod
    def _restored(cls, found: dict[str, Any]) -> dict[str, Any]:
        return {**super()._restored(found), "positions": np.array(found["positions"], float)}


@dataclass(frozen=True, eq=False)
class Simplex(Record):
    """Values at the networks, midway between any two, and in the middle of all.

    Args:
        values: For each metric its values at the members.
        members: Which networks are averaged, for each value.
    """

    members: tuple[tuple[int, ...], ...]

    def height(self, members: tuple[int, ...] | None = None, metric: str | None = None) -> float:
        """The value in the middle of some networks (default: all) minus the mean of theirs."""
        values = dict(zip(self.members, self.of(metric), strict=True))
        chosen = members or self.members[-1]
        if chosen not in values:
            raise InputError(f"nothing was measured in the middle of networks {chosen}; choose one of {list(values)}")
        return float(values[chosen] - np.mean([values[(number,)] for number in chosen]))

    @classmethod
    def _restored(cls, found: dict[str, Any]) -> dict[str, Any]:
        return {**super()._restored(found), "members": tuple(tuple(each) for each in found["members"])}


@dataclass(frozen=True)
class Mark:
    """A network that is shown on a plane.

    Args:
        name: What it is called on the map.
        x: First coordinate of its foot on the plane.
        y: Second coordinate.
        distance: How far the network is from its foot.
        values: The values of the network itself, not of its foot.
    """

    name: str
    x: float
    y: float
    distance: float
    values: Mapping[str, float]


@dataclass(frozen=True, eq=False, repr=False)
class Plane(Record):
    """Values on a grid of the plane through three networks.

    Args:
        values: For each metric a matrix [rows, columns].
        x: Coordinates of the columns: distances in the space of parameters.
        y: Coordinates of the rows.
        marks: The three networks, and others.
    """

    x: Array
    y: Array
    marks: tuple[Mark, ...]

    def plot(self, *, metric: str | None = None, title: str | None = None, axes: Axes | None = None) -> Figure:
        """Draw the plane as a map with its marks; `transfuse.plots.plane` has more options.

        Args:
            metric: What to show; the first metric by default.
            title: What is written above the picture; the metric by default.
            axes: Where to draw, axes of matplotlib; in a new figure by default.
        """
        from .. import plots  # a door upwards: `DOORS` in tests/test_rooms.py says why

        return plots.plane(self, metric=metric, title=title, axes=axes)

    def __str__(self) -> str:
        """A line about each mark, and one about the lowest and highest values on the grid."""
        lines = [
            f"{mark.name}: " + ", ".join(f"{metric} {value:.4g}" for metric, value in mark.values.items())
            for mark in self.marks
        ]
        spans = (f"{name} {values.min():.4g} to {values.max():.4g}" for name, values in self.values.items())
        return "\n".join([*lines, "grid: " + ", ".join(spans)])

    __repr__ = __str__  # arrays would fill a screen

    def _repr_html_(self) -> str:
        """What `str` tells, and a small picture: notebooks show it."""
        from .. import plots  # a door upwards: `DOORS` in tests/test_rooms.py says why

        return f"<pre>{escape(str(self))}</pre>{plots.inline_picture(self.plot)}"

    def __getitem__(self, name: str) -> Mark:
        """The mark that has a name."""
        found = {mark.name: mark for mark in self.marks}
        if name not in found:
            raise InputError(f"nothing on this plane is called {name!r}; the marks: {', '.join(found)}")
        return found[name]

    @classmethod
    def _restored(cls, found: dict[str, Any]) -> dict[str, Any]:
        axes = {name: np.array(found[name], float) for name in ("x", "y")}
        marks = tuple(
            Mark(mark["name"], float(mark["x"]), float(mark["y"]), float(mark["distance"]), _floats(mark["values"]))
            for mark in found["marks"]
        )
        return {**super()._restored(found), **axes, "marks": marks}


def _floats(values: Mapping[str, Any]) -> dict[str, float]:
    return {name: float(value) for name, value in values.items()}


def _suffix(path: str | os.PathLike[str]) -> str:
    suffix = Path(path).suffix.lower()
    if suffix not in (".json", ".npz"):
        raise InputError(
            f"{path} ends neither in .json nor in .npz, the formats of records; give a name with one of these endings"
        )
    return suffix


def _plain(value: Any) -> Any:
    """A value as JSON can hold it; infinities and NaN, which JSON lacks, become text."""
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, np.ndarray | tuple | list):
        return [_plain(each) for each in value]
    if isinstance(value, Mark):
        return _plain(vars(value))
    if isinstance(value, float):  # numpy's too
        return float(value) if math.isfinite(value) else str(float(value))
    return value


def _split(fields: Mapping[str, Any]) -> tuple[dict[str, Array], dict[str, Any]]:
    """The arrays of a record under flat names, and the fields that are no arrays."""
    arrays = {name: value for name, value in fields.items() if isinstance(value, np.ndarray)}
    rest = {name: value for name, value in fields.items() if name not in arrays and name != "values"}
    return {**arrays, **{f"values/{name}": value for name, value in fields["values"].items()}}, rest


def _read(path: Path, suffix: str) -> dict[str, Any]:
    if suffix == ".json":
        found = json.loads(path.read_text("utf-8"))
        return dict(found)
    with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files if name != "record"}
        found = dict(json.loads(str(archive["record"])))
    values = {name.removeprefix("values/"): array for name, array in arrays.items() if name.startswith("values/")}
    return {**found, **{name: array for name, array in arrays.items() if "/" not in name}, "values": values}
