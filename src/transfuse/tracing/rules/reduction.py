"""Sums, means and extremes over axes, softmax, pooling, and operations that run along an axis."""

from __future__ import annotations

from collections.abc import Sequence

from ..algebra import Algebra, Over, Value
from ..labels import Labels
from .table import RULES, Call, axes_of, positive, rule

POOLING = "max_pool1d max_pool2d max_pool3d fractional_max_pool2d fractional_max_pool3d"
AVERAGING = (
    "avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d "
    "_adaptive_avg_pool2d _adaptive_avg_pool3d upsample_nearest1d upsample_nearest2d upsample_nearest3d "
    "_upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d "
    "upsample_linear1d upsample_bilinear2d upsample_trilinear3d upsample_bicubic2d _upsample_bilinear2d_aa "
    "_upsample_bicubic2d_aa"
)
POOLING_WITH_INDICES = (
    "max_pool1d_with_indices max_pool2d_with_indices max_pool3d_with_indices adaptive_max_pool1d "
    "adaptive_max_pool2d adaptive_max_pool3d"
)
ALONG = "cumsum cumprod logcumsumexp cummax cummin diff sort argsort topk msort kthvalue mode"


@rule("sum", "nansum")
def total(t: Algebra, call: Call) -> Labels:
    """A sum: linear in every unit that stays."""
    return _reduced(t, call, odd=True, homogeneous=True)


@rule("mean", "nanmean")
def average(t: Algebra, call: Call) -> Labels:
    """A mean: linear in every unit that stays."""
    return _reduced(t, call, odd=True, homogeneous=True, over="mean")


@rule("amax", "amin")
def extreme(t: Algebra, call: Call) -> Labels:
    """A maximum: homogeneous."""
    return _reduced(t, call, homogeneous=True, over="extreme")


@rule("logsumexp", "prod", "count_nonzero")
def statistic(t: Algebra, call: Call) -> Labels:
    """A symmetric function of the elements, neither odd nor homogeneous (or not worth the trouble)."""
    return _reduced(t, call)


@rule("norm", "linalg_vector_norm")
def length(t: Algebra, call: Call) -> Labels:
    """A norm: by default the root of the sum of squares, which rotations leave as it is."""
    power = call.get("ord", call.get("p", 2))
    return _root_of_squares(t, call, t.labels(call["self"])) if power in (None, 2) else _reduced(t, call)


def _root_of_squares(t: Algebra, call: Call, value: Labels, over: Over = "sum") -> Labels:
    axes = axes_of(call.get("dim"), len(value.shape))
    keepdim = bool(call.get("keepdim", False))
    return t.pointwise(t.reduce(t.squared(value), axes, keepdim=keepdim, odd=True, homogeneous=True, over=over))


@rule("all", "any")
def agreement(t: Algebra, call: Call) -> Labels:
    """Whether all elements, or any, are true."""
    return _reduced(t, call, over="extreme")


@rule("var", "std")
def spread(t: Algebra, call: Call) -> Labels:
    """A variance or its root; by default divided by one less than the number of elements."""
    return _spread(t, call)


def _spread(t: Algebra, call: Call) -> Labels:
    x = t.labels(call["self"])
    axes = axes_of(call.get("dim"), len(x.shape))
    mean = t.reduce(x, axes, keepdim=True, odd=True, homogeneous=True, over="mean")
    return _root_of_squares(t, call, t.join(x, mean, kind="add"), _divisor(call))


def _divisor(call: Call) -> Over:
    """What a variance is divided by: the number of elements (a mean), or a corrected one."""
    corrected = call.arguments.get("unbiased", call.arguments.get("correction", 1))
    return "mean" if corrected is not None and not corrected else "sum"


def _reduced(t: Algebra, call: Call, *, odd: bool = False, homogeneous: bool = False, over: Over = "sum") -> Labels:
    x = t.labels(call["self"])
    axes = axes_of(call.get("dim"), len(x.shape))
    return t.reduce(x, axes, keepdim=bool(call.get("keepdim", False)), odd=odd, homogeneous=homogeneous, over=over)


