"""Recurrent layers taken apart: one layer and direction at a time, with the pre-activations of their gates.

A call of `lstm`, `gru` or `rnn` shows only hidden states, and so do the calls of a cell (`lstm_cell`) in a loop of the
network's own, which are one layer if each goes on from the states that the last one gave. From these and the inputs the
pre-activations of every gate follow by two matrix products; and given pre-activations, the hidden states follow without
any weights. A GRU's candidate has two parts, `n = tanh(input part + reset * hidden part)`; they are kept apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Recurrence:
    """One recurrent layer in one direction. Sequences are [step, sample, ...], in the order in which they are read.

    Sequences of several lengths, which PyTorch packs, are [step and sample, ...] without gaps: each step has as many
    samples as go on.

    Args:
        kind: `lstm`, `gru`, `rnn_tanh` or `rnn_relu`.
        names: Names of the weights: input, hidden, and maybe their biases.
        weights: The weights.
        start: States before the first step [sample, units]: hidden, and the cell of an LSTM.
        sizes: Of packed sequences, how many samples each step has; samples that end, or begin, later are the last ones.
    """

    kind: str
    names: tuple[str, ...]
    weights: tuple[Tensor, ...]
    start: tuple[Tensor, ...]
    sizes: tuple[int, ...] | None = None

    def previous(self, hidden: Tensor) -> Tensor:
        """The hidden state before each step."""
        if self.sizes is None:
            return torch.cat([self.start[0].unsqueeze(0), hidden[:-1]])
        before = [self.start[0], *hidden.split(self.sizes)[:-1]]
        return self._joined([_fitted(x, self.start[0], size) for x, size in zip(before, self.sizes, strict=True)])

    def pre_activations(self, inputs: Tensor, hidden: Tensor) -> Tensor:
        """What the gates see at each step, [step, sample, gates x units]; a GRU's candidate comes in two parts."""
        linear, before = torch.nn.functional.linear, self.previous(hidden)
        (of_inputs, of_hidden), biases = self.weights[:2], self.weights[2:]
        if self.kind != "gru":
            seen = linear(inputs.flatten(0, -2), of_inputs, biases[0] + biases[1] if biases else None)
            seen.addmm_(before.flatten(0, -2), of_hidden.T)  # in place: there are no larger tensors
            return seen.view(*inputs.shape[:-1], -1)
        from_inputs, from_hidden = linear(inputs, of_inputs, *biases[:1]), linear(before, of_hidden, *biases[1:])
        gates = len(of_hidden) // 3 * 2
        both = from_inputs[..., :gates] + from_hidden[..., :gates]
        return torch.cat([both, from_inputs[..., gates:], from_hidden[..., gates:]], -1)

    def driven(self, pre_activations: Tensor) -> Tensor:
        """Hidden states [step, sample, units] that follow from pre-activations alone."""
        return self._joined([after[0] for _, after in self._states(pre_activations)])

    def squared_slopes(self, pre_activations: Tensor) -> Tensor:
        """How a unit's states after a step change with what its gates see, squared and added over its states.

        States before the step are those that the pre-activations drive.
        """
        (first, _), *others = self.slopes(pre_activations)
        total = first.square()
        for gates, _ in others:
            total.addcmul_(gates, gates)
        return total

    def slopes(self, pre_activations: Tensor) -> list[tuple[Tensor, Sequence[Tensor]]]:
        """How each state of a unit changes, after each step, with what the gates see and with the states before it.

        States before the step are those that the pre-activations drive.
        """
        with torch.inference_mode(mode=False):  # slopes are found by gradients
            steps = [before for before, _ in self._states(pre_activations.detach())]
            before = [self._joined(each) for each in zip(*steps, strict=True)]
        with torch.inference_mode(mode=False), torch.enable_grad():
            own = [each.detach().clone().requires_grad_() for each in (pre_activations, *before)]
            after = STEPS[self.kind](own[0], own[1:])
            found = [torch.autograd.grad(each.sum(), own, retain_graph=True, materialize_grads=True) for each in after]
        return [(gates, states) for gates, *states in found]

    def spread(self, values: Tensor) -> Tensor:
        """What a sequence holds as [step, sample, ...], with zeros where packed sequences have ended or not begun."""
        if self.sizes is None:
            return values
        return torch.nn.utils.rnn.pad_sequence(list(values.split(self.sizes)), batch_first=True)

    def _states(self, pre_activations: Tensor) -> Iterator[tuple[Sequence[Tensor], Sequence[Tensor]]]:
        """States before and after each step."""
        after: Sequence[Tensor] = self.start
        for step in pre_activations if self.sizes is None else pre_activations.split(self.sizes):
            before = [_fitted(state, start, len(step)) for state, start in zip(after, self.start, strict=True)]
            after = STEPS[self.kind](step, before)
            yield before, after

    def _joined(self, steps: Sequence[Tensor]) -> Tensor:
        """One sequence of what there is at each step."""
        return torch.stack(list(steps)) if self.sizes is None else torch.cat(list(steps))


def _fitted(states: Tensor, start: Tensor, samples: int) -> Tensor:
    """The states of as many samples as a step has: some have ended, or others begin."""
    return states[:samples] if len(states) >= samples else torch.cat([states, start[len(states) : samples]])


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

# Functions that are one step of a recurrent layer, and take one input: the kind of that layer.
CELLS = {"lstm_cell": "lstm", "gru_cell": "gru", "rnn_tanh_cell": "rnn_tanh", "rnn_relu_cell": "rnn_relu"}


