"""`trace`: a module and example inputs in, a proved layout out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ..arguments import FUNCTION, NETWORK, SEED, SWITCH, check_arguments, instance, mapping, optional
from ..errors import InputError, ProofError, TraceWarning, listing, warn_caller
from ..layout import Layout
from ..modules import (
    Arguments,
    canonical_names,
    check_model,
    check_runs,
    first_line,
    model_state,
    undisturbed,
    unwrapped,
    without_caches,
)
from ..types import State
from .branches import Question, Questions, Unseen, Way, explored
from .pairing import with_frames, without_planes
from .proof import verify
from .reading import Reading, Unknown, read
from .recording import Recorder, Recording, record, recorded
from .resolving import resolve
from .rotating import with_rotations
from .rules import RULES, Rule
from .sharing import with_members, without_members
from .tying import tying_vectors
from .untaken import Unused, without_untaken

RULE_TABLE = mapping(FUNCTION, "rules by operation: {'library::op': rule}")


def trace(  # noqa: PLR0913
    model: nn.Module,
    example_inputs: Any,
    *,
    rules: Mapping[str, Rule] | None = None,
    unknown: Unknown = "fix",
    proof: bool = True,
    recorder: Recorder | None = None,
    outputs: Callable[[Any], Any] | None = None,
    unused: Unused = "fix",
) -> Layout:
    """Find which axes of which tensors of a network move together, and prove it.

    Args:
        model: Any module. It is left as it was: mode, hooks, gradients, and the random state.
        example_inputs: A tensor, a tuple of positional arguments, or a dict of keyword arguments.
        rules: Rules for further operations, or other rules for known ones: `{"library::op": rule}`.
        unknown: What to do with an operation without a rule: "fix" all units that it touches (and say so in
            `layout.fixed`), or "raise".
        proof: Move units at random by the layout found and check that the outputs stay the same.
        recorder: "export" or "eager"; default: export, and eager recording where export refuses.
        outputs: What counts as the model's output, from what it returns, where that is not all of it or cannot be
            looked into: `lambda result: result.logits`, or `lambda result: model.last` of what it only remembers.
        unused: What to do with spaces that could meet tensors which the example inputs do not reach (another expert, an
            optional argument, an auxiliary head): "fix" them, or "move" them, and these tensors with them where it is
            clear how. A `TraceWarning` says which.

    Raises:
        InputError: the model or the inputs cannot be used as they are.
        TraceError: the model cannot be recorded, or (with `unknown="raise"`) an operation has no rule.
        ProofError: the layout found is wrong, which means that a rule is; the message names the spaces.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> net = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))
        >>> print(trace(net, torch.randn(4, 3)))
        spaces:
          0.out: 5 signs
        tensors:
          0.weight: [0.out, 3]
          0.bias:   [0.out]
          2.weight: [2, < 0.out]
          2.bias:   [2]
        fixed:
          0.weight: {1: 'its positions meet different inputs or constants, aten.linear.default'}
          2.weight: {0: is returned by the model}
          2.bias:   {0: is returned by the model}
    """
    _check_option("recorder", recorder, (None, "export", "eager"))
    _check_option("unknown", unknown, ("fix", "raise"))
    _check_option("unused", unused, ("fix", "move"))
    check_arguments(
        model=(model, NETWORK), rules=(rules, optional(RULE_TABLE)), proof=(proof, SWITCH),
        outputs=(outputs, optional(FUNCTION)),
    )  # fmt: skip
    model = unwrapped(model)
    check_model(model)
    inputs = Arguments.of(example_inputs)
    with undisturbed(model):
        state = model_state(model)  # here, where no other thread is recording this model
        # Without a choice all counts but what a network of `transformers` remembers; hooks go with what is put back.
        pick = outputs or (without_caches if getattr(getattr(model, "config", None), "use_cache", False) else None)
        if pick is not None:
            model.register_forward_hook(lambda module, args, result: pick(result))
        check_runs(model, state, inputs)
        first = record(model, state, inputs, recorder)
        ways, unseen = _other_ways(model, state, inputs, first)
        with _on_cpu():
            table, recordings = {**RULES, **(rules or {})}, [first, *ways.values()]
            again = partial(read, recordings, state, rules=table, unknown=unknown)
            more = [
                partial(each, recordings, state, rules=table, unknown=unknown) for each in (with_rotations, with_frames)
            ]
            layout, warning = _resolved(again, state, unused, more)
        if not proof:
            layout = without_members(without_planes(layout))
        else:
            layout = _proved(model, state, inputs, layout)
            unseen += _unproved(model, state, inputs, layout, ways)
    for text in filter(None, [warning, _told(unseen)]):
        warn_caller(text, TraceWarning)
    return layout


def _proved(model: nn.Module, state: State, inputs: Arguments, layout: Layout) -> Layout:
    """The layout, proved; without members and planes inside of units where these are refuted: they are conjectures."""
    plain = without_members(without_planes(layout))
    for bolder in (layout, without_members(layout), without_planes(layout)):
        if bolder != plain:
            with suppress(ProofError):  # what is left is proved below
                verify(model, state, inputs, bolder)
                return bolder
    verify(model, state, inputs, plain)
    return plain


def _other_ways(
    model: nn.Module, state: State, inputs: Arguments, first: Recording
) -> tuple[dict[Way, Recording], list[Unseen]]:
    """Recordings of ways that the example does not take, where the truth of values decides, and what is not seen."""
    found: dict[Way, Recording] = {}

    def follow(turned: Way) -> Mapping[Question, int]:
        """Record one way; what was asked on it."""
        with undisturbed(model):
            found[turned] = recorded(model, state, inputs.map(torch.clone), turned)
        return found[turned].asked

    unseen = explored(first.asked, follow)
    return found, unseen


def _unproved(model: nn.Module, state: State, inputs: Arguments, layout: Layout, ways: Iterable[Way]) -> list[Unseen]:
    """Ways that the example does not take and on which the layout does not hold, or cannot be tried."""
    found = []
    for turned in ways:
        try:
            with undisturbed(model), Questions(turned) as questions:
                # Every run asks anew; the hook goes with all else that is put back.
                model.register_forward_pre_hook(lambda *_: questions.asked.clear())
                verify(model, state, inputs, layout)
        except Exception as error:  # numbers that this way was never meant for: told, and the way of the example counts
            found.append(Unseen(turned.last, first_line(error)))
    return found


def _told(unseen: Sequence[Unseen]) -> str:
    """The warning of ways that could not be looked at; empty if there are none."""
    if not unseen:
        return ""
    return (
        listing(
            "the forward pass goes one way or another by its values, and not every way could be looked at:",
            list(map(str, unseen)),
        )
        + "\nWhere such a way treats units one by one, moving them changes what it computes: pass example inputs that "
        "take it, or fix these spaces in the layout"
    )


def _on_cpu() -> AbstractContextManager[object]:
    """New tensors on the CPU, whatever the default device is: labels are computed there.

    A tensor is asked for the default: `torch.get_default_device` of torch 2.8 fails once it was set and unset.
    """
    return nullcontext() if torch.empty(0).device.type == "cpu" else torch.device("cpu")


def _resolved(
    again: Callable[..., Reading], state: State, unused: Unused,
    more: Sequence[Callable[[Layout, Mapping[str, str]], Layout]],
) -> tuple[Layout, str]:  # fmt: skip
    """The layout of what is read, again and again, right for branches that were not taken, and a warning."""
    shapes, canonical = {name: tuple(tensor.shape) for name, tensor in state.items()}, canonical_names(state)
    reading = again()
    layout = resolve(reading, shapes, canonical)
    if tying := tying_vectors(reading, layout, shapes):
        freed = again(still=tying)
        freer = resolve(freed, shapes, canonical)
        if sum(freer.units.values()) > sum(layout.units.values()):
            reasons = {name: layout.fixed[name] for name in tying if name in layout.fixed}
            reading, layout = freed, replace(freer, fixed={**freer.fixed, **reasons})
    for further in more:
        layout = further(layout, canonical)
    layout = with_members(layout)
    left_out = [name for name in state if canonical[name] not in reading.used and _may_move(state[name])]
    return without_untaken(reading, layout, {name: shapes[name] for name in left_out}, unused)


def _may_move(tensor: Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def prove(model: nn.Module, example_inputs: Any, layout: Layout, *, seed: int = 0) -> None:
    """Prove a layout, traced or written by hand: units moved at random leave the outputs of the network as they were.

    Raises:
        LayoutError: the network's tensors do not fit the layout.
        ProofError: the layout is wrong for this network; the message names the spaces.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> net = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2))
        >>> x = torch.randn(4, 3)
        >>> prove(net, x, trace(net, x))
    """
    check_arguments(model=(model, NETWORK), layout=(layout, instance(Layout, "a Layout")), seed=(seed, SEED))
    model = unwrapped(model)
    check_model(model)
    inputs = Arguments.of(example_inputs)
    with undisturbed(model):
        state = model_state(model)
        layout.check(state)
        check_runs(model, state, inputs)
        verify(model, state, inputs, layout, seed=seed)


def _check_option(name: str, value: object, known: tuple[object, ...]) -> None:
    if not any(value is each or (isinstance(value, str) and value == each) for each in known):
        raise InputError(f"{name} is {value!r}; expected one of {', '.join(map(repr, known))}")
