"""Guards: modules and random states are afterwards as they were before, whatever is done in between.

There is one guard of evaluation mode, one of random states, and one that does both and keeps everything else too. Modes
and random states belong to the whole process, so no two threads are inside a guard at the same time.
"""

from __future__ import annotations

import os
import random
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import torch
from torch import nn

from .writes import copied, watched

_lock = threading.RLock()
if hasattr(os, "register_at_fork"):  # a child has none of the threads that might hold it
    os.register_at_fork(after_in_child=_lock._at_fork_reinit)  # type: ignore[attr-defined]


@contextmanager
def alone() -> Iterator[None]:
    """No other thread is inside a guard: while networks are run, recorded or copied, nobody else changes them."""
    with _lock:
        yield


@contextmanager
def undisturbed(*models: nn.Module, briefly: bool = False) -> Iterator[None]:
    """Evaluation mode, no gradients and no warnings; modules, tensors and random states are put back afterwards.

    Args:
        *models: What is put back.
        briefly: Only a few forward passes are made inside: tensors are copied when something might write to them, not
            all of them beforehand. Scripted code, which cannot be watched, has them copied all the same.
    """
    with alone():
        yield from _undisturbed(models, briefly)


def _undisturbed(models: Sequence[nn.Module], briefly: bool) -> Iterator[None]:
    """Run what is inside in evaluation mode, and put back modules, tensors, randomness and settings."""
    parts = [module for model in models for module in model.modules()]
    modules = [_module_kept(module) for module in parts]
    tensors = [tensor for model in models for tensor in (*model.parameters(), *model.buffers())]
    scripted = any(isinstance(module, torch.jit.ScriptModule) for module in parts)
    guard = watched(tensors) if briefly and not scripted else copied(tensors)
    fast_path = torch.backends.mha.get_fastpath_enabled()
    try:
        with guard, private_randomness(), evaluating(*models), torch.no_grad(), _no_warnings():
            torch.backends.mha.set_fastpath_enabled(False)
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast_path)
        for put_back in modules:
            put_back()


class _InThread:
    """Stands where a filter of warnings has the pattern of its text: it fits all texts in one thread, for a while."""

    def __init__(self) -> None:
        self.thread: int | None = threading.get_ident()

    def match(self, text: str) -> bool:
        """Whether a warning comes from that thread, which is all that counts."""
        return threading.get_ident() == self.thread


@contextmanager
def _no_warnings() -> Iterator[None]:
    """No warnings in this thread; filters of the process are as they are for all others, who may change them too.

    `warnings.catch_warnings` would put back, at the end, what other threads have changed in between.
    """
    ours = _InThread()
    entry = ("ignore", ours, Warning, None, 0)
    warnings.filters.insert(0, entry)  # type: ignore[attr-defined]
    try:
        yield
    finally:
        ours.thread = None  # nothing any more, should a list that still has it be put back by somebody else
        with suppress(ValueError):
            warnings.filters.remove(entry)  # type: ignore[attr-defined]


@contextmanager
def evaluating(*models: nn.Module) -> Iterator[None]:
    """Evaluation mode; the mode of each part of the models is put back afterwards."""
    with alone():
        modes = [(module, module.training) for model in models for module in model.modules()]
        try:
            for model in models:
                model.eval()
            yield
        finally:
            for module, mode in modes:
                module.training = mode


@contextmanager
def private_randomness(seed: int | None = None) -> Iterator[None]:
    """Random numbers of one's own; with a seed, the same ones each time. The caller's random states are put back."""
    with alone():
        put_back = random_states_kept()
        try:
            if seed is not None:
                seed_random_states(seed)
            yield
        finally:
            put_back()


def random_states_kept() -> Callable[[], None]:
    """A function that puts all random states back to what they are now.

    They are those of Python, of NumPy, and of PyTorch on the CPU and on the GPUs that are in use.
    """
    python, numpy, cpu = random.getstate(), np.random.get_state(), torch.get_rng_state()
    gpus = tuple(torch.cuda.get_rng_state_all()) if torch.cuda.is_initialized() else ()

    def put_back() -> None:
        """Set all random states to what they were."""
        random.setstate(python)
        np.random.set_state(numpy)
        torch.set_rng_state(cpu)
        if gpus:
            torch.cuda.set_rng_state_all(gpus)

    return put_back


def seed_random_states(number: int) -> None:
    """Set all random states to what follows from a seed."""
    random.seed(number)
    np.random.seed(number)
    torch.default_generator.manual_seed(number)  # `torch.manual_seed` takes as long as a small network without a GPU
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(number)


def _module_kept(module: nn.Module) -> Callable[[], None]:
    """A function that gives a module its attributes back, and to those that are containers what is in them now."""
    attributes = dict(vars(module))
    contents = {name: _content(value) for name, value in attributes.items() if isinstance(value, dict | list | set)}

    def put_back() -> None:
        """Give the module its attributes again, and these their contents."""
        vars(module).clear()
        vars(module).update(attributes)
        for name, content in contents.items():
            container = attributes[name]
            container.clear()
            container.extend(content) if isinstance(container, list) else container.update(content)

    return put_back


def _content(container: dict[Any, Any] | list[Any] | set[Any]) -> dict[Any, Any] | list[Any] | set[Any]:
    """What is in a container; `copy.copy` of the ordered dicts in every module takes ten times as long."""
    if isinstance(container, dict):
        return dict(container)
    return list(container) if isinstance(container, list) else set(container)