@dataclass(eq=False)
class Unrolled:
    """Calls of a cell by which a network goes through a sequence step by step; it grows with every call.

    Args:
        layer: The layer whose steps they are.
        last: The states that the last of them gave.
        inputs: What each of them was given [sample, features].
        hidden: What hidden state each of them gave [sample, units].
    """

    layer: Recurrence
    last: tuple[Tensor, ...]
    inputs: list[Tensor] = field(default_factory=list)
    hidden: list[Tensor] = field(default_factory=list)

    @staticmethod
    def before(kind: str, args: Sequence[Any], names: Mapping[int, str]) -> Unrolled | None:
        """What has made no step yet, given what a cell is called with; nothing if its weights are not the network's."""
        states = args[1] if kind == "lstm" else (args[1],)
        weights = tuple(weight for weight in args[2:] if weight is not None)
        if len(args) != 6 or len(weights) == 3 or any(id(weight) not in names for weight in weights):
            return None
        names_of_weights = tuple(names[id(weight)] for weight in weights)
        return Unrolled(Recurrence(kind, names_of_weights, weights, tuple(states)), tuple(states))

    def goes_on(self, earlier: Unrolled) -> bool:
        """Whether it starts, with the same weights, from the states that earlier calls ended with."""
        return self.layer.names == earlier.layer.names and all(map(_same, self.last, earlier.last))

    def step(self, inputs: Tensor, result: Any) -> None:
        """Note one more call, with what it was given and what it gave."""
        self.last = tuple(result) if self.layer.kind == "lstm" else (result,)
        self.inputs.append(inputs.clone())
        self.hidden.append(self.last[0].clone())


def _same(one: Tensor, other: Tensor) -> bool:
    return one is other or torch.equal(one, other)


@dataclass(frozen=True, eq=False)
class _Call:
    """What a recurrent function is called with, its sequences packed or not.

    Args:
        inputs: [step, sample, features], or packed.
        sizes: Of packed sequences, how many samples each step has.
        start: States before the first step, [layer and direction, sample, units] each.
        weights: All weights, layer by layer, direction by direction.
        biased: Whether there are biases among them.
        count: The number of layers.
        both: Whether sequences are read in both directions.
    """

    inputs: Tensor
    sizes: Tensor | None
    start: tuple[Tensor, ...]
    weights: Sequence[Tensor]
    biased: bool
    count: int
    both: bool

    @staticmethod
    def of(kind: str, args: Sequence[Any]) -> _Call | None:
        """The call that has these arguments; nothing if it has others than PyTorch's own layers give."""
        if len(args) != 9:
            return None
        packed = not isinstance(args[3], bool)
        if packed:
            inputs, sizes, start, weights, biased, count, _, _, both = args
        else:
            inputs, start, weights, biased, count, _, _, both, batch_first = args
            sizes, inputs = None, inputs.transpose(0, 1) if batch_first else inputs
        return _Call(inputs, sizes, tuple(start if kind == "lstm" else (start,)), weights, biased, count, both)

    def layer(self, function: Callable[..., Any], inputs: Tensor, own: slice) -> Tensor:
        """The hidden states of one layer, both directions side by side, on what comes from the one before it."""
        start = tuple(state[own] for state in self.start)
        first = start if len(start) > 1 else start[0]
        each = 4 if self.biased else 2
        weights = list(self.weights[own.start * each : own.stop * each])
        if self.sizes is None:
            hidden: Tensor = function(inputs, first, weights, self.biased, 1, 0.0, False, self.both, False)[0]
        else:
            hidden = function(inputs, self.sizes, first, weights, self.biased, 1, 0.0, False, self.both)[0]
        return hidden

    def reversed(self, sequence: Tensor) -> Tensor:
        """A sequence from its last step to its first."""
        if self.sizes is None:
            return sequence.flip(0)
        return torch.cat(sequence.split(self.sizes.tolist())[::-1])


def layers(
    kind: str, function: Callable[..., Any], args: Sequence[Any], names: Mapping[int, str], output: Tensor
) -> Iterator[tuple[Recurrence, Tensor, Tensor]]:
    """Each layer and direction of a call of a recurrent function, with its inputs and hidden states.

    Nothing for projections, and weights that are no tensors of the network. The output of the call shows the hidden
    states of a single layer; several layers are run one by one.
    """
    call = _Call.of(kind, args)
    directions = 2 if call and call.both else 1
    each = 4 if call and call.biased else 2
    if call is None or len(call.weights) != each * call.count * directions:
        return
    if any(id(weight) not in names for weight in call.weights):
        return
    sequence, steps = call.inputs, tuple(call.sizes.tolist()) if call.sizes is not None else None
    whole = output.transpose(0, 1) if steps is None and args[8] else output
    for layer in range(call.count):
        own = slice(layer * directions, (layer + 1) * directions)
        hidden = whole if call.count == 1 else call.layer(function, sequence, own)
        for number, part in enumerate(hidden.chunk(directions, -1), start=own.start):
            weights = tuple(call.weights[number * each : (number + 1) * each])
            start = tuple(state[number] for state in call.start)
            back = number > own.start
            read, states = (call.reversed(x) if back else x for x in (sequence, part))
            sizes = steps[::-1] if steps and back else steps
            yield Recurrence(kind, tuple(names[id(weight)] for weight in weights), weights, start, sizes), read, states
        sequence = hidden
