"""Growing: a shallower network as a copy of a deeper one, whose further layers change nothing.

Layers that stand beside each other hold the tensors of the shallower network. Of the others, residual blocks add
nothing: the tensors that end their branches are 0, and whatever the other tensors of the block are, they are *free*.
Post-norm blocks add nothing either, and what their norms do is made up for: the last one has the gains and biases of
the norm before the block, which has none then, and what is normalised already stays as it is when it is again.
Linear and convolution layers in a chain are identities, which ReLU behind them does not change; a batch norm behind
one has the statistics of what it sees, and undoes what it does. Behind other functions an identity is not exact: the
input is scaled (where the function is nearly linear around 0) or shifted (where it is nearly linear far from 0), and
the next layer is fitted by least squares.

In: a module, the deeper one, their layers, and inputs. Out: a module that computes what the first one does, and by how
much that fails.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..activations import Batches
from ..modules import evaluating, live_tensors, state_of, undisturbed, with_state
from .blocks import NORMED, NORMS, leaves_alone, plainest
from .calls import Call, calls_of
from .fitting import difference, fit_to
from .pairs import Pairs

EXACT = 1e-4  # relative difference of outputs up to which nothing is fitted: more than rounding makes of float32
SMALL = 0.1  # largest number that a layer gives if its input is scaled to where functions are nearly linear
FAR = 6.0  # beyond the largest number, how far inputs are shifted: there GELU and SiLU are linear to 0.3 percent


@dataclass(frozen=True, eq=False)
class Grown:
    """A network that was grown: the module, the tensors that may be anything, and how far its outputs are off."""

    model: nn.Module
    free: frozenset[str]
    difference: float


def grown_by(pairs: Pairs, batches: Batches) -> Grown:
    """The shallower network with as many layers as the deeper one has.

    Raises:
        InputError: a layer cannot be grown, or the network computes something else with it.
    """
    own = state_of(pairs.shallow)
    state = {name: own[other] for name, other in pairs.names().items()}
    needed = _needed(pairs, batches)
    for number in pairs.single:
        layer = pairs.above[number]
        state |= _identity(pairs, number) if layer.chained else _nothing(pairs, number, needed[number])
    model = with_state(pairs.deep, {name: state[name] for name in state_of(pairs.deep)})
    with undisturbed(pairs.shallow), evaluating(model):
        _learn_statistics(pairs, model, batches)
        _hand_on_gains(pairs, model, batches)
        if difference(pairs.shallow, model, batches) > EXACT:
            _fit_chain(pairs, model, batches)
        left = difference(pairs.shallow, model, batches)
    free = {name for number, fixed in needed.items() for name in pairs.above[number].tensors(state)
            if name not in fixed}  # fmt: skip
    return Grown(model, frozenset(free), left)


def _needed(pairs: Pairs, batches: Batches) -> dict[int, set[str]]:
    """For each block that is grown the tensors that are not free: the later ones, which end its branches, and norms."""
    blocks = [number for number in pairs.single if not pairs.above[number].chained]
    if not blocks:
        return {}
    with undisturbed(pairs.deep):
        calls = calls_of(pairs.deep, next(iter(batches)).run)
        return {
            number: {
                f"{name}.{each}"
                for each in _ending(pairs.deep.get_submodule(name), calls, name, pairs.above[number].block)
            }
            for number in blocks
            for name in [pairs.above[number].name]
        }


def _ending(block: nn.Module, calls: Mapping[str, Call], name: str, what: str) -> set[str]:
    """Names of the parameters of a residual block that must be as in the plainest one, the others being any.

    From the first one that is used to the last, each gets random values if that does no harm. Its own would not do:
    some may be 0 already.
    """
    values, random = plainest(block, what), torch.Generator().manual_seed(0)
    order = {part: calls[f"{name}.{part}"].number for part, _ in block.named_modules() if f"{name}.{part}" in calls}
    used = sorted(values, key=lambda each: order.get(each.rpartition(".")[0], -1))
    needed = set(values)
    for each in used:
        drawn = 0.5 + torch.rand(values[each].shape, generator=random)
        tried = {**values, each: drawn.to(values[each])}
        if leaves_alone(block, calls[name], tried, what):
            values, needed = tried, needed - {each}
    return needed


def _identity(pairs: Pairs, number: int) -> dict[str, Tensor]:
    """The tensors of a linear or convolution layer that gives what it is given, and of a norm that does nothing yet."""
    layer, width = pairs.above[number], pairs.before(number).units[1]
    above = state_of(pairs.deep)
    kernel = above[f"{layer.name}.weight"]
    weight = kernel.new_zeros((width, width, *kernel.shape[2:]))
    middle = weight.flatten(2).shape[2] // 2 if kernel.dim() > 2 else 0  # of an odd number of places in every direction
    weight.view(width, width, -1)[..., middle] = torch.eye(width, dtype=kernel.dtype, device=kernel.device)
    found = {name: _neutral(name, above[name], (width,)) for name in layer.tensors(above)}
    if f"{layer.name}.bias" in found:
        found[f"{layer.name}.bias"] = kernel.new_zeros(width)
    return {**found, f"{layer.name}.weight": weight}


def _nothing(pairs: Pairs, number: int, needed: set[str]) -> dict[str, Tensor]:
    """The tensors of a residual block that adds nothing, in the widths of the shallower network.

    A block of the shallower network shows how wide it is; else it is in proportion to that of the deeper one.
    """
    layer, stream = pairs.above[number], pairs.before(number).units[1]
    above, below = state_of(pairs.deep), state_of(pairs.shallow)
    parameters = {name for name, _ in pairs.deep.named_parameters()}
    alike = [each for each in pairs.below if each.kind == layer.kind and each.residual and each.units[0] == stream]
    found = {}
    for name in layer.tensors(above):
        like = below[alike[0].name + name.removeprefix(layer.name)] if alike else above[name]
        shape = tuple(like.shape) if alike else _in_proportion(tuple(like.shape), layer.units[0], stream)
        norm = isinstance(pairs.deep.get_submodule(name.rpartition(".")[0]), NORMS)
        if norm and (layer.block == NORMED or name not in needed):
            found[name] = _neutral(name, above[name], shape)
        else:
            found[name] = like.new_zeros(shape) if name in parameters else above[name].clone()  # a mask, say
    return found


def _in_proportion(shape: tuple[int, ...], was: int, now: int) -> tuple[int, ...]:
    """A shape whose first two sizes, where they are multiples of a width, are those multiples of another one."""
    return *(size // was * now if size % was == 0 else size for size in shape[:2]), *shape[2:]


def _neutral(name: str, like: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A tensor of a norm that does nothing: gains and variances are 1, means and biases 0, counts as they are."""
    if not like.is_floating_point():
        return like.clone()
    return like.new_full(shape, float(name.endswith(("weight", "running_var"))))


