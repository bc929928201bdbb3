"""Who helps with the work that a verb can spread: --workers and --scheduler."""

from __future__ import annotations

from argparse import Namespace
from contextlib import AbstractContextManager, nullcontext

from ..errors import InputError
from ..workers import Workers, dask_executor


def workers_of(options: Namespace) -> AbstractContextManager[Workers]:
    """Who helps: processes of this machine, or a Dask cluster.

    Raises:
        InputError: both are asked for, or no scheduler answers.
    """
    if not options.scheduler:
        return nullcontext(options.workers)
    if options.workers:
        raise InputError("--workers are processes of this machine, --scheduler names a cluster; give one of them")
    return dask_executor(options.scheduler)
