"""Values at points between networks: measured in this process or in several, and remembered.

In: a family of networks and coefficients. Out: values, in the order in which they become known. Every point sees the
same random numbers, and the random state of the caller stays as it was.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..activations import Batches
from ..arguments import FUNCTION, PATH, PROGRESS, check_arguments, optional
from ..corrections import correct
from ..corrections.batch_norm import norms_of
from ..errors import InputError, StatisticsWarning, warn_caller
from ..modules import private_randomness
from ..progress import Progress, watching
from ..workers import WORKERS, Workers, spread
from .cache import Cache, Values, key_of
from .combining import Coefficients, Family

Evaluate = Callable[[Any], Any]
Known = Iterator[tuple[int, Values]]
# A cached value that differs by a larger share than this was not made by the same `evaluate`; threads and other
# machines make smaller differences.
SAME = 0.01

INTERPOLATED = (
    "these networks have batch norm, whose running statistics are interpolated between them: those are not the "
    "statistics of the network in between, whose loss may be huge for this reason alone. Have them computed anew at "
    "each point, from inputs without labels (data=, on the command line --reset-batchnorm); at the ends too, whose "
    "values then move a little"
)

EVALUATE = replace(FUNCTION, expected="a function of a model")


@dataclass(frozen=True, eq=False)
class Survey:
    """How points are measured.

    Args:
        evaluate: From a module (or a state) to a number, or to several by name.
        data: Unlabeled batches, from which the statistics of batch norm are computed at each point.
        cache: A file that remembers values.
        workers: Processes, 0 for this one; or an executor, which is not shut down.
        progress: How to show how far it is; see `transfuse.progress.watching`.
    """

    evaluate: Evaluate
    data: Any = None
    cache: str | os.PathLike[str] | None = None
    workers: Workers = 0
    progress: Progress = False

    def __post_init__(self) -> None:
        """Check everything that can be checked before anything is measured."""
        check_arguments(
            evaluate=(self.evaluate, EVALUATE), cache=(self.cache, optional(PATH)), workers=(self.workers, WORKERS),
            progress=(self.progress, PROGRESS),
        )  # fmt: skip
        if self.data is not None:
            with private_randomness(0):  # a loader that shuffles draws numbers
                object.__setattr__(self, "data", Batches.of(self.data))

    def measure(self, family: Family, points: Sequence[Coefficients], label: str) -> Known:
        """The number of each point and its values: first what the cache knows, then the others, about in order."""
        if self.data is not None and family.model is None:
            raise InputError(
                "data corrects batch norm in modules, but these networks are states; give modules, or leave out data"
            )
        if self.data is None and interpolates_statistics(family.model, points):
            warn_caller(INTERPOLATED, StatisticsWarning)
        cache = Cache(self.cache)
        kind = "" if self.data is None else " with data"  # other values, maybe only a little so
        keys = [key_of(family.fingerprints, point) + kind for point in points] if self.cache is not None else []
        known = [number for number, key in enumerate(keys) if key in cache.values]
        if known:
            self._check(cache, keys[known[0]], value_at(family, self.evaluate, self.data, points[known[0]]))
        yield from ((number, cache.values[keys[number]]) for number in known)
        missing = sorted(set(range(len(points))) - set(known))
        names = set(cache.values[keys[known[0]]]) if known else None
        with watching(self.progress, label) as watch:
            for done, (number, values) in enumerate(self._measured(family, points, missing), start=1):
                names = names or set(values)
                if set(values) != names:
                    raise InputError(
                        f"evaluate gave {_listed(values)} at one point and {_listed(names)} at another; "
                        "it must give the same names everywhere"
                    )
                if keys:
                    cache.remember(keys[number], values)
                watch(f"{len(missing)} networks", done, len(missing))
                yield number, values

    def _measured(self, family: Family, points: Sequence[Coefficients], missing: Sequence[int]) -> Known:
        job = partial(value_at, family, self.evaluate, self.data)
        on_cpu = all(tensor.device.type == "cpu" for tensor in family.states[0].values())  # a GPU cannot be forked
        for place, values in spread(job, [points[number] for number in missing], self.workers, fork=on_cpu):
            yield missing[place], values

    def _check(self, cache: Cache, key: str, values: Values) -> None:
        """Compare one cached point with what `evaluate` gives now, for the file cannot know what filled it."""
        before = cache.values[key]
        if before.keys() != values.keys() or any(
            not math.isclose(before[name], values[name], rel_tol=SAME, abs_tol=1e-9)
            for name in values
            if math.isfinite(before[name]) or math.isfinite(values[name])
        ):
            raise InputError(
                f"{cache.path} was filled by another evaluate or with other data: at one point it holds {before}, and "
                f"evaluate gives {values}; give another file as cache"
            )


def interpolates_statistics(model: nn.Module | None, points: Sequence[Coefficients]) -> bool:
    """Whether some point is no network itself, and these networks have batch norm with running statistics."""
    return model is not None and any(1.0 not in point for point in points) and bool(norms_of(model))


def value_at(family: Family, evaluate: Evaluate, data: Any, point: Coefficients) -> Values:
    """The values of the network at one point, with the statistics of batch norm computed from data if there is any."""
    with torch.no_grad(), private_randomness(0):
        network = family.at(point)
        if data is not None and isinstance(network, nn.Module) and norms_of(network):
            network = correct(network, data, method="batchnorm")
        return named(evaluate(network))


def named(result: Any) -> Values:
    """What `evaluate` gave, as numbers by name; a number without a name is called `value`.

    Example:
        >>> named(2), named({"loss": torch.tensor(0.5)})
        ({'value': 2.0}, {'loss': 0.5})
    """
    entries: Mapping[Any, Any] = result if isinstance(result, Mapping) else {"value": result}
    wrong = {name: value for name, value in entries.items() if not _is_number(value)}
    if wrong or not entries:
        got = ", ".join(f"{name}: {type(value).__name__}" for name, value in wrong.items()) or "nothing"
        raise InputError(f"evaluate gave {got}; expected a number, or a dict of numbers by name")
    return {str(name): float(value) for name, value in entries.items()}


def _is_number(value: Any) -> bool:
    if isinstance(value, Tensor):
        return value.numel() == 1 and not value.is_complex()
    return isinstance(value, Real | np.number)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
