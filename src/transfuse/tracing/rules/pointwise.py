"""Elementwise operations, of one value and of several."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from ..algebra import Algebra, Join
from ..labels import Labels
from .table import RULES, Call, rule


@dataclass(frozen=True)
class Function:
    """Properties of a function of one number: f(-x) = -f(x); f(sx) = s f(x) for s > 0; f(0) = 0."""

    odd: bool = False
    homogeneous: bool = False
    keeps_zero: bool = False


_LINEAR = Function(odd=True, homogeneous=True, keeps_zero=True)
_ODD = Function(odd=True, keeps_zero=True)
_RECTIFIER = Function(homogeneous=True, keeps_zero=True)
_THROUGH_ZERO = Function(keeps_zero=True)
_PLAIN = Function()

FUNCTIONS: dict[str, Function] = {
    **dict.fromkeys(
        "alias alpha_dropout clone contiguous detach dropout feature_dropout lift_fresh lift_fresh_copy neg negative "
        "positive real conj resolve_conj resolve_neg".split(),
        _LINEAR,
    ),
    **dict.fromkeys(
        "arctan arctanh asin asinh atan atanh erf erfinv sgn sign sin sinh softshrink hardshrink tan tanh round "
        "trunc fix".split(),
        _ODD,
    ),
    **dict.fromkeys("relu leaky_relu rrelu".split(), _RECTIFIER),
    **dict.fromkeys(
        "celu elu expm1 gelu hardswish log1p mish relu6 selu silu sqrt floor ceil frac".split(), _THROUGH_ZERO
    ),
    **dict.fromkeys(
        "acos acosh bitwise_not clamp_max cos cosh digamma erfc exp exp2 hardsigmoid "
        "isfinite isinf isnan lgamma log log10 log2 log_sigmoid logical_not logit nan_to_num reciprocal rsqrt "
        "sigmoid softplus special_expit threshold".split(),
        _PLAIN,
    ),
}

JOINS: dict[str, Join] = {
    **dict.fromkeys("mul multiply".split(), "multiply"),
    **dict.fromkeys("div divide true_divide".split(), "divide"),
    **dict.fromkeys("maximum minimum fmax fmin".split(), "maximum"),
    **dict.fromkeys(
        "atan2 bitwise_and bitwise_or bitwise_xor eq equal floor_divide fmod ge gt heaviside hypot isclose le "
        "logaddexp logical_and logical_or logical_xor lt ne not_equal greater greater_equal less less_equal "
        "remainder special_xlog1py xlogy __and__ __or__ __xor__".split(),
        "other",
    ),
}


def _pointwise(t: Algebra, call: Call) -> Labels:
    kind = FUNCTIONS[call.name.removeprefix("aten::")]
    value = call.get("self", call.get("input"))
    return t.pointwise(value, odd=kind.odd, homogeneous=kind.homogeneous, keeps_zero=kind.keeps_zero)


@rule("to", "type_as", "_to_copy")
def convert(t: Algebra, call: Call) -> Labels:
    """Another type: linear, unless what is behind the point (or all but zero) is lost."""
    linear = not call.whole
    return t.pointwise(call["self"], odd=linear, homogeneous=linear, keeps_zero=True)


def _joined(t: Algebra, call: Call) -> Labels:
    rounded = call.get("rounding_mode") is not None
    return t.join(call["self"], call["other"], kind="other" if rounded else JOINS[call.name.removeprefix("aten::")])


RULES.update({f"aten::{name}": _pointwise for name in FUNCTIONS})
RULES.update({f"aten::{name}": _joined for name in JOINS})


@rule("add", "sub", "subtract", "rsub", "__iadd__")
def add(t: Algebra, call: Call) -> Labels:
    """A sum; a multiple `alpha` of a term changes nothing."""
    return t.join(call["self"], call["other"], kind="add")


@rule("clamp", "clamp_min", "clip", "hardtanh")
def clamp(t: Algebra, call: Call) -> Labels:
    """Between bounds around zero odd; with the lower bound zero alone a rectifier."""
    low, high = call.get("min", call.get("min_val")), call.get("max", call.get("max_val"))
    if isinstance(low, Labels | torch.Tensor) or isinstance(high, Labels | torch.Tensor):
        return t.join(*(value for value in (call["self"], low, high) if value is not None))
    symmetric = low is not None and high is not None and low == -high
    return t.pointwise(call["self"], odd=symmetric, homogeneous=low == 0 and high is None)


@rule("abs", "absolute")
def absolute(t: Algebra, call: Call) -> Labels:
    """The sign of the input does not show in the output."""
    return t.absolute(call["self"])


@rule("square")
def square(t: Algebra, call: Call) -> Labels:
    """A product with itself."""
    return t.join(call["self"], call["self"], kind="multiply")


@rule("pow")
def power(t: Algebra, call: Call) -> Labels:
    """Whole powers are products; all others are plain functions."""
    base, exponent = call.get("self"), call["exponent"]
    if exponent == 2 and not isinstance(exponent, Labels):
        return t.join(base, base, kind="multiply")
    return t.join(base, exponent, kind="other")


@rule("addcmul", "addcdiv")
def add_product(t: Algebra, call: Call) -> Labels:
    """`self + tensor1 * tensor2`."""
    kind: Join = "multiply" if call.name == "aten::addcmul" else "divide"
    return t.join(call["self"], t.join(call["tensor1"], call["tensor2"], kind=kind), kind="add")


@rule("lerp")
def interpolate(t: Algebra, call: Call) -> Labels:
    """`self + weight * (end - self)`."""
    step = t.join(call["self"], call["end"], kind="add")
    weight = t.pointwise(call["weight"], odd=True, homogeneous=True)
    return t.join(call["self"], t.join(step, weight, kind="multiply"), kind="add")


@rule("where")
def where(t: Algebra, call: Call) -> Labels:
    """A choice between two values, each kept or replaced by zero, added."""
    condition = t.labels(call["condition"])
    chosen = t.join(call["self"], condition, kind="multiply")
    rejected = t.join(call["other"], condition, kind="multiply")
    return t.join(_no_zeros_of(chosen, call["self"]), _no_zeros_of(rejected, call["other"]), kind="add")


def _no_zeros_of(product: Labels, value: object) -> Labels:
    """Known zeros of a masked value: those of the value, not the mask's (a false mask picks the other value)."""
    zero = value.zero if isinstance(value, Labels) else None
    if isinstance(value, torch.Tensor) and not bool(value.any()):
        zero = torch.ones((1,) * len(product.shape), dtype=torch.bool)
    elif zero is not None:
        zero = zero.reshape((1,) * (len(product.shape) - zero.dim()) + tuple(zero.shape))
    return replace(product, zero=zero)


