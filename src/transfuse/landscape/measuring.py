"""Values at points between networks: in this process or in several, remembered, with the time that is left.

In: a family of networks and coefficients. Out: values, in the order in which they become known. Every point sees the
same random numbers, and the random state of the caller stays as it was.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..activations import Batches
from ..corrections import correct
from ..corrections.batch_norm import norms_of
from ..errors import InputError
from ..progress import Progress, watching
from .cache import Cache, Values, key_of
from .combining import Coefficients, Family

Evaluate = Callable[[Any], Any]
Known = Iterator[tuple[int, Values]]
SAME = 0.01  # relative: a cached value that differs by more was not made by this `evaluate`


@dataclass(frozen=True, eq=False)
class Survey:
    """How points are measured.

    Args:
        evaluate: From a module (or a state) to a number, or to several by name.
        data: Unlabeled batches, from which the statistics of batch norm are computed at each point.
        cache: A file that remembers values.
        workers: Processes; 0 for this one.
        progress: Tell on stderr how long it will take.
    """

    evaluate: Evaluate
    data: Any = None
    cache: str | os.PathLike[str] | None = None
    workers: int = 0
    progress: Progress = False

    def __post_init__(self) -> None:
        """Refuse what cannot work before work starts."""
        if not callable(self.evaluate):
            raise InputError(f"evaluate is {type(self.evaluate).__name__}; expected a function of a model")
        if self.workers < 0:
            raise InputError(f"workers is {self.workers}; expected 0 (this process) or more")
        if self.data is not None:
            with private_randomness():  # a loader that shuffles draws numbers
                object.__setattr__(self, "data", Batches.of(self.data))

    def measure(self, family: Family, points: Sequence[Coefficients], label: str) -> Known:
        """The number of each point and its values: first what the cache knows, then the others, about in order."""
        if self.data is not None and family.model is None:
            raise InputError("data corrects batch norm in modules; these networks are states: give modules, or no data")
        cache = Cache(self.cache)
        kind = "" if self.data is None else " with data"  # other values, maybe only a little so
        keys = [key_of(family.fingerprints, point) + kind for point in points] if self.cache is not None else []
        known = [number for number, key in enumerate(keys) if key in cache.values]
        if known:
            self._check(cache, keys[known[0]], value_at(family, self.evaluate, self.data, points[known[0]]))
        yield from ((number, cache.values[keys[number]]) for number in known)
        missing = sorted(set(range(len(points))) - set(known))
        names = set(cache.values[keys[known[0]]]) if known else None
        started = time.monotonic()
        with watching(self.progress, label) as watch:
            for done, (number, values) in enumerate(self._measured(family, points, missing), start=1):
                names = names or set(values)
                if set(values) != names:
                    raise InputError(f"evaluate gave {_listed(values)} at one point and {_listed(names)} at another")
                if keys:
                    cache.remember(keys[number], values)
                watch(told_time(done, len(missing), time.monotonic() - started), done, len(missing))
                yield number, values

    def _measured(self, family: Family, points: Sequence[Coefficients], missing: Sequence[int]) -> Known:
        if not self.workers or len(missing) < 2:
            yield from ((number, value_at(family, self.evaluate, self.data, points[number])) for number in missing)
            return
        pool = _pool(min(self.workers, len(missing)), (family, self.evaluate, self.data))
        try:
            futures = {pool.submit(_work, points[number]): number for number in missing}
            for future in as_completed(futures):
                yield futures[future], future.result()
        finally:
            pool.shutdown(cancel_futures=True)  # after an error or Ctrl-C the rest is not measured

    def _check(self, cache: Cache, key: str, values: Values) -> None:
        """One cached point again: the cache cannot know what `evaluate` is."""
        before = cache.values[key]
        if before.keys() != values.keys() or any(
            not math.isclose(before[name], values[name], rel_tol=SAME, abs_tol=1e-9)
            for name in values
            if math.isfinite(before[name]) or math.isfinite(values[name])
        ):
            raise InputError(
                f"{cache.path} was filled by another evaluate or with other data: at one point it holds {before}, and "
                f"evaluate gives {values}; give another file"
            )


def told_time(done: int, total: int, elapsed: float) -> str:
    """How long the rest takes if it goes as fast as what is done; in the end, how long it took.

    Example:
        >>> told_time(110, 440, 20.0), told_time(1, 101, 37.25), told_time(9, 9, 5.2)
        ('1:00 left', '1:02:05 left', '0:05')
    """
    minutes, seconds = divmod(round(elapsed / done * (total - done) if done < total else elapsed), 60)
    hours, minutes = divmod(minutes, 60)
    clock = f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
    return f"{clock} left" if done < total else clock


def value_at(family: Family, evaluate: Evaluate, data: Any, point: Coefficients) -> Values:
    """The values at one point."""
    with torch.no_grad(), private_randomness():
        network = family.at(point)
        if data is not None and isinstance(network, nn.Module) and norms_of(network):
            network = correct(network, data, method="batchnorm")
        return named(evaluate(network))


def named(result: Any) -> Values:
    """What evaluate gave, as numbers by name; one alone is called `value`.

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


@contextmanager
def private_randomness() -> Iterator[None]:
    """The same random numbers each time; the caller's random states are put back."""
    python, numpy = random.getstate(), np.random.get_state()
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    try:
        with torch.random.fork_rng(devices=list(devices)):
            random.seed(0)
            np.random.seed(0)
            torch.default_generator.manual_seed(0)
            if devices:
                torch.cuda.manual_seed_all(0)
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)


_job: Callable[[Coefficients], Values]


def _pool(workers: int, job: tuple[Family, Evaluate, Any]) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(workers, multiprocessing.get_context(_start_method(job[0])), _start, job)


def _start_method(family: Family) -> str:
    """Processes share the job's memory where they can: forked on Linux, as DataLoader's are; not with a GPU."""
    on_cpu = all(tensor.device.type == "cpu" for tensor in family.states[0].values())
    return "fork" if sys.platform == "linux" and on_cpu else "spawn"


def _start(family: Family, evaluate: Evaluate, data: Any) -> None:
    """Begin as a worker: one thread, for the others have the other cores; and no life without the parent."""
    global _job  # noqa: PLW0603
    torch.set_num_threads(1)
    _job = partial(value_at, family, evaluate, data)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _work(point: Coefficients) -> Values:
    return _job(point)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
