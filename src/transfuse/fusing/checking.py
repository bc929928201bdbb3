"""What is refused before any work is done: states, proportions, widths and methods that cannot be.

In: what the user gave. Out: the same, checked and filled in, or one error with everything that is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from math import inf
from typing import Any

import torch
from torch import Tensor, nn

from ..arguments import told
from ..barycenter import Couplings
from ..errors import InputError, LayoutError, TraceWarning, WidthWarning, listing, warn_caller
from ..layout import Layout
from ..lazy import entries_of
from ..methods import Method
from ..modules import place_of, shares_of
from ..types import State
from .heads import JOIN, RETURNED
from .known import known_couplings
from .widths import Widths, named_widths, target_widths

MET = "its positions meet different inputs"  # how the tracer says why what reads inputs stays where it is


def network_list(models: Any) -> list[nn.Module]:
    """The networks in a list of one or more.

    Raises:
        InputError: it is something else; one module is not taken for the list of its parts.
    """
    if isinstance(models, nn.Module):
        raise InputError(
            f"models is a module ({type(models).__name__}), whose parts would be taken for networks; pass a list of "
            "networks: [a, b]"
        )
    if isinstance(models, Mapping) or (
        isinstance(models, list | tuple) and any(isinstance(m, Mapping) for m in models)
    ):
        raise InputError(
            "models are states (dicts of tensors by name), which do not say what is done with them; pass modules, or "
            "fuse states with a layout: transfuse.fuse_states([a, b], layout)"
        )
    given = list(models) if isinstance(models, Iterable) and not isinstance(models, Mapping | str | Set) else []
    strange = sorted({type(model).__name__ for model in given if not isinstance(model, nn.Module)})
    if not given or strange:
        got = f"holds {', '.join(strange)}" if strange else f"is {told(models)}"
        raise InputError(f"models {got}; expected a list of one or more torch.nn.Module: [a, b]")
    return given


def check_fit(layout: Layout, states: Sequence[State]) -> None:
    """Hold states against a layout, and say what it means where numbers of inputs or outputs differ.

    Raises:
        LayoutError: with every mismatch of every state.
    """
    try:
        layout.check(*states)
    except LayoutError as error:
        raise LayoutError(f"{error}{told_inputs(layout, states)}{told_classes(layout, states)}") from error


def told_classes(layout: Layout, states: Sequence[State]) -> str:
    """What is said of models with different numbers of outputs, as a further line; nothing if they have the same."""
    for name, found in _differing(layout, states, RETURNED):
        return (
            f"\nThe models have {found} outputs (classes; see {name}): outputs are never matched, for each has its "
            f"meaning. Pass heads={JOIN!r} (--heads {JOIN}) for a network with the outputs of all, and classes= if "
            "they share some"
        )
    return ""


def told_inputs(layout: Layout, states: Sequence[State]) -> str:
    """What is said of models that read different numbers of inputs, as a further line; nothing if all read the same."""
    for name, found in _differing(layout, states, MET):
        return f"\nThe models read {found} inputs (see {name}): only networks that read the same inputs can be fused"
    return ""


def _differing(layout: Layout, states: Sequence[State], why: str) -> Iterator[tuple[str, str]]:
    """The tensors of which an axis is fixed for some reason and has different lengths, with these lengths."""
    shapes = [{name: entry.shape for name, entry in entries_of(state).items()} for state in states]
    for name, axes in layout.fixed.items():
        for axis in (axis for axis, reason in axes.items() if reason.startswith(why)):
            found = [own[name][axis] for own in shapes if len(own.get(name, ())) > axis]
            if len(set(found)) > 1:
                yield name, ", ".join(map(str, found))


@dataclass(frozen=True, eq=False)
class Ready:
    """States that fit their layout, with proportions and widths of the target that can be: what the pipeline takes.

    Args:
        states: One or more, plain or lazy.
        layout: Which axes move together; whoever brings the states has held them against it.
        shares: Proportions of the states, summing to 1.
        widths: Widths of the target, for every space.
        asked: Spaces whose width was asked for; the others have that of the first model.
        known: For each state couplings that are known to be near, or None; nothing if none are known.
        apart: Names of tensors that do not count where scales are balanced: of blocks that not all models have.
    """

    states: Sequence[State]
    layout: Layout
    shares: Sequence[float]
    widths: Mapping[str, int]
    asked: frozenset[str] = frozenset()
    known: Sequence[Couplings | None] = ()
    apart: frozenset[str] = frozenset()

    @staticmethod
    def of(
        states: Sequence[State], layout: Layout, *, weights: Sequence[float] | None = None,
        widths: Widths | None = None, couplings: Sequence[State | None] | None = None,
    ) -> Ready:  # fmt: skip
        """States that fit a layout, with proportions (default: equal), widths of the target, known couplings.

        Raises:
            InputError: there are other numbers of weights, the target cannot have these widths, or couplings do not
                fit.
        """
        shares = shares_of(weights, len(states))
        own = layout.widths(states[0])
        asked = named_widths(own, {} if widths is None else widths)
        wanted = target_widths(layout, own, asked)
        known = known_couplings(couplings, states, layout, wanted)
        return Ready(states, layout, shares, wanted, frozenset(asked), known)

    def layout_for(self, row: Method) -> Layout:
        """The layout as a method uses it: with rotations if it rotates, and all models have the target's widths.

        Couplings that are known permute or merge units, so nothing rotates beside them.
        """
        equal = all(self.layout.widths(state) == dict(self.widths) for state in self.states)
        rotates = row.rotations and equal and all(known is None for known in self.known)
        return self.layout if rotates else self.layout.without_rotations()


def warn_of_the_unmoved(ready: Ready) -> None:
    """Warn that nothing is matched: no unit of networks that have layers between their inputs and outputs can move."""
    matrices = [name for name, entry in entries_of(ready.states[0]).items() if len(entry.shape) > 1]
    if ready.layout.spaces or len(ready.states) < 2 or len(matrices) < 2:
        return
    reasons = [
        f"{name}, axis {axis}: {why}" for name in matrices for axis, why in ready.layout.fixed.get(name, {}).items()
    ]
    headline = "no unit of these networks can move, so weights are averaged as they are. The first reasons:"
    warn_caller(
        f"{listing(headline, reasons[:3])}\nlayout.fixed has all of them. Say what counts as output (outputs=) where "
        "hidden states are returned, and wrap a network that takes them as inputs, so that it starts from zeros",
        TraceWarning,
    )


def warn_of_widths(ready: Ready) -> None:
    """Warn of models that compute something else in the widths of the target.

    Narrower ones that cannot be widened; and wider ones, whose units merge, unless that very width was asked for.
    """
    problems = []
    for number, state in enumerate(ready.states, start=1):
        own = ready.layout.widths(state)
        objections = [ready.layout.growth_objection(name, own[name], width) for name, width in ready.widths.items()]
        objections += [
            f"space {name} has {own[name]} units, which merge into {width}; put the widest model first, or pass target"
            for name, width in ready.widths.items()
            if own[name] > width and name not in ready.asked
        ]
        problems += [f"model {number}: {objection}" for objection in objections if objection]
    if problems:
        warn_caller(listing("models that do not compute the same in the widths of the target:", problems), WidthWarning)


def check_states(states: Sequence[State], layout: Layout, kind: torch.dtype) -> None:
    """Finite numbers, none too large for the working type, the same constants, shared memory only where allowed.

    Raises:
        InputError: with everything that is wrong.
    """
    problems = []
    largest = torch.finfo(kind).max ** 0.5
    for number, state in enumerate(states, start=1):
        problems += [f"model {number}: {text}" for text in _shared(state, layout)]
        for name, tensor in state.items():
            moves = any(axis.spaces for axis in layout.tensors[name])
            if tensor.is_complex() and moves:
                problems.append(
                    f"model {number}: tensor {name} is complex, and units that move are matched by real numbers; keep "
                    "it as a real parameter [..., 2] with torch.view_as_complex in forward, or fix its axes"
                )
            if tensor.is_floating_point() or tensor.is_complex():
                texts = _unsafe(tensor, largest if moves else inf)
                if texts and not moves and all(_same_fixed(tensor, other[name]) for other in states):
                    continue
                problems += [f"model {number}: tensor {name} {text}" for text in texts]
            elif not name.endswith("num_batches_tracked") and not torch.equal(tensor, states[0][name]):
                problems.append(f"model {number}: tensor {name} ({tensor.dtype}) differs from that of model 1")
    if problems:
        raise InputError(listing("these models cannot be fused:", problems))


def _same_fixed(tensor: Tensor, other: Tensor) -> bool:
    """Whether a tensor in which no unit moves is infinite where that of another model is: a causal mask, say.

    NaN is no constant that anybody means.
    """
    same = tensor.shape == other.shape and torch.equal(tensor.isfinite(), other.isfinite())
    return same and bool((tensor.isfinite() | (tensor == other)).all())


def _unsafe(tensor: Tensor, largest: float) -> list[str]:
    """What is wrong with the numbers of a tensor. If their norm is small enough, none is, and no sum of products."""
    flat = tensor.detach().reshape(-1)
    if tensor.dtype in (torch.float32, torch.float64):
        small = float(torch.dot(flat, flat)) < largest**2  # half the time of the norm
    else:
        small = float(torch.linalg.vector_norm(flat)) < largest
    if small:
        return []
    if not tensor.isfinite().all():
        return ["holds NaN or infinity (infinity is taken where no unit moves and all models hold the same, as masks)"]
    norm = float(torch.linalg.vector_norm(tensor.double())) if largest < inf else 0.0
    return [] if norm < largest else [f"has a norm of {norm:.2g}, too large for sums of products; use float64"]


def _shared(state: State, layout: Layout) -> list[str]:
    """Tensors that share memory and would be carried in different ways: one cannot hold both results."""
    found: dict[int, str] = {}
    problems = []
    for name, tensor in state.items():
        if not tensor.numel():
            continue
        other = found.setdefault(tensor.untyped_storage().data_ptr(), name)
        twin = state[other]
        if other == name or not _overlap(tensor, twin):
            continue
        if place_of(tensor) != place_of(twin):
            problems.append(f"tensor {name} overlaps {other} in memory without being the same; clone one of them")
        elif layout.tensors[name] != layout.tensors[other]:
            problems.append(
                f"tensors {name} and {other} are one in memory, but the layout moves them differently; give both the "
                "same axes, or clone one of them"
            )
    return problems


def _overlap(one: Tensor, other: Tensor) -> bool:
    """Whether the spans of two tensors in one storage meet."""
    spans = []
    for tensor in (one, other):
        steps = (stride * (length - 1) for stride, length in zip(tensor.stride(), tensor.shape, strict=True))
        spans.append((tensor.data_ptr(), tensor.data_ptr() + tensor.element_size() * (1 + sum(steps))))
    return spans[0][0] < spans[1][1] and spans[1][0] < spans[0][1]