@rule("masked_fill")
def masked_fill(t: Algebra, call: Call) -> Labels:
    """Some elements are replaced by one number."""
    mask, value = t.labels(call["mask"]), call["value"]
    kept = replace(t.join(call["self"], mask, kind="multiply"), zero=None)
    is_zero = not isinstance(value, Labels) and float(value) == 0.0
    return kept if is_zero else t.join(kept, value, kind="add")


@rule("prelu", "_prelu_kernel")
def prelu(t: Algebra, call: Call) -> Labels:
    """A rectifier whose negative slope is a parameter, one for all channels (axis 1) or one for each."""
    x, slope = t.labels(call["self"]), t.labels(call["weight"])
    if len(slope.shape) == 1 and slope.shape[0] > 1 and len(x.shape) > 1:
        view = [1] * len(x.shape)
        view[1] = -1
        (slope,) = t.move(lambda array: array.reshape(view), slope)
    rectified = t.pointwise(x, homogeneous=True, keeps_zero=True)
    return t.join(rectified, t.pointwise(slope), kind="multiply")


@rule("glu")
def gated(t: Algebra, call: Call) -> Labels:
    """`a * sigmoid(b)` for the halves of an axis."""
    value, gate = t.move(lambda array: array.chunk(2, call["dim"]), call["self"])
    return t.join(value, t.pointwise(gate), kind="multiply")


@rule("zero", "zeros_like", "fill", "full_like", "ones_like", "new_zeros", "new_ones", "new_full", "empty_like",
      "new_empty", "empty_permuted")  # fmt: skip
def constant(t: Algebra, call: Call) -> Labels:
    """A constant with the shape of another value."""
    number = {"ones_like": 1.0, "new_ones": 1.0}.get(call.name.removeprefix("aten::"), 0.0)
    value = call.get("fill_value", call.get("value", number))
    return t.move(lambda array: array.expand(call.shape), value)[0]


@rule("rand_like", "randn_like", "randint_like", "uniform", "cauchy", "exponential", "geometric", "log_normal")
def random(t: Algebra, call: Call) -> Labels:
    """Random numbers with the shape of another value: each position has its own."""
    return t.source(call.shape)


@rule("normal", "bernoulli", "poisson")
def drawn(t: Algebra, call: Call) -> Labels:
    """Random numbers whose distribution other values may say: of a position from what stands there."""
    said = [value for name, value in call.arguments.items() if name in ("mean", "std", "input", "self", "p")]
    values = [value for value in said if isinstance(value, Labels)]
    return t.join(t.source(call.shape), *values, kind="other")


@rule("copy")
def copy(t: Algebra, call: Call) -> Labels:
    """The second value takes the place of the first."""
    return t.move(lambda array: array.expand(call.shape), call["src"])[0]
