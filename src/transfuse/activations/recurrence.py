"""Recurrent layers taken apart: one layer and direction at a time, with the pre-activations of their gates.

A call of `lstm`, `gru` or `rnn` shows only hidden states. From these and the inputs the pre-activations of every gate
follow by two matrix products; and given pre-activations, the hidden states follow without any weights. A GRU's
candidate has two parts, `n = tanh(input part + reset * hidden part)`; they are kept apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Recurrence:
    """One recurrent layer in one direction. Sequences are [step, sample, ...], in the order in which they are read.

    Args:
        kind: `lstm`, `gru`, `rnn_tanh` or `rnn_relu`.
        names: Names of the weights: input, hidden, and maybe their biases.
        weights: The weights.
        start: States before the first step [sample, units]: hidden, and the cell of an LSTM.
    """

    kind: str
    names: tuple[str, ...]
    weights: tuple[Tensor, ...]
    start: tuple[Tensor, ...]

    def previous(self, hidden: Tensor) -> Tensor:
        """The hidden state before each step."""
        return torch.cat([self.start[0].unsqueeze(0), hidden[:-1]])

    def pre_activations(self, inputs: Tensor, hidden: Tensor) -> Tensor:
        """What the gates see at each step, [step, sample, gates x units]; a GRU's candidate comes in two parts."""
        linear = torch.nn.functional.linear
        biases = self.weights[2:] or (None, None)
        from_inputs = linear(inputs, self.weights[0], biases[0])
        from_hidden = linear(self.previous(hidden), self.weights[1], biases[1])
        if self.kind != "gru":
            return from_inputs + from_hidden
        units = hidden.shape[-1]
        gates = (from_inputs + from_hidden)[..., : 2 * units]
        return torch.cat([gates, from_inputs[..., 2 * units :], from_hidden[..., 2 * units :]], -1)

    def driven(self, pre_activations: Tensor) -> Tensor:
        """Hidden states [step, sample, units] that follow from pre-activations alone."""
        return torch.stack([states[0] for states in self._states(pre_activations)][1:])

    def squared_slopes(self, pre_activations: Tensor) -> Tensor:
        """How a unit's states after a step change with what its gates see, squared and added over its states.

        States before the step are those that the pre-activations drive.
        """
        return torch.stack([gates.square() for gates, _ in self.slopes(pre_activations)]).sum(0)

    def slopes(self, pre_activations: Tensor) -> list[tuple[Tensor, Sequence[Tensor]]]:
        """How each state of a unit changes, after each step, with what the gates see and with the states before it.

        States before the step are those that the pre-activations drive.
        """
        with torch.inference_mode(mode=False):  # slopes are found by gradients
            before = [torch.stack(each) for each in zip(*self._states(pre_activations)[:-1], strict=True)]
        after = [partial(self._after, number) for number in range(len(before))]
        found = [slopes(each, pre_activations, *before) for each in after]
        return [(gates, states) for gates, *states in found]

    def _after(self, number: int, gates: Tensor, *before: Tensor) -> Tensor:
        """One of the states after each step, from what the gates see and the states before it."""
        return STEPS[self.kind](gates, before)[number]

    def _states(self, pre_activations: Tensor) -> list[Sequence[Tensor]]:
        """States before the first step and after each."""
        found: list[Sequence[Tensor]] = [self.start]
        for step in pre_activations:
            found.append(STEPS[self.kind](step, found[-1]))
        return found


def slopes(function: Callable[..., Tensor], *values: Tensor) -> tuple[Tensor, ...]:
    """How the sum of what a function gives changes with each value: its slopes, where it acts on each place alone."""
    with torch.inference_mode(mode=False), torch.enable_grad():
        own = [each.detach().clone().requires_grad_() for each in values]
        total = function(*(each.clone() for each in own)).sum()  # clones: they may be changed in place
        return torch.autograd.grad(total, own, materialize_grads=True)


def _lstm(step: Tensor, states: Sequence[Tensor]) -> tuple[Tensor, ...]:
    into, forget, candidate, out = step.chunk(4, -1)
    cell = forget.sigmoid() * states[1] + into.sigmoid() * candidate.tanh()
    return out.sigmoid() * cell.tanh(), cell


def _gru(step: Tensor, states: Sequence[Tensor]) -> tuple[Tensor, ...]:
    reset, update, from_inputs, from_hidden = step.chunk(4, -1)
    candidate = (from_inputs + reset.sigmoid() * from_hidden).tanh()
    return (candidate + update.sigmoid() * (states[0] - candidate),)


STEPS: Mapping[str, Callable[[Tensor, Sequence[Tensor]], tuple[Tensor, ...]]] = {
    "lstm": _lstm,
    "gru": _gru,
    "rnn_tanh": lambda step, states: (step.tanh(),),
    "rnn_relu": lambda step, states: (step.relu(),),
}


def layers(
    kind: str, function: Callable[..., Any], args: Sequence[Any], names: Mapping[int, str], output: Tensor
) -> Iterator[tuple[Recurrence, Tensor, Tensor]]:
    """Each layer and direction of a call of a recurrent function, with its inputs and hidden states.

    Nothing for packed sequences, projections, and weights that are no tensors of the network. The output of the call
    shows the hidden states of a single layer; several layers are run one by one.
    """
    if len(args) != 9 or not isinstance(args[3], bool):
        return
    inputs, start, flat, biased, count, _, _, both, batch_first = args
    each = 4 if biased else 2
    directions = 2 if both else 1
    if len(flat) != each * count * directions or any(id(weight) not in names for weight in flat):
        return
    starts = start if kind == "lstm" else (start,)
    single = count * directions == 1
    sequence, whole = (each.transpose(0, 1) if batch_first else each for each in (inputs, output))
    for layer in range(count):
        found = []
        for direction in range(directions):
            number = layer * directions + direction
            weights = tuple(flat[number * each : (number + 1) * each])
            own = tuple(state[number] for state in starts)
            read = sequence.flip(0) if direction else sequence
            before = tuple(state.unsqueeze(0) for state in own)
            first = before if kind == "lstm" else before[0]
            hidden = whole if single else function(read, first, weights, biased, 1, 0.0, False, False, False)[0]
            yield Recurrence(kind, tuple(names[id(weight)] for weight in weights), weights, own), read, hidden
            found.append(hidden.flip(0) if direction else hidden)
        sequence = torch.cat(found, -1)