@rule("var_mean", "std_mean")
def statistics(t: Algebra, call: Call) -> Sequence[Labels]:
    """Two statistics at once."""
    return [_spread(t, call), _reduced(t, call, odd=True, homogeneous=True, over="mean")]


@rule("max", "min", "median", "nanmedian")
def extreme_of(t: Algebra, call: Call) -> Labels | Sequence[Labels]:
    """Of two values elementwise; of all elements; or along an axis, with indices that tell places apart."""
    if "other" in call.arguments:
        return t.join(call["self"], call["other"], kind="maximum")
    values = _reduced(t, call, homogeneous=True, over="mean" if "median" in call.name else "extreme")
    if len(call.shapes) == 1:
        return values
    return [values, _places(t, call) if 1 in call.live else t.source(call.shapes[1])]


@rule("argmax", "argmin")
def place_of_extreme(t: Algebra, call: Call) -> Labels:
    """Indices along an axis name its positions, so units there stay in place."""
    return _places(t, call)


def _places(t: Algebra, call: Call) -> Labels:
    x = t.labels(call["self"])
    axes = axes_of(call.get("dim"), len(x.shape))
    fixed = t.pinned(x, frozenset(axes), "its index is returned")
    return t.collapse(fixed, axes, keepdim=bool(call.get("keepdim", False)), linear=False)


def softmax(t: Algebra, value: Value, axis: int) -> Labels:
    """`exp(x) / sum exp(x)` along an axis."""
    grown = t.pointwise(value)
    return t.join(grown, t.reduce(grown, [axis], keepdim=True), kind="other")


@rule("softmax", "log_softmax", "_softmax", "_log_softmax", "special_softmax", "softmin")
def softmax_rule(t: Algebra, call: Call) -> Labels:
    """Softmax, its logarithm, and softmax of the negative."""
    return softmax(t, call["self"], call["dim"])


def _pooled(t: Algebra, call: Call, *, linear: bool) -> Labels:
    """Pooling and resampling of the trailing axes; their number is in the op's name."""
    x = t.labels(call.get("self", call.get("input")))
    rank = int(next(c for c in reversed(call.name) if c.isdigit()))
    axes = range(len(x.shape) - rank, len(x.shape))
    why = "is an axis that is pooled or resampled"
    return t.blend(x, axes, call.shape, odd=linear, homogeneous=True, why=why)


def _max_pool(t: Algebra, call: Call) -> Labels:
    return _pooled(t, call, linear=False)


def _average_pool(t: Algebra, call: Call) -> Labels:
    return _pooled(t, call, linear=True)


def _max_pool_with_indices(t: Algebra, call: Call) -> Sequence[Labels]:
    return [_pooled(t, call, linear=False), _pooled(t, call, linear=False)]


def _along(t: Algebra, call: Call) -> Labels | Sequence[Labels]:
    """Operations whose result depends on the order along an axis."""
    x = t.labels(call["self"])
    axis = positive(call.get("dim", -1), len(x.shape))
    why = "its order along the axis matters"
    results = [t.blend(x, [axis], shape, why=why) for shape in call.shapes]
    return results[0] if len(results) == 1 else results


RULES.update({f"aten::{name}": _max_pool for name in POOLING.split()})
RULES.update({f"aten::{name}": _average_pool for name in AVERAGING.split()})
RULES.update({f"aten::{name}": _max_pool_with_indices for name in POOLING_WITH_INDICES.split()})
RULES.update({f"aten::{name}": _along for name in ALONG.split()})


@rule("cosine_similarity", "pairwise_distance")
def similarity(t: Algebra, call: Call) -> Labels:
    """A symmetric function of two values along an axis."""
    first, second = list(call.arguments.values())[:2]
    axis = call.get("dim", 1 if call.name == "aten::cosine_similarity" else -1)
    over: Over = "mean" if call.name == "aten::cosine_similarity" else "sum"
    return t.reduce(t.join(first, second), [axis], keepdim=bool(call.get("keepdim", False)), over=over)
