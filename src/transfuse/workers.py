"""Work that is spread: over processes of this machine, or over whatever an executor of the user's stands for.

In: a job, which is a function of a point, and points. Out: what the job gives at each of them, in the order in which it
becomes known (`spread`: many points, one large job) or in theirs (`mapped`: few points that are large themselves). An
executor is anything that `concurrent.futures` calls so: of Dask, Ray, MPI or Slurm;
nothing is known of it here but `submit`. Not here: servers and protocols.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from typing import Any, TypeAlias

import torch

from .arguments import count, either, instance
from .errors import InputError

Workers: TypeAlias = int | Executor
Job = Callable[[Any], Any]
WORKERS = either(count(0), instance(Executor, "a concurrent.futures.Executor"))
# Pieces that the points are cut into for an executor, each with a copy of the networks: few enough that these are sent
# seldom, many enough that dozens of workers have something to do and a lost one loses little.
PIECES = 64
CONNECTING = 15  # seconds to wait for a scheduler


def spread(job: Job, points: Sequence[Any], workers: Workers, *, fork: bool) -> Iterator[tuple[int, Any]]:
    """What a job gives at each point, by its number; after an error or Ctrl-C the rest is not done.

    Args:
        job: A function of a point. For an executor it must be possible to pickle it.
        points: What it is given.
        workers: How many processes; 0 for this one. Or an executor.
        fork: Whether processes may begin as copies of this one, where the system can do so.
    """
    if isinstance(workers, Executor):
        yield from _in_executor(job, points, workers)
    elif not workers or len(points) < 2:
        yield from ((number, job(point)) for number, point in enumerate(points))
    else:
        yield from _in_processes(job, points, min(workers, len(points)), fork=fork)


def _in_executor(job: Job, points: Sequence[Any], executor: Executor) -> Iterator[tuple[int, Any]]:
    """Piece by piece: every piece takes the job along, so that nothing must be there before, wherever it is done."""
    packed = _packed(job)
    numbers = range(len(points))
    pieces = [numbers[start::PIECES] for start in range(min(PIECES, len(points)))]
    futures: dict[Future[list[Any]], range] = {
        executor.submit(_piece, packed, [points[number] for number in piece]): piece for piece in pieces
    }
    try:
        for future in as_completed(futures):
            yield from zip(futures[future], future.result(), strict=True)
    finally:
        for future in futures:
            future.cancel()  # the executor is the user's, and stays


@contextmanager
def executing(workers: Workers) -> Iterator[Executor | None]:
    """An executor for `mapped`: the user's own, which stays; processes of this machine, which end; None for 0.

    Processes are forked on Linux: they begin at once, and are told by bytes alone what to do.
    """
    if isinstance(workers, Executor) or not workers:
        yield workers if isinstance(workers, Executor) else None
        return
    method = "fork" if sys.platform == "linux" else "spawn"
    pool = ProcessPoolExecutor(workers, multiprocessing.get_context(method), _begin)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def mapped(job: Job, points: Sequence[Any], executor: Executor | None) -> list[Any]:
    """What a job gives for each point, in their order, as `map` does; on an executor, or here where there is none.

    Both ways go as bytes: tensors that are shared between processes need files that stay open.
    """
    if executor is None or len(points) < 2:
        return [job(point) for point in points]
    futures = [executor.submit(_unpacked, _packed((job, point))) for point in points]
    try:
        return [pickle.loads(future.result()) for future in futures]
    finally:
        for future in futures:
            future.cancel()


def _unpacked(packed: bytes) -> bytes:
    """What a job gives for one point, both of them packed."""
    job, point = pickle.loads(packed)
    return pickle.dumps(job(point))


def _packed(job: Any) -> bytes:
    """A job as bytes; by cloudpickle, where that is installed, functions without a name can be sent too.

    Raises:
        InputError: it cannot be pickled.
    """
    try:
        from cloudpickle import dumps
    except ImportError:
        dumps = pickle.dumps
    try:
        return bytes(dumps(job))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise InputError(
            f"evaluate, data or the networks cannot be sent to the workers of an executor ({error}); define evaluate "
            "in a module that the workers have too, or install cloudpickle"
        ) from error


def _piece(packed: bytes, points: Sequence[Any]) -> list[Any]:
    """What a job gives at some points; every piece has its own copy of the job, for networks are written to."""
    job = pickle.loads(packed)
    return [job(point) for point in points]


_job: Job


def _in_processes(job: Job, points: Sequence[Any], workers: int, *, fork: bool) -> Iterator[tuple[int, Any]]:
    """In processes of this machine: forked on Linux, where they share the job's memory, as DataLoader's do."""
    method = "fork" if sys.platform == "linux" and fork else "spawn"
    pool = ProcessPoolExecutor(workers, multiprocessing.get_context(method), _start, (job,))
    try:
        futures = {pool.submit(_work, point): number for number, point in enumerate(points)}
        for future in as_completed(futures):
            yield futures[future], future.result()
    finally:
        pool.shutdown(cancel_futures=True)


def _start(job: Job) -> None:
    """Begin as a worker that does one job at many points."""
    global _job  # noqa: PLW0603
    _begin()
    _job = job


def _begin() -> None:
    """Begin as a worker: with one thread, since other workers use the other cores; and end when the parent does."""
    torch.set_num_threads(1)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _work(point: Any) -> Any:
    return _job(point)


@contextmanager
def dask_executor(address: str) -> Iterator[Executor]:
    """The executor of the Dask scheduler at an address, such as `tcp://10.0.0.1:8786`.

    Raises:
        InputError: Dask is not installed, or nothing answers there.
    """
    try:
        from distributed import Client
    except ImportError as error:
        raise InputError(f"a scheduler needs Dask: pip install 'transfuse[distributed]' ({error})") from error
    try:
        client = Client(address, timeout=CONNECTING)
    except (OSError, ValueError) as error:
        raise InputError(f"no Dask scheduler answers at {address} ({error}); start one by `dask scheduler`") from error
    with client:
        yield client.get_executor(pure=False)
