"""Products summed over axes: linear layers, matrix products, einsum, attention, convolutions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from string import ascii_letters

import torch
from torch import Tensor

from ..algebra import Algebra, Value
from ..labels import Labels
from .reduction import softmax
from .table import Call, rule


def added(t: Algebra, result: Labels, bias: Value | None) -> Labels:
    """The result plus a bias, if there is one."""
    return result if bias is None else t.join(result, bias, kind="add")


@rule("linear")
def linear(t: Algebra, call: Call) -> Labels:
    """`y = x W' + b`."""
    x, weight = t.labels(call["input"]), t.labels(call["weight"])
    if len(weight.shape) == 1:
        return added(t, matrix_product(t, x, weight), call.get("bias"))
    batch = ascii_letters[: len(x.shape) - 1]
    return added(t, t.contract(f"{batch}y,zy->{batch}z", x, weight), call.get("bias"))


def matrix_product(t: Algebra, first: Value, second: Value) -> Labels:
    """`matmul` with its rules for vectors and for batches that broadcast."""
    a, b = t.labels(first), t.labels(second)
    rows, columns = "x" * (len(a.shape) > 1), "z" * (len(b.shape) > 1)
    left, right = max(len(a.shape) - 2, 0), max(len(b.shape) - 2, 0)
    batch = ascii_letters[: max(left, right)]
    inner = batch[len(batch) - left :] + rows + "y", batch[len(batch) - right :] + "y" + columns
    return t.contract(f"{inner[0]},{inner[1]}->{batch}{rows}{columns}", a, b)


@rule("matmul", "mm", "bmm", "mv", "dot", "vdot", "linalg_matmul")
def product(t: Algebra, call: Call) -> Labels:
    """Matrix products; a weight may stand on either side."""
    first, second = list(call.arguments.values())[:2]
    return matrix_product(t, first, second)


@rule("addmm", "addbmm", "baddbmm", "addmv")
def product_and_sum(t: Algebra, call: Call) -> Labels:
    """`self + first @ second`."""
    bias, first, second = list(call.arguments.values())[:3]
    result = matrix_product(t, first, second)
    return added(t, t.reduce(result, [0], odd=True, homogeneous=True) if call.name == "aten::addbmm" else result, bias)


@rule("outer", "ger")
def outer(t: Algebra, call: Call) -> Labels:
    """All products of two vectors."""
    first, second = list(call.arguments.values())[:2]
    return t.contract("a,b->ab", first, second)


@rule("einsum")
def einsum(t: Algebra, call: Call) -> Labels:
    """Contracted pair by pair, each index summed as soon as nothing else needs it."""
    values = [t.labels(value) for value in call["tensors"]]
    inputs, output = _spelled_out(call["equation"], [len(value.shape) for value in values])
    if any(len(set(term)) < len(term) for term in inputs):
        return t.opaque(call.shape, call.tensors, "einsum takes a diagonal")
    result, letters = values[0], inputs[0]
    for number, (value, term) in enumerate(zip(values[1:], inputs[1:], strict=True), start=2):
        needed = output + "".join(inputs[number:])
        kept = "".join(c for c in dict.fromkeys(letters + term) if c in needed)
        result = t.contract(f"{letters},{term}->{kept}", result, value)
        letters = kept
    gone = [axis for axis, letter in enumerate(letters) if letter not in output]
    if gone:
        result = t.reduce(result, gone, odd=True, homogeneous=True)
    kept = "".join(letter for letter in letters if letter in output)
    return t.move(lambda array: array.permute([kept.index(letter) for letter in output]), result)[0]


def _spelled_out(equation: str, ranks: list[int]) -> tuple[list[str], str]:
    """Inputs and output of an einsum, with the ellipsis replaced by capital letters."""
    left, arrow, output = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    free = "".join(letter for letter in reversed(ascii_letters) if letter not in equation)
    spread = max([rank - len(term) + 3 for rank, term in zip(ranks, terms, strict=True) if "..." in term], default=0)
    dots = free[:spread]
    inputs = [
        term.replace("...", dots[len(dots) - (rank - len(term) + 3) :] if "..." in term else "")
        for rank, term in zip(ranks, terms, strict=True)
    ]
    if not arrow:
        letters = left.replace(".", "").replace(",", "")
        output = "..." * ("..." in left) + "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
    return inputs, output.replace("...", dots)


@rule("bilinear")
def bilinear(t: Algebra, call: Call) -> Labels:
    """`y_o = x1' W_o x2 + b_o`."""
    first, second = t.labels(call["input1"]), call["input2"]
    batch = ascii_letters[: len(first.shape) - 1]
    half = t.contract(f"{batch}x,zxy->{batch}zy", first, call["weight"])
    return added(t, t.contract(f"{batch}zy,{batch}y->{batch}z", half, second), call.get("bias"))


@rule("tensordot")
def tensordot(t: Algebra, call: Call) -> Labels:
    """A product summed over given axes of both values."""
    a, b = t.labels(call["self"]), t.labels(call["other"])
    left = list(ascii_letters[: len(a.shape)])
    right = list(ascii_letters[26 : 26 + len(b.shape)])
    for i, j in zip(call["dims_self"], call["dims_other"], strict=True):
        right[j] = left[i]
    output = [c for c in left if c not in right] + [c for c in right if c not in left]
    return t.contract(f"{''.join(left)},{''.join(right)}->{''.join(output)}", a, b)


@rule("scaled_dot_product_attention")
def attention(t: Algebra, call: Call) -> Labels:
    """`softmax(q k' + mask) v`; where heads differ in their units, the heads become the units."""
    query, key, value = (t.labels(call[name]) for name in ("query", "key", "value"))
    if call.get("enable_gqa", False):
        repeats = query.shape[-3] // key.shape[-3]
        (key,) = t.move(lambda array: array.repeat_interleave(repeats, -3), key)
        (value,) = t.move(lambda array: array.repeat_interleave(repeats, -3), value)
    (transposed,) = t.move(lambda array: array.transpose(-1, -2), key)
    scores = matrix_product(t, query, transposed)
    mask = call.get("attn_mask")
    if call.get("is_causal", False):
        mask = torch.ones(scores.shape[-2:]).tril()
    if mask is not None:
        scores = t.join(scores, mask, kind="other")
    return matrix_product(t, softmax(t, scores, -1), value)


@rule("conv1d", "conv2d", "conv3d", "convolution", "_convolution", "conv_transpose1d", "conv_transpose2d",
      "conv_transpose3d", "convolution_overrideable", "mkldnn_convolution")  # fmt: skip
def convolution(t: Algebra, call: Call) -> Labels:
    """A linear map of channels at every kernel position; grouped ones map each group to its own outputs."""
    x, weight = t.labels(call["input"]), t.labels(call["weight"])
    spatial = len(weight.shape) - 2
    transposed = "transpose" in call.name or bool(call.get("transposed", False))
    batch = "b" * (len(x.shape) - spatial - 1)
    space = "tuvw"[:spatial]
    channels, groups = len(batch), int(call.get("groups", 1))
    plain = groups == 1 and not transposed
    free = [axis for axis in range(spatial) if plain and _stands_still(call, axis, x.shape[channels + 1 + axis])]
    slid = [axis for axis in range(spatial) if axis not in free]
    inner = [
        call.shape[channels + 1 + axis] if axis in slid else x.shape[channels + 1 + axis] for axis in range(spatial)
    ]
    x = t.blend(x, [channels + 1 + axis for axis in slid], (*x.shape[: channels + 1], *inner), odd=True,
                homogeneous=True, why="is an axis that a convolution slides along")  # fmt: skip
    weight = t.pinned(weight, frozenset(2 + axis for axis in slid), "is a kernel position")
    kernel = t.collapse(weight, [2 + axis for axis in slid])
    if transposed:
        kernel = _transposed_kernel(t, kernel, groups)
    grouped = groups > 1
    result = _grouped(t, x, kernel, groups, batch, space) if grouped else _slid(t, x, kernel, batch, space, free)
    bias = call.get("bias")
    if bias is not None:
        (bias,) = t.move(lambda array: array.reshape(-1, *[1] * spatial), bias)
    return added(t, result, bias)


def _stands_still(call: Call, axis: int, length: int) -> bool:
    """Whether a kernel stays where it is along an axis: it has one position and takes them one by one, or spans all."""
    size = int(call["weight"].shape[2 + axis])
    padding, stride = call.get("padding", 0), call.get("stride", 1)
    padded = padding not in ("valid", "same") and bool(_along(padding, axis))
    alone = size == 1 and _along(stride, axis) == 1
    return not padded and (alone or (size == length and padding != "same"))


def _along(sizes: int | Sequence[int], axis: int) -> int:
    """What an argument of a convolution says of one axis; one number stands for all."""
    if isinstance(sizes, int):
        return sizes
    return int(sizes[axis] if len(sizes) > 1 else sizes[0])


def _slid(t: Algebra, x: Labels, kernel: Labels, batch: str, space: str, free: Sequence[int]) -> Labels:
    """Channels mapped by a kernel [outputs, inputs, ...] of which the axes are left along which it stands still.

    Where it has several positions there, they are summed over as inputs are, and units may stand on them; where it has
    one, it does not touch what stands there.
    """
    inside = "".join(space[axis] for axis in free)
    summed = [letter for letter, size in zip(inside, kernel.shape[2:], strict=True) if size > 1]
    single = [2 + number for number, letter in enumerate(inside) if letter not in summed]
    kernel = t.collapse(kernel, single)
    kept = "".join(letter for letter in space if letter not in summed)
    result = t.contract(f"{batch}c{space},oc{''.join(summed)}->{batch}o{kept}", x, kernel)
    gone = [len(batch) + 1 + space.index(letter) for letter in summed]

    def opened(array: Tensor) -> Tensor:
        for axis in gone:
            array = array.unsqueeze(axis)
        return array

    return t.move(opened, result)[0]


def _transposed_kernel(t: Algebra, kernel: Labels, groups: int) -> Labels:
    """A transposed convolution's kernel [in, out per group] as [out, in per group]."""

    def turn(array: Tensor) -> Tensor:
        split = array.reshape(groups, array.shape[0] // groups, array.shape[1])
        return split.transpose(1, 2).reshape(-1, array.shape[0] // groups)

    if groups == 1:
        return t.move(lambda array: array.t(), kernel)[0]
    kernel = t.pinned(kernel, frozenset([1]), "is an output channel that groups share")
    return t.move(turn, kernel)[0]


def more_choices(groups: int, inside: int, shared: int = 1) -> bool:
    """Whether permuting whole groups leaves more choices than permuting within the groups."""
    return math.lgamma(groups + 1) >= groups * math.lgamma(inside + 1) + math.lgamma(shared + 1)


def _grouped(t: Algebra, x: Labels, kernel: Labels, groups: int, batch: str, space: str) -> Labels:
    """Either whole groups move (depthwise: channels), or outputs within a group and inputs in all groups alike."""
    channel = len(batch)
    inputs, outputs = x.shape[channel] // groups, kernel.shape[0] // groups
    shape = x.shape
    (x,) = t.move(lambda a: a.reshape(*shape[:channel], groups, inputs, *shape[channel + 1 :]), x)
    if more_choices(groups, outputs, inputs):
        return _groups_move(t, x, kernel, groups, batch, space)
    if overlapping := [ids for ids in x.units if ids.shape[channel] > 1]:
        view = [-1 if axis == channel else 1 for axis in range(len(x.shape))]
        for ids in overlapping:
            t.distinguish(ids, torch.arange(groups).reshape(view), "is in another group of a convolution")
    mixed = t.collapse(x, [channel])
    result = t.contract(f"{batch}c{space},oc->{batch}o{space}", mixed, kernel)
    return _told_apart(t, result, channel, groups)


def _told_apart(t: Algebra, value: Labels, axis: int, groups: int) -> Labels:
    """Outputs of different groups read different inputs: a tag for the group."""
    view = [-1 if number == axis else 1 for number in range(len(value.shape))]
    group = torch.arange(value.shape[axis]) // (value.shape[axis] // groups)
    return t.join(value, group.reshape(view) + 1, kind="multiply")


def _groups_move(t: Algebra, x: Labels, kernel: Labels, groups: int, batch: str, space: str) -> Labels:
    """Groups are the units: inputs and outputs of a group move together, in their order."""
    channel = len(batch)
    view = [-1 if axis == channel + 1 else 1 for axis in range(len(x.shape))]
    order = torch.arange(x.shape[channel + 1]).reshape(view)
    for ids in x.units:
        if ids.shape[channel] > 1:
            t.distinguish(ids, order, "has its place in a group of a convolution")
    kernel = t.pinned(kernel, frozenset([1]), "is an input channel that groups share")
    kernel = t.collapse(kernel, [1])
    (kernel,) = t.move(lambda a: a.reshape(groups, -1, *[1] * len(space)), kernel)
    mixed = t.collapse(x, [channel + 1], keepdim=True)
    result = t.join(mixed, kernel, kind="multiply")
    shape = result.shape
    (result,) = t.move(lambda a: a.reshape(*shape[:channel], -1, *shape[channel + 2 :]), result)
    return result
