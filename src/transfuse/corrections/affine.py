"""A site as an affine map from features to pre-activations: a matrix, read from a state and written to it.

Linear and convolution layers: features are inputs or patches; bias, batch norm and scale are folded into the matrix.
Recurrent layers: features are the previous hidden state and the input. A map has several *parts* where rows do not
share their features: groups of a convolution, the two halves of a GRU's candidate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..activations import IMAGES, Seen
from ..types import State

FEATURES = 2**21  # numbers of features of a site that are looked at in one batch
# Of a convolution, how many numbers of features and how many places, in a batch as images are cut into; in one of more
# images more. Places are alike, and a fit gained little from more of them.
SEEN_FEATURES, PLACES = 2**20, 2048


@dataclass(frozen=True, eq=False)
class Part:
    """Features [samples, features] and the outputs [samples, rows] that depend on them."""

    features: Tensor
    outputs: Tensor


def has_constant(seen: Seen) -> bool:
    """Whether the map of a site has a constant, from a bias or a norm: the last column of its matrix."""
    return bool(seen.bias or seen.norm or (seen.recurrence and len(seen.recurrence.names) > 2))


def parts(seen: Seen, outputs: Tensor) -> list[Part]:
    """The parts of a site: its features, each with the outputs that they shall give.

    Of a recurrent layer, hidden states are those that the outputs drive: errors of the layer do not add up over time.
    """
    rows = looked_at(seen, outputs)
    if (layer := seen.recurrence) is not None:
        features = [each[rows] for each in recurrent_features(seen, layer.driven(outputs))]
    elif seen.kernel:
        features = [piece.flatten(1) for piece in patches(seen, rows).chunk(seen.how["groups"], -1)]
    else:
        features = [seen.inputs.reshape(-1, seen.inputs.shape[-1])[rows]]
    if has_constant(seen) and layer is None:
        features = [nn.functional.pad(each, (0, 1), value=1.0) for each in features]
    return [Part(each, rows) for each, rows in zip(features, rows_by_part(seen, outputs), strict=True)]


def rows_of(seen: Seen, outputs: Tensor) -> Tensor:
    """Outputs of a site as [samples, rows]."""
    channels = -1 - len(seen.kernel)
    return outputs.movedim(channels, -1).reshape(-1, outputs.shape[channels])


def chosen_rows(seen: Seen, outputs: Tensor) -> Tensor:
    """Outputs of a site as [samples, rows], of the samples that are looked at."""
    values, chosen = outputs.movedim(-1 - len(seen.kernel), -1), looked_at(seen, outputs)
    if isinstance(chosen, slice):
        return values.reshape(-1, values.shape[-1])
    return values[torch.unravel_index(chosen, values.shape[:-1])]


def looked_at(seen: Seen, outputs: Tensor) -> Tensor | slice:
    """Which samples of a site are looked at: all, or so many, drawn at random, that their features stay few.

    The same ones whenever it is asked of a batch. A convolution sees its inputs at many places that are much alike, and
    the time that a fit takes grows with them.
    """
    channels = -1 - len(seen.kernel)
    width = seen.inputs.shape[channels] * math.prod(seen.kernel)
    most = max(FEATURES // width, 1)
    if seen.kernel:
        images = len(outputs) if outputs.dim() == len(seen.kernel) + 2 else 1
        most = max(int(max(images / IMAGES, 1) * min(SEEN_FEATURES / width, PLACES)), 1)
    found = sampled(outputs.numel() // outputs.shape[channels], most)
    return found if isinstance(found, slice) else found.to(outputs.device)


def sampled(count: int, most: int) -> Tensor | slice:
    """Which of some samples are looked at: all, or so many, drawn at random, and the same ones each time."""
    if count <= most:
        return slice(None)
    return torch.randperm(count, generator=torch.Generator().manual_seed(0))[:most]


def rows_by_part(seen: Seen, outputs: Tensor) -> list[Tensor]:
    """Outputs of a site as [samples, rows] for each part, of the samples that are looked at."""
    rows = chosen_rows(seen, outputs)
    if seen.recurrence is not None:
        return gates_by_part(seen, rows)
    return list(rows.chunk(seen.how["groups"], 1)) if seen.kernel else [rows]


def gates_by_part(seen: Seen, gates: Tensor) -> list[Tensor]:
    """What belongs to the gates of a recurrent layer, [samples, gates x units], for each part: a GRU has three."""
    assert seen.recurrence is not None
    if seen.recurrence.kind != "gru":
        return [gates]
    units = gates.shape[1] // 4
    return list(gates.split([2 * units, units, units], 1))


def recurrent_features(seen: Seen, hidden: Tensor) -> list[Tensor]:
    """What the gates of a recurrent layer are linear in, [samples, features]: the states before, and the inputs.

    Args:
        seen: The layer.
        hidden: The states after each step, [step, sample, units].

    Returns:
        Features of each part, with their constant: a GRU has three.
    """
    layer = seen.recurrence
    assert layer is not None
    both = torch.cat([layer.previous(hidden), seen.inputs], -1).flatten(0, -2)
    units = hidden.shape[-1]
    found = [both, both[:, units:], both[:, :units]] if layer.kind == "gru" else [both]
    return [nn.functional.pad(each, (0, 1), value=1.0) for each in found] if has_constant(seen) else found


def patches(seen: Seen, rows: Tensor | slice = slice(None)) -> Tensor:
    """What a convolution sees at each place, or at some: [samples x places, kernel, channels].

    Channels come last, so that they lie side by side and are gathered as rows: several times as fast as one by one.
    """
    kernel, count = seen.kernel, len(seen.kernel)
    stride, dilation = (_each(seen.how[key], count) for key in ("stride", "dilation"))
    x = seen.inputs if seen.inputs.dim() == count + 2 else seen.inputs.unsqueeze(0)
    x = nn.functional.pad(x, _padding(seen.how["padding"], kernel, dilation)).movedim(1, -1).contiguous()
    along = list(zip(x.shape[1:-1], kernel, stride, dilation, strict=True))
    shape = len(x), *((size - gap * (length - 1) - 1) // step + 1 for size, length, step, gap in along)
    chosen = torch.arange(math.prod(shape), device=x.device)[rows] if isinstance(rows, slice) else rows
    corner, *places = torch.unravel_index(chosen, shape)
    within = torch.zeros(1, dtype=corner.dtype, device=x.device)
    for place, (size, length, step, gap) in zip(places, along, strict=True):
        corner = corner * size + place * step
        within = (within[:, None] * size + gap * torch.arange(length, device=x.device)).flatten()
    gathered = x.flatten(0, -2).index_select(0, (corner[:, None] + within).flatten())
    return gathered.view(len(corner), len(within), -1)


def _each(value: Any, count: int) -> tuple[int, ...]:
    return tuple(value) if isinstance(value, Sequence) else (value,) * count


def _padding(padding: Any, kernel: Sequence[int], dilation: Sequence[int]) -> list[int]:
    """The padding of a convolution as `torch.nn.functional.pad` takes it: last dimension first, before and after."""
    if padding == "valid":
        padding = 0
    if padding == "same":
        totals = [gap * (size - 1) for size, gap in zip(kernel, dilation, strict=True)]
        both = [(total // 2, total - total // 2) for total in totals]
    else:
        both = [(each, each) for each in _each(padding, len(kernel))]
    return [side for pair in reversed(both) for side in pair]


def matrices(seen: Seen, state: State) -> list[Tensor]:
    """The matrix [rows, features] of each part, in float64, with the constant at the end if there is one."""
    if seen.recurrence is not None:
        return _recurrent_matrices(seen, state)
    weight = _channels_last(state[seen.name].double()).flatten(1)
    constant = state[seen.bias].double() if seen.bias else weight.new_zeros(len(weight))
    if seen.norm:
        norm = seen.norm
        scale = state[norm.weight].double() / (state[norm.variance].double() + norm.epsilon).sqrt()
        weight = weight * scale[:, None]
        constant = (constant - state[norm.mean].double()) * scale + state[norm.bias].double()
    if seen.scale:
        scale = state[seen.scale].double().reshape(-1)
        weight, constant = weight * scale[:, None], constant * scale
    whole = torch.cat([weight, constant[:, None]], 1) if has_constant(seen) else weight
    return list(whole.chunk(seen.how.get("groups", 1)))


def _channels_last(weight: Tensor) -> Tensor:
    """A weight [rows, channels, ...] with its channels last, as features have them."""
    return weight.movedim(1, -1)


def _recurrent_matrices(seen: Seen, state: State) -> list[Tensor]:
    """The weights of a recurrent layer with their biases, as one matrix for each part of its features."""
    layer = seen.recurrence
    assert layer is not None
    inputs, hidden, *biases = (state[name].double() for name in layer.names)
    if layer.kind != "gru":
        return [torch.cat([hidden, inputs, *([(biases[0] + biases[1])[:, None]] if biases else [])], 1)]
    gates = 2 * hidden.shape[1]
    columns = [bias[:, None] for bias in biases]
    joint = [hidden[:gates], inputs[:gates], *([columns[0][:gates] + columns[1][:gates]] if columns else [])]
    return [
        torch.cat(joint, 1),
        torch.cat([inputs[gates:], *(column[gates:] for column in columns[:1])], 1),
        torch.cat([hidden[gates:], *(column[gates:] for column in columns[1:])], 1),
    ]


def written(
    seen: Seen, state: State, new: Sequence[Tensor], *, mean: Tensor | None = None, variance: Tensor | None = None
) -> dict[str, Tensor]:
    """The tensors of a state that make a site compute new matrices.

    Args:
        seen: The site.
        state: The present state.
        new: The matrix of each part.
        mean: What each row gives on average, without its constant: becomes the running mean of a norm.
        variance: The variance of what each row gives: becomes the running variance of a norm.
    """
    if seen.recurrence is not None:
        found = _recurrent_written(seen, state, new)
    else:
        whole = torch.cat(list(new))
        weight, constant = (whole[:, :-1], whole[:, -1]) if has_constant(seen) else (whole, None)
        kept = state[seen.name]
        found = {seen.name: weight.reshape(_channels_last(kept).shape).movedim(-1, 1)}
        if seen.bias and constant is not None:
            found[seen.bias] = torch.zeros_like(constant) if seen.norm else constant
        if seen.scale:
            found[seen.scale] = torch.ones_like(state[seen.scale])
        if seen.norm and constant is not None:
            assert mean is not None, "a norm needs statistics"
            assert variance is not None, "a norm needs statistics"
            scale = (variance + seen.norm.epsilon).sqrt()
            found |= {seen.norm.mean: mean, seen.norm.variance: variance}
            found |= {seen.norm.weight: scale, seen.norm.bias: constant + mean}
    return {name: tensor.to(state[name]) for name, tensor in found.items()}


def _recurrent_written(seen: Seen, state: State, new: Sequence[Tensor]) -> dict[str, Tensor]:
    """The tensors of a recurrent layer, by name, that have new matrices; a bias that is there twice keeps one half."""
    layer = seen.recurrence
    assert layer is not None
    units, biased = state[layer.names[1]].shape[1], len(layer.names) > 2
    joint, *halves = [matrix[:, :-1] if biased else matrix for matrix in new]
    hidden, inputs = joint[:, :units], joint[:, units:]
    if halves:
        hidden, inputs = torch.cat([hidden, halves[1]]), torch.cat([inputs, halves[0]])
    found = dict(zip(layer.names, (inputs, hidden), strict=False))
    if biased:
        kept = state[layer.names[3]].double()
        if halves:
            kept = torch.cat([kept[: 2 * units], new[2][:, -1]])
        total = torch.cat([matrix[:, -1] for matrix in new[:2]])
        found[layer.names[2]] = total - (
            torch.cat([kept[: 2 * units], torch.zeros_like(kept[:units])]) if halves else kept
        )
        found[layer.names[3]] = kept
    return found