def _learn_statistics(pairs: Pairs, model: nn.Module, batches: Batches) -> None:
    """Have each batch norm behind an identity know what it sees, and undo what it does to it."""
    norms = [part for number in pairs.single for part in pairs.above[number].parts[1:]
             if isinstance(model.get_submodule(part), nn.modules.batchnorm._BatchNorm)]  # fmt: skip
    for name in norms:  # one after another: what a norm sees is known when those before it are
        call = calls_of(model, next(iter(batches)).run)[name]
        assert call.tensors is not None, "a norm takes a tensor and gives one"
        seen = call.tensors[0].double().transpose(0, 1).flatten(1)
        norm: Any = model.get_submodule(name)
        mean, variance = seen.mean(1), seen.var(1, correction=0)
        for own, value in zip(("running_mean", "running_var", "weight", "bias"),
                              (mean, variance, (variance + norm.eps).sqrt(), mean), strict=True):  # fmt: skip
            if isinstance(tensor := getattr(norm, own, None), Tensor):
                tensor.data.copy_(value)


def _hand_on_gains(pairs: Pairs, model: nn.Module, batches: Batches) -> None:
    """Have the last norm of each post-norm block have the gains and biases of the norm that it reads, which has none.

    What that norm gives is read by nobody else: the sums of the next block start from what the grown one gives.
    """
    for number in (each for each in pairs.single if pairs.above[each].block == NORMED):
        source, place = _norms_around(model, pairs.above[number].name, batches)
        for key, plain in (("weight", 1.0), ("bias", 0.0)):
            own, other = (getattr(norm, key, None) for norm in (source, place))
            if isinstance(own, Tensor) and isinstance(other, Tensor):
                other.data.copy_(own.data)
                own.data.fill_(plain)


def _norms_around(model: nn.Module, name: str, batches: Batches) -> list[nn.Module | None]:
    """The layer norm that gives what a block reads, and the one inside that gives what the block does, if there are."""
    calls = calls_of(model, next(iter(batches)).run)
    block = calls[name].tensors
    assert block is not None, "a block takes a tensor and gives one"
    norms = [each for each, module in model.named_modules() if isinstance(module, nn.LayerNorm) and each in calls]
    found: list[nn.Module | None] = []
    for inside, tensor in zip((False, True), block, strict=True):
        giving = [each for each in norms if each.startswith(f"{name}.") is inside
                  and torch.equal(calls[each].result, tensor)]  # fmt: skip
        found.append(model.get_submodule(max(giving, key=lambda each: calls[each].number)) if giving else None)
    return found


def _fit_chain(pairs: Pairs, model: nn.Module, batches: Batches) -> None:
    """Scale or shift what goes into layers that are no identities with what follows, and fit the layers after them."""
    for number in pairs.single:
        layer = pairs.above[number]
        after = next((place for place, beside in enumerate(pairs.beside) if beside > number), None)
        if not layer.chained or after is None or len(layer.parts) > 1:
            continue
        next_name = f"{pairs.above[pairs.beside[after]].name}.weight"
        own_name = f"{pairs.below[after].name}.weight"
        call = calls_of(model, next(iter(batches)).run)[layer.name]
        assert call.tensors is not None, "a layer of a chain takes a tensor and gives one"
        largest = max(float(call.tensors[0].abs().max()), 1e-12)
        tries = [(1.0, 0.0), (SMALL / largest, 0.0), (1.0, largest + FAR)]
        _best_of(model, layer.name, (next_name, own_name), tries, pairs.shallow, batches)


def _best_of(
    model: nn.Module, name: str, names: tuple[str, str], tries: Sequence[tuple[float, float]], like: nn.Module,
    batches: Batches,
) -> None:  # fmt: skip
    """Keep that scale and shift of an identity with which the network comes nearest to another one, after a fit."""
    tensors = {key: tensor.detach() for key, tensor in live_tensors(model).items()}
    start = {key: tensor.clone() for key, tensor in tensors.items()}
    found = []
    for scale, shift in tries:
        for key, tensor in start.items():
            tensors[key].copy_(tensor)
        tensors[f"{name}.weight"].mul_(scale)
        if shift and f"{name}.bias" not in tensors:
            continue
        if shift:
            tensors[f"{name}.bias"].add_(shift)
        tensors[names[0]].div_(scale)
        fit_to(model, names[0], like, names[1], batches)
        found.append((difference(like, model, batches), {key: tensor.clone() for key, tensor in tensors.items()}))
    _, best = min(found, key=lambda each: each[0])
    for key, tensor in best.items():
        tensors[key].copy_(tensor)
