"""RNN, LSTM and GRU: the equations of one step, written in the algebra, tie gates and states.

The state of a step is the state of the next, so the units of `h` before and after a step are the same ones; one step
is enough. Signs follow from the equations: where the candidate is negated, the state is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch

from ..algebra import Algebra, Value
from ..labels import Labels
from .table import Call, rule


@dataclass(frozen=True, eq=False)
class Weights:
    """The parameters of one layer in one direction."""

    input: Value
    hidden: Value
    input_bias: Value | None = None
    hidden_bias: Value | None = None
    projection: Value | None = None


Hidden = tuple[Labels, ...]
Cell = Callable[[Algebra, Labels, Hidden, Weights], Hidden]


def _linear(t: Algebra, x: Labels, weight: Value, bias: Value | None) -> Labels:
    """`x W' + b` for values [rows, features]."""
    result = t.contract("ai,oi->ao", x, weight)
    return result if bias is None else t.join(result, bias, kind="add")


def _split(t: Algebra, gates: Labels, count: int) -> list[Labels]:
    return t.move(lambda array: array.chunk(count, -1), gates)


def _tanh(t: Algebra, x: Labels) -> Labels:
    return t.pointwise(x, odd=True)


def _times(t: Algebra, a: Value, b: Value) -> Labels:
    return t.join(a, b, kind="multiply")


def _plus(t: Algebra, a: Value, b: Value) -> Labels:
    return t.join(a, b, kind="add")


def lstm_cell(t: Algebra, x: Labels, state: Hidden, w: Weights) -> Hidden:
    """`c' = f c + i g`, `h' = o tanh(c')`, projected if asked."""
    h, c = state
    gates = _plus(t, _linear(t, x, w.input, w.input_bias), _linear(t, h, w.hidden, w.hidden_bias))
    i, f, g, o = _split(t, gates, 4)
    c = _plus(t, _times(t, t.pointwise(f), c), _times(t, t.pointwise(i), _tanh(t, g)))
    h = _times(t, t.pointwise(o), _tanh(t, c))
    return (h if w.projection is None else t.contract("ah,ph->ap", h, w.projection)), c


def gru_cell(t: Algebra, x: Labels, state: Hidden, w: Weights) -> Hidden:
    """`n = tanh(x_n + r h_n)`, `h' = (1 - z) n + z h`."""
    (h,) = state
    xr, xz, xn = _split(t, _linear(t, x, w.input, w.input_bias), 3)
    hr, hz, hn = _split(t, _linear(t, h, w.hidden, w.hidden_bias), 3)
    r, z = t.pointwise(_plus(t, xr, hr)), t.pointwise(_plus(t, xz, hz))
    n = _tanh(t, _plus(t, xn, _times(t, r, hn)))
    return (_plus(t, _times(t, t.pointwise(z), n), _times(t, z, h)),)


def tanh_cell(t: Algebra, x: Labels, state: Hidden, w: Weights) -> Hidden:
    """`h' = tanh(x W' + h U' + b)`."""
    (h,) = state
    return (_tanh(t, _plus(t, _linear(t, x, w.input, w.input_bias), _linear(t, h, w.hidden, w.hidden_bias))),)


def relu_cell(t: Algebra, x: Labels, state: Hidden, w: Weights) -> Hidden:
    """`h' = relu(x W' + h U' + b)`."""
    (h,) = state
    total = _plus(t, _linear(t, x, w.input, w.input_bias), _linear(t, h, w.hidden, w.hidden_bias))
    return (t.pointwise(total, homogeneous=True, keeps_zero=True),)


CELLS: dict[str, Cell] = {"lstm": lstm_cell, "gru": gru_cell, "rnn_tanh": tanh_cell, "rnn_relu": relu_cell}


def _same(t: Algebra, before: Hidden, after: Hidden) -> None:
    """The state after a step is the state before the next."""
    for old, new in zip(before, after, strict=True):
        t.join(old, new, kind="add")


def _fresh(t: Algebra, width: int) -> Labels:
    """New units [1, width] for a state whose units are not known yet."""
    value = t.parameter((1, width))
    return replace(value, weight=False)


def _state_widths(t: Algebra, name: str, w: Weights) -> list[int]:
    outputs, hidden = t.labels(w.hidden).shape
    return [hidden, outputs // 4] if name == "lstm" else [hidden]


def _run(t: Algebra, name: str, x: Labels, initial: Sequence[Labels], w: Weights) -> Hidden:
    """One layer in one direction: its states [1, width], with the initial ones tied to them."""
    before = tuple(_fresh(t, width) for width in _state_widths(t, name, w))
    after = CELLS[name](t, x, before, w)
    _same(t, before, after)
    for start, state in zip(initial, before, strict=True):
        t.join(start, state, kind="add")
    return before


def _weights(params: Sequence[Value], *, biases: bool, projected: bool, layers: int, directions: int
             ) -> Iterator[list[Weights]]:  # fmt: skip
    """The flat list of parameters as layers of directions."""
    each = 2 + 2 * biases + projected
    rows = [params[start : start + each] for start in range(0, len(params), each)]
    for layer in range(layers):
        yield [
            Weights(
                row[0], row[1], row[2] if biases else None, row[3] if biases else None, row[-1] if projected else None
            )
            for row in rows[layer * directions : (layer + 1) * directions]
        ]


@rule("lstm", "gru", "rnn_tanh", "rnn_relu")
def recurrent_layers(t: Algebra, call: Call) -> Sequence[Labels]:
    """Layers and directions of a recurrent network, on padded or on packed sequences."""
    name = call.name.removeprefix("aten::")
    packed = "data" in call.arguments
    x = t.labels(call["data"] if packed else call["input"])
    x = t.pinned(x, frozenset(range(len(x.shape) - 1)), "is a row or a step of a recurrent network")
    hx = [t.labels(value) for value in (call["hx"] if isinstance(call["hx"], list | tuple) else [call["hx"]])]
    directions = 2 if call["bidirectional"] else 1
    layers = int(call["num_layers"])
    projected = name == "lstm" and hx[0].shape[-1] != hx[1].shape[-1]
    finals: list[list[Labels]] = [[] for _ in hx]
    features = t.collapse(x, range(len(x.shape) - 1))
    rows = _weights(call["params"], biases=bool(call["has_biases"]), projected=projected, layers=layers,
                    directions=directions)  # fmt: skip
    for layer, weights in enumerate(rows):
        (features,) = t.move(lambda array: array.reshape(1, -1), features)
        states = []
        for direction, w in enumerate(weights):
            index = layer * directions + direction
            initial = [_start(t, value, index) for value in hx]
            states.append(_run(t, name, features, initial, w))
        for final, parts in zip(finals, zip(*states, strict=True), strict=True):
            final += parts
        outputs = [state[0] for state in states]
        (features,) = t.move(lambda *arrays: torch.cat(arrays, -1), *outputs)
    steps = t.source((*call.shape[:-1], 1))
    (features,) = t.move(lambda array: array.reshape(*[1] * (len(call.shape) - 1), -1), features)
    output = t.join(features, steps, kind="multiply")
    return [
        output,
        *(_stacked(t, final, shape) for final, shape in zip(finals, call.shapes[1:], strict=True)),
    ]


def _start(t: Algebra, value: Labels, index: int) -> Labels:
    """The initial state of one layer and direction, [1, width] if it has units."""
    (own,) = t.move(lambda array: array.select(0, index), value)
    rows = range(len(own.shape) - 1)
    own = t.pinned(own, frozenset(rows), "is a row of a recurrent network")
    return t.collapse(own, rows, keepdim=True) if own.units else own


def _stacked(t: Algebra, parts: Sequence[Labels], shape: Sequence[int]) -> Labels:
    """Final states [layers * directions, batch, width]."""
    middle = [1] * (len(shape) - 2)
    (stacked,) = t.move(lambda *arrays: torch.stack(arrays).reshape(shape[0], *middle, shape[-1]), *parts)
    rows = t.source((1, *shape[1:-1], 1))
    return t.join(stacked, rows, kind="multiply")


@rule("lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell")
def single_step(t: Algebra, call: Call) -> Labels | Sequence[Labels]:
    """One step of a cell; a loop in Python ties the states by itself."""
    name = call.name.removeprefix("aten::").removesuffix("_cell")
    x = t.labels(call["input"])
    hx = call["hx"] if isinstance(call["hx"], list | tuple) else [call["hx"]]
    batch = len(x.shape) - 1
    w = Weights(call["w_ih"], call["w_hh"], call.get("b_ih"), call.get("b_hh"))
    state = tuple(_rows(t, value) for value in hx)
    after = CELLS[name](t, _rows(t, x), state, w)
    if batch == 0:
        after = tuple(t.move(lambda array: array.reshape(-1), value)[0] for value in after)
    return after if name == "lstm" else after[0]


def _rows(t: Algebra, value: Value) -> Labels:
    """A value [rows, features], from one with or without a batch."""
    return t.move(lambda array: array.reshape(-1, array.shape[-1]), value)[0]
