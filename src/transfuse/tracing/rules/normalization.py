"""Norms: batch, layer, group, instance, RMS; local response; weight norm."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..algebra import Algebra, Value
from ..labels import Labels
from .contraction import more_choices
from .table import Call, rule


def normalized(t: Algebra, value: Value, axes: Iterable[int], *, centred: bool = True) -> Labels:
    """`(x - mean) / spread` with statistics over axes; the spread has an epsilon, so scales show."""
    axes, x = list(axes), t.labels(value)
    if centred:
        x = t.join(x, t.reduce(x, axes, keepdim=True, odd=True, homogeneous=True, over="mean"), kind="add")
    spread = t.pointwise(t.reduce(t.squared(x), axes, keepdim=True, odd=True, homogeneous=True, over="mean"))
    return t.join(x, spread, kind="divide")


def affine(t: Algebra, value: Labels, weight: Value | None, bias: Value | None) -> Labels:
    """`x * weight + bias`, each if there."""
    if weight is not None:
        value = t.join(value, weight, kind="multiply")
    return value if bias is None else t.join(value, bias, kind="add")


def _by_channel(t: Algebra, value: Value | None, rank: int) -> Labels | None:
    """A vector along axis 1 of a value of that rank."""
    if value is None:
        return None
    (shaped,) = t.move(lambda array: array.reshape(-1, *[1] * (rank - 2)), value)
    return shaped


@rule("batch_norm", "native_batch_norm", "cudnn_batch_norm", "_native_batch_norm_legit_no_training",
      "_native_batch_norm_legit", "instance_norm")  # fmt: skip
def batch_norm(t: Algebra, call: Call) -> Labels | Sequence[Labels]:
    """By running statistics where they are used, else by statistics of the batch (or of each instance)."""
    x = t.labels(call["input"])
    rank, instance = len(x.shape), call.name == "aten::instance_norm"
    mean, variance, weight, bias = (
        _by_channel(t, call.get(name), rank) for name in ("running_mean", "running_var", "weight", "bias")
    )
    statistics = bool(call.get("use_input_stats" if instance else "training", False))
    if mean is None or variance is None or statistics:
        result = normalized(t, x, range(2, rank) if instance else [0, *range(2, rank)])
    else:
        centred = t.join(x, mean, kind="add")
        result = t.join(centred, t.pointwise(variance), kind="divide")
    result = affine(t, result, weight, bias)
    return [result, *(t.source(shape) for shape in call.shapes[1:])] if len(call.shapes) > 1 else result


@rule("layer_norm", "native_layer_norm")
def layer_norm(t: Algebra, call: Call) -> Labels | Sequence[Labels]:
    """Statistics over the last axes."""
    x = t.labels(call["input"])
    axes = range(len(x.shape) - len(call["normalized_shape"]), len(x.shape))
    result = affine(t, normalized(t, x, axes), call.get("weight"), call.get("bias"))
    return [result, *(t.source(shape) for shape in call.shapes[1:])] if len(call.shapes) > 1 else result


@rule("rms_norm", "_fused_rms_norm")
def rms_norm(t: Algebra, call: Call) -> Labels | Sequence[Labels]:
    """Spread over the last axes, without a mean: signs of units do not matter."""
    x = t.labels(call["input"])
    axes = range(len(x.shape) - len(call["normalized_shape"]), len(x.shape))
    result = affine(t, normalized(t, x, axes, centred=False), call.get("weight"), None)
    return [result, *(t.source(shape) for shape in call.shapes[1:])] if len(call.shapes) > 1 else result


@rule("group_norm")
def group_norm(t: Algebra, call: Call) -> Labels:
    """Statistics over groups of channels: channels move within their group, or whole groups move."""
    x, groups = t.labels(call["input"]), int(call["num_groups"])
    shape, inside = x.shape, x.shape[1] // groups
    (split,) = t.move(lambda array: array.reshape(shape[0], groups, inside, *shape[2:]), x)
    if groups == 1 or inside == 1 or more_choices(groups, inside):
        result = normalized(t, split, range(2, len(split.shape)))
    else:
        for ids in split.units:
            t.registry.reduce(ids, "summed", t.where)  # in groups that other widths would cut at other places
        statistics = t.source((shape[0], groups, *[1] * (len(shape) - 1)))
        result = t.join(split, statistics, kind="other")
    (result,) = t.move(lambda array: array.reshape(shape), result)
    weight, bias = (_by_channel(t, call.get(name), len(shape)) for name in ("weight", "bias"))
    return affine(t, result, weight, bias)


@rule("_weight_norm", "_weight_norm_interface")
def weight_norm(t: Algebra, call: Call) -> Labels | Sequence[Labels]:
    """`g v / |v|` with norms over all axes but one."""
    direction, dim = t.labels(call["v"]), call.get("dim", 0)
    others = [axis for axis in range(len(direction.shape)) if axis != dim]  # -1: a norm over all axes
    length = t.reduce(t.absolute(direction), others, keepdim=True, odd=True, homogeneous=True)
    result = t.join(t.join(direction, length, kind="divide"), call["g"], kind="multiply")
    return [result, *(t.source(shape) for shape in call.shapes[1:])] if len(call.shapes) > 1 else result


@rule("local_response_norm")
def local_response_norm(t: Algebra, call: Call) -> Labels:
    """Neighbouring channels are pooled, so their order matters."""
    return t.blend(call["input"], [1], call.shape, why="neighbouring channels are pooled")
