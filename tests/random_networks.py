"""Random small networks that hunt for silently wrong layouts.

In: hypothesis (`networks()`) or a seed (`random_program(seed)`). Out: a `Program`, a module with example
inputs that interprets a `Script`: a list of steps, each of which applies one operation to one or two earlier
values and adds a new value. Both ways draw from the one table `OPERATIONS`. The module prints as its script,
and `Script.read` reads that text back, so a shrunk counter-example can be pasted into a regression test:

    v0 = input(2, 4, 3, 3)
    v1 = conv2d(v0, width=4, kernel=3, stride=1, padding=0, bias=True)
    v2 = flatten(v1, order='as_is')
    return v2

Values are vectors [batch, channels], sequences [batch, time, channels] or images [batch, channels, height,
width]. Operations look only at the number of axes, so after a transpose the "channels" are whatever stands
there: that is meant. Sizes are tiny and taken from few numbers, so that unrelated axes have equal lengths.
Views stay views, and in-place steps write through them, but never into an input or a weight. Comparisons use
the threshold 0.37 and not 0, and norms a large epsilon, so that rounding is not blown up; still, compare in
float64 (`.double()`). Not here: data-dependent shapes, integer inputs, random numbers in forward.
"""

import ast
import random
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import torch
import torch.nn.functional as F
from hypothesis import strategies as st
from torch import Tensor, nn

BATCH = 2
FLAG = (False, True)
THRESHOLD = 0.37
EPSILON = 1e-2


# --- Scripts: what is drawn, printed and read ---------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """`operation` applied to the values with the numbers `operands`."""

    operation: str
    operands: tuple[int, ...]
    options: dict[str, object] = field(default_factory=dict)

    def __str__(self) -> str:
        arguments = [f"v{number}" for number in self.operands]
        arguments += [f"{name}={value!r}" for name, value in self.options.items()]
        return f"{self.operation}({', '.join(arguments)})"


@dataclass(frozen=True)
class Script:
    """A program as data: values 0, 1, ... are the inputs, then one value per step."""

    inputs: tuple[tuple[int, ...], ...]
    steps: tuple[Step, ...]
    outputs: tuple[int, ...]

    def __str__(self) -> str:
        calls = [f"input({', '.join(map(str, shape))})" for shape in self.inputs] + [*map(str, self.steps)]
        lines = [f"v{number} = {call}" for number, call in enumerate(calls)]
        return "\n".join([*lines, "return " + ", ".join(f"v{number}" for number in self.outputs)])

    @classmethod
    def read(cls, text: str) -> "Script":
        """The script that prints as `text`.

        >>> text = "v0 = input(2, 4)\\nv1 = pointwise(v0, function='relu')\\nreturn v1"
        >>> str(Script.read(text)) == text
        True
        """
        *assignments, last = (line.strip() for line in text.strip().splitlines())
        calls = [ast.parse(line.split("=", 1)[1].strip(), mode="eval").body for line in assignments]
        inputs = tuple(tuple(map(ast.literal_eval, call.args)) for call in calls if call.func.id == "input")
        steps = tuple(
            Step(
                call.func.id,
                tuple(int(name.id.removeprefix("v")) for name in call.args),
                {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords},
            )
            for call in calls[len(inputs) :]
        )
        outputs = last.removeprefix("return").split(",")
        return cls(inputs, steps, tuple(int(name.strip().removeprefix("v")) for name in outputs))


class Program(nn.Module):
    """The module that runs a script; the seed draws every weight, also biases, norms, running statistics."""

    def __init__(self, script: Script, seed: int = 0) -> None:
        super().__init__()
        self.script = script
        generator = torch.Generator().manual_seed(seed)
        values, layers = list(self.example_inputs()), {}
        for number, step in enumerate(script.steps, start=len(script.inputs)):
            operands = [values[operand] for operand in step.operands]
            layers[number] = build(step, operands, layers, generator)
            values.append(layers[number](*operands))
            if isinstance(layers[number], nn.Module) and step.operation != "again":
                self.add_module(f"v{number}_{step.operation}", layers[number])
        self.layers = tuple(layers.values())
        self.eval()

    def forward(self, *inputs: Tensor) -> Tensor | tuple[Tensor, ...]:
        values = list(inputs)
        for step, layer in zip(self.script.steps, self.layers, strict=True):
            values.append(layer(*(values[operand] for operand in step.operands)))
        outputs = tuple(values[number] for number in self.script.outputs)
        return outputs[0] if len(outputs) == 1 else outputs

    def example_inputs(self, seed: int = 0) -> tuple[Tensor, ...]:
        """Standard normal inputs, the same ones at every call."""
        generator = torch.Generator().manual_seed(seed)
        return tuple(torch.randn(shape, generator=generator) for shape in self.script.inputs)

    def __repr__(self) -> str:
        return f'Program(Script.read("""\n{self.script}\n"""))'


def build(step: Step, operands: list[Tensor], layers: dict[int, Callable], generator: torch.Generator) -> Callable:
    """The layer of one step; `again` takes the layer of an earlier step, so that the two share weights."""
    if step.operation == "again":
        return layers[step.options["of"]]
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        layer = OPERATIONS[step.operation].build(*operands, **step.options)
    if isinstance(layer, nn.Module):
        fill(layer.eval(), generator)
    return layer


@torch.no_grad()
def fill(layer: nn.Module, generator: torch.Generator) -> None:
    """Normal weights that keep the size of a signal; vectors move away from the 0 or 1 they start with."""
    for weight in layer.parameters():
        noise = torch.randn(weight.shape, generator=generator)
        weight.copy_(noise / weight[0].numel() ** 0.5 if weight.ndim > 1 else weight + 0.5 * noise)
    for name, buffer in layer.named_buffers():
        if name.endswith(("running_mean", "running_var")):
            buffer.add_(torch.rand(buffer.shape, generator=generator))


# --- Drawing ------------------------------------------------------------------------------------------------

# What is drawn are numbers, and any numbers make a program: one for the inputs, three per step, one for the
# outputs. 0 always means the plainest choice, and a step means the same whatever is deleted before it, as far as
# that is possible: this is what lets hypothesis shrink.
LARGEST = 10**6
Choose = Callable[[Sequence], Any]  # one element of a sequence


def networks(max_steps: int = 8) -> st.SearchStrategy[Program]:
    """Programs of 1 to `max_steps` steps and an ending; counter-examples shrink to few and simple steps."""
    number = st.integers(0, LARGEST)
    step = st.tuples(st.integers(0, len(places()) - 1), st.integers(0, 35), number)

    @st.composite
    def programs(draw: st.DrawFn) -> Program:
        steps = draw(st.lists(step, min_size=1, max_size=max_steps))
        return Program(script_of(draw(number), steps, draw(number)))

    return programs()


def random_program(seed: int, max_steps: int = 8) -> Program:
    """The program of this seed, from the same table as `networks`, without hypothesis: for long runs."""
    draw = random.Random(seed).randint
    steps = [
        (draw(0, len(places()) - 1), draw(0, 35), draw(0, LARGEST)) for _ in range(draw(1 + max_steps // 2, max_steps))
    ]
    return Program(script_of(draw(0, LARGEST), steps, draw(0, LARGEST)))


def digits(number: int) -> Choose:
    """Chooses by the digits of a number, in the mixed radix that the lengths of the sequences make.

    >>> choose = digits(5)
    >>> choose("ab"), choose("abc"), choose("abc")
    ('b', 'c', 'a')
    """

    def choose(options: Sequence) -> Any:
        nonlocal number
        number, digit = divmod(number, len(options))
        return options[digit]

    return choose


def script_of(inputs: int, steps: list[tuple[int, int, int]], outputs: int) -> Script:
    """The script that these numbers mean. Runs each step, since what can follow depends on real tensors."""
    choose = digits(inputs)
    draft = Draft(tuple(input_shape(choose) for _ in range(choose((1, 1, 1, 2)))))
    for place, back, rest in steps:
        draft.take(next_step(draft, place, back, digits(rest)))
    choose, last = digits(outputs), len(draft.values) - 1
    ending = choose(("pool_linear", "flatten_linear", "reduce", "values"))
    if ending == "values":
        new = range(last, len(draft.inputs) - 1, -1)
        return draft.script(last, *(choose(new) for _ in range(choose((0, 1, 2)))))
    draft.take(Step(ending, (last,), OPERATIONS[ending].draw(choose, draft.values[last])))
    return draft.script(last + 1)


def input_shape(choose: Choose) -> tuple[int, ...]:
    """The shape of a vector, a sequence or an image."""
    channels, time, size = choose((4, 2, 3, 6)), choose((3, 2, 4)), choose((3, 4, 5))
    vector, sequence, image = (BATCH, channels), (BATCH, time, channels), (BATCH, channels, size, size)
    return choose((vector, sequence, sequence, image, image))


def next_step(draft: "Draft", place: int, back: int, choose: Choose) -> Step:
    """One more step: a value (mostly the last one), an operation that admits it, a partner, the options."""
    usable = [number for number in reversed(range(len(draft.values))) if is_usable(draft.values[number])]
    first = usable[max(back - 24, 0) % len(usable)]
    name = places()[place]
    if not draft.admitted(name, first, usable):
        possible = {name for name in (*OPERATIONS, "again") if draft.admitted(name, first, usable)}
        left = [name for name in places() if name in possible]
        name = left[place % len(left)]
    operands = choose(draft.admitted(name, first, usable))
    if name == "again":
        return Step("again", (first,), {"of": operands})
    return Step(name, operands, OPERATIONS[name].draw(choose, *(draft.values[number] for number in operands)))


@cache
def places() -> tuple[str, ...]:
    """The names of the operations, each as often as its row says, and `again`."""
    rows = OPERATIONS.items()
    return (*(name for name, operation in rows for _ in range(operation.often)), *["again"] * 8)


class Draft:
    """A script in the making, with the values and layers so far."""

    def __init__(self, inputs: tuple[tuple[int, ...], ...]) -> None:
        self.inputs = inputs
        self.values = [*Program(Script(inputs, (), ())).example_inputs()]
        self.steps: list[Step] = []
        self.layers: dict[int, Callable] = {}
        self.generator = torch.Generator().manual_seed(0)

    def script(self, *outputs: int) -> Script:
        return Script(self.inputs, tuple(self.steps), outputs)

    def take(self, step: Step) -> None:
        operands = [self.values[operand] for operand in step.operands]
        layer = build(step, operands, self.layers, self.generator)
        self.layers[len(self.values)] = layer
        self.steps.append(step)
        self.values.append(layer(*operands))

    def admitted(self, name: str, first: int, usable: list[int]) -> list[tuple[int, ...]] | list[int]:
        """The operands with `first` in front that an operation admits (never `first` twice, which is dull).

        For `again`, the steps whose layers could be used again.
        """
        if name == "again":
            return self.layers_for(first)
        operation, x = OPERATIONS[name], self.values[first]
        if not self.steps and not operation.holds_weights:
            return []  # before the first weights nothing can be permuted
        if operation.in_place and not self.is_writable(x):
            return []
        if len(operation.ranks) == 1:
            return [(first,)] if operation.admits(x) else []
        others = [number for number in usable if number != first]
        return [(first, other) for other in others if operation.admits(x, self.values[other])]

    def layers_for(self, first: int) -> list[int]:
        """The steps whose weights could be used again for this value."""
        return [
            number
            for number, step in enumerate(self.steps, start=len(self.inputs))
            if len(step.operands) == 1
            and self.values[step.operands[0]].shape == self.values[first].shape
            and isinstance(self.layers[number], nn.Module)
            and any(True for _ in self.layers[number].parameters())
        ]

    def is_writable(self, value: Tensor) -> bool:
        """Whether writing leaves inputs and weights alone, and autograd accepts it (no part of a split)."""
        modules = [layer for layer in self.layers.values() if isinstance(layer, nn.Module)]
        states = [tensor for module in modules for tensor in module.state_dict().values()]
        taken = {tensor.untyped_storage().data_ptr() for tensor in [*self.values[: len(self.inputs)], *states]}
        part = value._base is not None and value._base.numel() != value.numel()
        return value.untyped_storage().data_ptr() not in taken and not part


def is_usable(value: Tensor) -> bool:
    """Neither too large to go on with, nor so extreme that squares explode or the signal is gone."""
    largest = value.detach().abs().max()
    return value.numel() <= 320 and 2 <= value.ndim <= 4 and bool(1e-3 < largest < 20)


# --- Rows of the table --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Operation:
    """What an operation admits, its options, and how its layer is built.

    Attributes:
        build: `build(*operands, **options)` gives a module or a function of the operands.
        ranks: per operand, the admitted numbers of axes.
        choices: per option, its possible values or a function of the operands that gives them; if there is
            none, the operands are not admitted.
        accepts: further condition on the operands.
        often: how many times it counts when an operation is drawn.
        holds_weights: whether its layer may have parameters.
        in_place: whether it writes into its first operand.
    """

    build: Callable[..., Callable]
    ranks: tuple[str, ...]
    choices: dict[str, Sequence | Callable[..., Sequence]]
    accepts: Callable[..., bool] = lambda *operands: True
    often: int = 1
    holds_weights: bool = False
    in_place: bool = False

    def options(self, *operands: Tensor) -> dict[str, Sequence]:
        """The possible values of each option for these operands."""
        return {name: chosen(*operands) if callable(chosen) else chosen for name, chosen in self.choices.items()}

    def admits(self, *operands: Tensor) -> bool:
        ranked = all(str(x.ndim) in ranks for x, ranks in zip(operands, self.ranks, strict=True))
        return ranked and self.accepts(*operands) and all(self.options(*operands).values())

    def draw(self, choose: Choose, *operands: Tensor) -> dict[str, object]:
        return {name: choose(values) for name, values in self.options(*operands).items()}


def layer(build: Callable, *ranks: str, accepts: Callable = lambda *x: True, often: int = 1, **choices) -> Operation:
    """A row whose layer holds weights or constants: `build` returns it."""
    return Operation(build, ranks or ("234",), choices, accepts, often, holds_weights=True)


def function(
    run: Callable,
    *ranks: str,
    accepts: Callable = lambda *x: True,
    often: int = 1,
    in_place: bool = False,
    **choices,
) -> Operation:
    """A row without weights: `run(*operands, **options)` is the value."""

    def build(*operands: Tensor, **options: object) -> Callable:
        return partial(run, **options)

    return Operation(build, ranks or ("234",), choices, accepts, often, in_place=in_place)


class Layer(nn.Module):
    """Parts by name (modules, parameters, buffers) and what is done with them: `run(layer, *operands)`."""

    def __init__(self, run: Callable, **parts: nn.Module | Tensor) -> None:
        super().__init__()
        self.run = run
        for name, part in parts.items():
            if isinstance(part, Tensor) and not isinstance(part, nn.Parameter):
                self.register_buffer(name, part)
            else:
                setattr(self, name, part)

    def forward(self, *operands: Tensor) -> Tensor:
        return self.run(self, *operands)


def weight(*shape: int, start: float = 0.0) -> nn.Parameter:
    """A parameter that `fill` will randomise."""
    return nn.Parameter(torch.full(shape, start))


# --- What the rows ask of their operands --------------------------------------------------------------------


def channel(x: Tensor) -> int:
    """The axis of the channels."""
    return 1 if x.ndim == 4 else x.ndim - 1


def width(x: Tensor) -> int:
    """The number of channels."""
    return x.shape[channel(x)]


def rest(x: Tensor) -> tuple[int, ...]:
    """The axes of time or space."""
    return tuple(axis for axis in range(1, x.ndim) if axis != channel(x))


def axes(x: Tensor) -> tuple[int, ...]:
    """All axes but the batch, the channels first."""
    return (channel(x), *rest(x))


def long_axes(x: Tensor, *others: Tensor) -> tuple[int, ...]:
    """The axes with two or more entries."""
    return tuple(axis for axis in axes(x) if x.shape[axis] > 1)


def even_axes(x: Tensor) -> tuple[int, ...]:
    """The axes that can be halved."""
    return tuple(axis for axis in axes(x) if x.shape[axis] % 2 == 0)


def joinable_axes(x: Tensor, y: Tensor) -> tuple[int, ...]:
    """The axes along which two values can be concatenated."""
    differing = {axis for axis in range(min(x.ndim, y.ndim)) if x.shape[axis] != y.shape[axis]}
    return tuple(axis for axis in axes(x) if x.ndim == y.ndim and differing <= {axis})


def widths(x: Tensor, *others: Tensor) -> tuple[int, ...]:
    """Widths for a new layer: that of x (so that a skip is likely), then the usual ones."""
    return ((width(x),) * 2 if width(x) <= 6 else ()) + (4, 2, 3, 6)


def groups(x: Tensor) -> tuple[int, ...]:
    """The proper ways to cut the channels into groups of equal size."""
    return tuple(count for count in range(2, width(x)) if width(x) % count == 0)


def norm_groups(x: Tensor) -> tuple[int, ...]:
    """The numbers of groups of axis 1 that leave something to normalise."""
    return tuple(count for count in (1, 2, 3, x.shape[1]) if x.shape[1] % count == 0 and x[0].numel() > count)


def conv1d_groups(x: Tensor) -> tuple[int, ...]:
    """The numbers of groups that divide both axes of a sequence."""
    return tuple(count for count in (1, 2, 3) if x.shape[1] % count == x.shape[2] % count == 0)


def heads(x: Tensor) -> tuple[int, ...]:
    """The numbers of heads that divide the channels."""
    return tuple(count for count in (2, 1, 3) if width(x) % count == 0)


def kernels(x: Tensor) -> tuple[int, ...]:
    """The kernel sizes that fit an image."""
    return tuple(size for size in (3, 1, 2) if size <= min(x.shape[2:]))


def patch_sizes(x: Tensor) -> tuple[int, ...]:
    """The sizes of square patches that tile an image."""
    return tuple(size for size in (2, x.shape[3]) if x.shape[2] % size == x.shape[3] % size == 0)


def same_shape(x: Tensor, y: Tensor) -> bool:
    return x.shape == y.shape


def same_width(x: Tensor, y: Tensor) -> bool:
    return width(x) == width(y)


def same_shape_apart(x: Tensor, y: Tensor) -> bool:
    """Equal shapes, separate memory: what an in-place operation needs."""
    return x.shape == y.shape and x.untyped_storage().data_ptr() != y.untyped_storage().data_ptr()


def narrow_channels(*operands: Tensor) -> bool:
    """Few enough channels for a product of them."""
    return all(width(x) <= 10 for x in operands)


# --- Functions by name --------------------------------------------------------------------------------------

POINTWISE: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "gelu": F.gelu,
    "silu": F.silu,
    "leaky_relu": partial(F.leaky_relu, negative_slope=0.2),
    "abs": torch.abs,
    "square": torch.square,
    "softplus": F.softplus,
    "elu": F.elu,
    "relu6": F.relu6,
    "hardtanh": partial(F.hardtanh, min_val=-0.5, max_val=1.0),
    "clamp": lambda x: x.clamp(-1, 1),
    "clamp_min": lambda x: x.clamp_min(-0.5),
    "hardswish": F.hardswish,
    "mish": F.mish,
    "sin": torch.sin,
    "erf": torch.erf,
    "cube": lambda x: (x / 2) ** 3,
    "bump": lambda x: 1 / (1 + x**2),
    "negate": torch.neg,
    "double": lambda x: 2 * x,
    "shift": lambda x: x + 1,
    "one_minus": lambda x: 1 - x,
    "root": lambda x: (x.abs() + 0.1).sqrt(),
    "signed_root": lambda x: x * (x.abs() + 0.1).rsqrt(),
    "step": lambda x: (x > THRESHOLD).to(x.dtype),
    "dropout": partial(F.dropout, p=0.5, training=False),
    "clone": torch.clone,
    "contiguous": lambda x: x.contiguous(),
    "detach": torch.detach,
    "nan_to_num": torch.nan_to_num,
    "tanhshrink": F.tanhshrink,
    "softsign": F.softsign,
    "softshrink": F.softshrink,
}

COMBINE: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": torch.add,
    "subtract": torch.sub,
    "multiply": torch.mul,
    "gate": lambda x, y: x * torch.sigmoid(y),
    "maximum": torch.maximum,
    "divide": lambda x, y: x / (1 + y * y),
    "where": lambda x, y: torch.where(y > THRESHOLD, x, y),
    "masked_fill": lambda x, y: x.masked_fill(y > THRESHOLD, 0.5),
    "lerp": lambda x, y: torch.lerp(x, y, 0.25),
    "add_alpha": lambda x, y: torch.add(x, y, alpha=2),
    "hypot": torch.hypot,
    "addcmul": lambda x, y: torch.addcmul(x, x, y, value=0.5),
}

REDUCE: dict[str, Callable[..., Tensor]] = {
    "mean": torch.mean,
    "max": torch.amax,
    "sum": torch.sum,
    "logsumexp": torch.logsumexp,
    "norm": lambda x, axis, keepdim=False: (x.square().mean(axis, keepdim=keepdim) + 0.1).sqrt(),
}

# What depends on the order of the entries of one axis, or destroys it.
ORDERED: dict[str, Callable[[Tensor, int], Tensor]] = {
    "cumsum": torch.cumsum,
    "sort": lambda x, axis: x.sort(axis).values,
    "cummax": lambda x, axis: x.cummax(axis).values,
    "topk": lambda x, axis: x.topk(2, axis).values,
    "diff": lambda x, axis: x.diff(dim=axis),
    "argsort": lambda x, axis: x.argsort(axis).to(x.dtype) / x.shape[axis],
    "spectrum": lambda x, axis: torch.fft.rfft(x, dim=axis).abs(),
}

# The weight of a linear layer as a function of two parameters of its shape.
COMPUTED_WEIGHTS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "sum": lambda a, b: a + b,
    "standardised": lambda a, b: (a - a.mean(1, keepdim=True)) / (a.square().mean(1, keepdim=True) + 0.1) + b,
    "softmax": lambda a, b: a.softmax(1) + b,
    "row_scaled": lambda a, b: a * b[:, :1],
    "column_scaled": lambda a, b: a * b[:1],
    "product": lambda a, b: a @ (a.t() @ b),
    "stacked": lambda a, b: torch.cat([a, b]),
    "half_of_each": lambda a, b: torch.cat([a[: len(a) // 2], b[len(a) // 2 :]]),
    "triangular": lambda a, b: (a + b).tril(),
    "gated": lambda a, b: a * (b > THRESHOLD).to(a.dtype),
}

# How the outputs and final states of a recurrent layer become one value.
READOUTS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "sequence": lambda outputs, state: outputs,
    "last_output": lambda outputs, state: outputs[:, -1],
    "last_state": lambda outputs, state: state[-1],
    "states": lambda outputs, state: state.transpose(0, 1),
    "states_flat": lambda outputs, state: state.transpose(0, 1).flatten(1),
    "first_and_last": lambda outputs, state: torch.cat([state[0], state[-1]], -1),
}

RECURRENT: dict[str, Callable[..., nn.Module]] = {
    "rnn": nn.RNN,
    "relu_rnn": partial(nn.RNN, nonlinearity="relu"),
    "gru": nn.GRU,
    "lstm": nn.LSTM,
    "lstm_cell_state": nn.LSTM,
    "lstm_projected": partial(nn.LSTM, proj_size=2),
}

# torch warns once per process that a projected LSTM is slower: here, where no test counts it.
with warnings.catch_warnings(action="ignore"):
    nn.LSTM(1, 2, proj_size=1)(torch.zeros(1, 1))

CELLS = {"rnn": nn.RNNCell, "gru": nn.GRUCell, "lstm": nn.LSTMCell}


def spread(vector: Tensor, x: Tensor) -> Tensor:
    """A vector over the channels of x, in a shape that broadcasts against x."""
    return vector[:, None, None] if x.ndim == 4 else vector


def ramp(size: int, like: Tensor) -> Tensor:
    """A fixed vector in which no two entries are equal."""
    return torch.linspace(0.5, 1.5, size, dtype=like.dtype)


def at(axis: int, index: object) -> tuple:
    """The subscript that takes `index` of one axis."""
    return (slice(None),) * axis + (index,)


# --- Layers -------------------------------------------------------------------------------------------------


def along(axis: int, inner: nn.Module, x: Tensor) -> nn.Module:
    """`inner`, which acts on the last axis, made to act on `axis`."""
    if axis == x.ndim - 1:
        return inner
    return Layer(lambda self, x: self.layer(x.movedim(axis, -1)).movedim(-1, axis), layer=inner)


def matmul(x: Tensor, width: int) -> Layer:
    """A weight [channels, width], the other way round than in a linear layer."""
    return Layer(lambda self, x: x @ self.weight, weight=weight(x.shape[-1], width))


def addmm(x: Tensor, width: int) -> Layer:
    parts = dict(weight=weight(x.shape[1], width), bias=weight(width))
    return Layer(lambda self, x: torch.addmm(self.bias, x, self.weight), **parts)


def rows_linear(x: Tensor, width: int) -> Layer:
    """A linear layer, time folded into the batch meanwhile."""
    inner = nn.Linear(x.shape[-1], width)
    return Layer(lambda self, x: self.layer(x.flatten(0, 1)).unflatten(0, (BATCH, -1)), layer=inner)


def einsum(x: Tensor, width: int) -> Layer:
    parts = dict(weight=weight(x.shape[-1], width))
    return Layer(lambda self, x: torch.einsum("...c,cd->d...", x, self.weight).movedim(0, -1), **parts)


def einsum_grouped(x: Tensor, count: int, width: int) -> Layer:
    """One matrix per group of channels."""

    def run(self: Layer, x: Tensor) -> Tensor:
        return torch.einsum("...gc,gcd->...gd", x.unflatten(-1, (count, -1)), self.weight).flatten(-2)

    return Layer(run, weight=weight(count, x.shape[-1] // count, width))


def einsum_time(x: Tensor, width: int) -> Layer:
    """One matrix per time step, summed."""
    parts = dict(weight=weight(*x.shape[1:], width))
    return Layer(lambda self, x: torch.einsum("btc,tcd->bd", x, self.weight), **parts)


def computed_linear(x: Tensor, width: int, form: str) -> Layer:
    """A linear layer whose weight is a function of two parameters."""
    parts = dict(a=weight(width, x.shape[-1]), b=weight(width, x.shape[-1]))
    return Layer(lambda self, x: F.linear(x, COMPUTED_WEIGHTS[form](self.a, self.b)), **parts)


def weight_normed_linear(x: Tensor, width: int) -> nn.Module:
    """A linear layer with the library's parametrisation: length times direction."""
    return nn.utils.parametrizations.weight_norm(nn.Linear(x.shape[-1], width))


def tied(x: Tensor, inner: int, activation: str) -> Layer:
    """There with W and back with its transpose."""

    def run(self: Layer, x: Tensor) -> Tensor:
        return F.linear(POINTWISE[activation](F.linear(x, self.weight, self.bias)), self.weight.t())

    return Layer(run, weight=weight(inner, x.shape[-1]), bias=weight(inner))


def loop(x: Tensor, times: int, activation: str) -> Layer:
    """The same square layer over and over, with the input added each time."""

    def run(self: Layer, x: Tensor) -> Tensor:
        state = x
        for _ in range(times):
            state = POINTWISE[activation](self.layer(state)) + x
        return state

    return Layer(run, layer=nn.Linear(x.shape[-1], x.shape[-1]))


def mixture(x: Tensor, width: int, experts: int) -> Layer:
    """Linear experts, mixed by a softmax gate."""

    def run(self: Layer, x: Tensor) -> Tensor:
        return torch.einsum("...e,...c,ecd->...d", self.gate(x).softmax(-1), x, self.experts)

    return Layer(run, gate=nn.Linear(x.shape[-1], experts), experts=weight(experts, x.shape[-1], width))


def squeeze_excite(x: Tensor, inner: int) -> Layer:
    """Channels scaled by a small network of their means."""
    gates = nn.Sequential(nn.Linear(width(x), inner), nn.ReLU(), nn.Linear(inner, width(x)), nn.Sigmoid())
    return Layer(lambda self, x: broadcast(x, self.gates(x.mean(rest(x))), "multiply"), gates=gates)


def pool_linear(x: Tensor, width: int, kind: str) -> Layer:
    """Channels reduced over time or space, then a linear layer."""
    inner = nn.Linear(x.shape[channel(x)], width)
    return Layer(lambda self, x: self.layer(REDUCE[kind](x, rest(x)) if rest(x) else x), layer=inner)


def flatten_linear(x: Tensor, width: int) -> nn.Module:
    """A linear layer of all entries."""
    return nn.Sequential(nn.Flatten(), nn.Linear(x[0].numel(), width))


def conv2d(x: Tensor, width: int, kernel: int, stride: int, padding: int, bias: bool) -> nn.Module:
    return nn.Conv2d(x.shape[1], width, kernel, stride, padding, bias=bias)


def grouped_conv2d(x: Tensor, count: int, width: int, kernel: int) -> nn.Module:
    return nn.Conv2d(x.shape[1], count * width, kernel, padding=1, groups=count)


def transposed_conv2d(x: Tensor, width: int, stride: int, count: int) -> nn.Module:
    return nn.ConvTranspose2d(x.shape[1], width * count, 2, stride, groups=count)


def circular_conv2d(x: Tensor, width: int) -> nn.Module:
    return nn.Conv2d(x.shape[1], width, 3, padding=1, padding_mode="circular")


def conv1d(x: Tensor, width: int, kernel: int, axis: int, count: int, bias: bool) -> nn.Module:
    """A convolution that keeps the length, with `axis` as the channels."""
    inner = nn.Conv1d(x.shape[axis], width * count, kernel, padding=kernel // 2, groups=count, bias=bias)
    if axis == 1:
        return inner
    return Layer(lambda self, x: self.layer(x.transpose(1, 2)).transpose(1, 2), layer=inner)


def batch_norm(x: Tensor, affine: bool, statistics: bool) -> nn.Module:
    """Over axis 1, as the library has it; without running statistics it normalises by those of the batch."""
    kind = nn.BatchNorm2d if x.ndim == 4 else nn.BatchNorm1d
    return kind(x.shape[1], eps=EPSILON, affine=affine, track_running_stats=statistics)


def instance_norm(x: Tensor, affine: bool) -> nn.Module:
    """Over axis 1, as the library has it."""
    return (nn.InstanceNorm2d if x.ndim == 4 else nn.InstanceNorm1d)(x.shape[1], eps=EPSILON, affine=affine)


def layer_norm(x: Tensor, axis: int, affine: bool, bias: bool) -> nn.Module:
    return along(axis, nn.LayerNorm(x.shape[axis], EPSILON, elementwise_affine=affine, bias=bias), x)


def rms_norm(x: Tensor, axis: int, by_hand: bool) -> nn.Module:
    """The library's, or written out as in language models."""

    def run(self: Layer, x: Tensor) -> Tensor:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPSILON))

    size = x.shape[axis]
    return along(axis, Layer(run, weight=weight(size, start=1.0)) if by_hand else nn.RMSNorm(size, eps=EPSILON), x)


def scalar(x: Tensor, how: str) -> Layer:
    """A parameter without axes."""
    return Layer(lambda self, x: COMBINE[how](x, self.scale), scale=weight(start=1.0))


def per_channel(x: Tensor, how: str) -> Layer:
    """A parameter over the channels."""
    return Layer(lambda self, x: COMBINE[how](x, spread(self.vector, x)), vector=weight(width(x), start=1.0))


def constant(x: Tensor, how: str, where: str) -> Callable:
    """A fixed vector over the channels, as a buffer or made in forward."""
    if where == "forward":
        return lambda x: COMBINE[how](x, spread(ramp(width(x), like=x), x))
    return Layer(lambda self, x: COMBINE[how](x, spread(self.vector, x)), vector=ramp(width(x), like=x))


def constant_matrix(x: Tensor) -> Layer:
    """A fixed matrix that treats every channel differently."""
    size = x.shape[-1]
    return Layer(lambda self, x: x @ self.matrix, matrix=torch.eye(size).roll(1, 0) + ramp(size, like=x) / 4)


def positions(x: Tensor, form: str) -> Layer:
    """Learned positions, looked up with constant indices and added."""
    size, channels = x.shape[1:]
    if form == "embedding":
        table = nn.Embedding(size, channels)
        return Layer(lambda self, x: x + self.table(torch.arange(size)), table=table)
    if form == "parameter":
        return Layer(lambda self, x: x + self.table[:, :size], table=weight(1, size + 1, channels))
    parts = dict(table=weight(size, channels), index=torch.arange(size) // 2)
    return Layer(lambda self, x: x + self.table[self.index], **parts)


def class_token(x: Tensor) -> Layer:
    """One more, learned, time step in front."""
    token = weight(1, 1, x.shape[-1])
    return Layer(lambda self, x: torch.cat([self.token.expand(BATCH, -1, -1), x], 1), token=token)


def lookup(x: Tensor, width: int) -> Layer:
    """An embedding of the index of the largest channel."""
    return Layer(lambda self, x: self.table(x.argmax(-1)), table=nn.Embedding(x.shape[-1], width))


def recurrent(x: Tensor, *, kind: str, hidden: int, readout: str, batch_first: bool, **arguments: object) -> Layer:
    """A whole recurrent layer and its read-out."""

    def run(self: Layer, x: Tensor) -> Tensor:
        outputs, state = self.layer(x if batch_first else x.transpose(0, 1))
        if isinstance(state, tuple):
            state = state[kind == "lstm_cell_state"]
        return READOUTS[readout](outputs if batch_first else outputs.transpose(0, 1), state)

    return Layer(run, layer=RECURRENT[kind](x.shape[-1], hidden, batch_first=batch_first, **arguments))


def recurrent_from(x: Tensor, y: Tensor, kind: str, hidden: int) -> Layer:
    """A recurrent layer over x that starts in a state made from the vector y."""

    def run(self: Layer, x: Tensor, y: Tensor) -> Tensor:
        start = self.start(y)[None]
        return self.layer(x, (start, torch.tanh(start)) if kind == "lstm" else start)[0]

    inner = RECURRENT[kind](x.shape[-1], hidden, batch_first=True)
    return Layer(run, start=nn.Linear(width(y), hidden), layer=inner)


def recurrent_cell(x: Tensor, kind: str, hidden: int, stacked: bool) -> Layer:
    """A cell in a loop over time."""

    def run(self: Layer, x: Tensor) -> Tensor:
        state = x.new_zeros(BATCH, hidden)
        state, outputs = (state, state) if kind == "lstm" else state, []
        for now in x.unbind(1):
            state = self.cell(now, state)
            outputs.append(state[0] if kind == "lstm" else state)
        return torch.stack(outputs, 1) if stacked else outputs[-1]

    return Layer(run, cell=CELLS[kind](x.shape[-1], hidden))


# --- Attention ----------------------------------------------------------------------------------------------


def sdpa_attention(query: Tensor, key: Tensor, value: Tensor, causal: bool) -> Tensor:
    return F.scaled_dot_product_attention(query, key, value, is_causal=causal)


def matmul_attention(query: Tensor, key: Tensor, value: Tensor, causal: bool) -> Tensor:
    scores = query @ key.transpose(-2, -1) / query.shape[-1] ** 0.5
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), float("-inf"))
    return scores.softmax(-1) @ value


def einsum_attention(query: Tensor, key: Tensor, value: Tensor, causal: bool) -> Tensor:
    """With an additive mask."""
    scores = torch.einsum("bhtd,bhsd->bhts", query, key)
    if causal:
        scores = scores + torch.full_like(scores, -1e4).triu(1)
    return torch.einsum("bhts,bhsd->bhtd", scores.softmax(-1), value)


def linear_attention(query: Tensor, key: Tensor, value: Tensor, causal: bool) -> Tensor:
    """Without softmax, keys times values first; never causal."""
    return F.softplus(query) @ (F.softplus(key).transpose(-2, -1) @ value / key.shape[-2])


ATTENTION: dict[str, Callable[[Tensor, Tensor, Tensor, bool], Tensor]] = {
    "sdpa": sdpa_attention,
    "matmul": matmul_attention,
    "einsum": einsum_attention,
    "linear": linear_attention,
}


def rotated(x: Tensor) -> Tensor:
    """Rotary positions: the first half of each head against the second, by an angle that grows with time."""
    angle = torch.arange(x.shape[-2], dtype=x.dtype)[:, None] * ramp(x.shape[-1] // 2, like=x)
    angle = torch.cat([angle, angle], -1)
    first, second = x.chunk(2, -1)
    return x * angle.cos() + torch.cat([-second, first], -1) * angle.sin()


def split_heads(x: Tensor, count: int, size: int, interleaved: bool) -> Tensor:
    """[batch, time, heads * size] -> [batch, heads, time, size]; a single head is repeated."""
    if x.shape[-1] == size:
        return x.unsqueeze(1).expand(-1, count, -1, -1)
    if interleaved:
        return x.unflatten(-1, (size, count)).permute(0, 3, 1, 2)
    return x.unflatten(-1, (count, size)).transpose(1, 2)


def merge_heads(x: Tensor, interleaved: bool) -> Tensor:
    """[batch, heads, time, size] -> [batch, time, heads * size]."""
    return (x.permute(0, 2, 3, 1) if interleaved else x.transpose(1, 2)).flatten(2)


def attention(
    x: Tensor,
    y: Tensor | None = None,
    *,
    count: int,
    size: int,
    form: str,
    interleaved: bool,
    causal: bool = False,
    fused: bool = False,
    rotary: bool = False,
    shared_keys: bool = False,
) -> Layer:
    """Attention of x to itself, or to a second sequence y.

    Args:
        x: What asks.
        y: What is asked, if it is not x.
        count: Number of heads.
        size: Width of a head.
        form: A row of `ATTENTION`.
        interleaved: The head is the faster index of the inner axis.
        causal: No time step sees a later one.
        fused: Query, key and value come from one layer.
        rotary: Rotary positions on query and key, if the size of a head is even.
        shared_keys: All heads have one key and value (multi-query).
    """
    inner, outer = count * size, size if shared_keys else count * size
    parts = {"output": nn.Linear(inner, x.shape[-1])}
    if fused:
        parts["query_key_value"] = nn.Linear(x.shape[-1], inner + 2 * outer)
    else:
        source = (x if y is None else y).shape[-1]
        parts["query"] = nn.Linear(x.shape[-1], inner)
        parts |= {"key": nn.Linear(source, outer), "value": nn.Linear(source, outer)}

    def run(self: Layer, x: Tensor, y: Tensor | None = None) -> Tensor:
        y = x if y is None else y
        if fused:
            projected = self.query_key_value(x).split([inner, outer, outer], -1)
        else:
            projected = self.query(x), self.key(y), self.value(y)
        query, key, value = (split_heads(part, count, size, interleaved) for part in projected)
        if rotary and size % 2 == 0:
            query, key = rotated(query), rotated(key)
        return self.output(merge_heads(ATTENTION[form](query, key, value, causal), interleaved))

    return Layer(run, **parts)


def multihead(x: Tensor, count: int, weights: bool) -> Layer:
    """The library's attention; `weights` gives the attention weights [batch, time, time] instead."""
    inner = nn.MultiheadAttention(x.shape[-1], count, batch_first=True)
    return Layer(lambda self, x: self.layer(x, x, x, need_weights=weights)[weights], layer=inner)


def transformer_layer(x: Tensor, count: int, norm_first: bool, activation: str) -> nn.Module:
    """The library's encoder layer, with its fast path."""
    arguments = dict(activation=activation, norm_first=norm_first, batch_first=True)
    return nn.TransformerEncoderLayer(x.shape[-1], count, dim_feedforward=5, **arguments)


# --- Moving entries -----------------------------------------------------------------------------------------


def grouped(x: Tensor, count: int) -> Tensor:
    """The channels as two axes [count, channels / count]."""
    return x.unflatten(channel(x), (count, -1))


def reduce_grouped(x: Tensor, count: int, over: str, kind: str) -> Tensor:
    """Channels as [count, rest], then one of the two axes reduced (maxout)."""
    return REDUCE[kind](grouped(x, count), channel(x) + (over == "rest"))


def shuffle(x: Tensor, count: int) -> Tensor:
    """Channel shuffle: [count, rest] transposed."""
    axis = channel(x)
    return grouped(x, count).transpose(axis, axis + 1).flatten(axis, axis + 1)


def flatten(x: Tensor, order: str) -> Tensor:
    """Everything but the batch on one axis."""
    return x.flatten(1) if order == "as_is" else x.movedim(1, -1).reshape(BATCH, -1)


def fold(x: Tensor, count: int) -> Tensor:
    """The channels of a vector as a sequence, or those of a sequence as an image."""
    folded = x.unflatten(-1, (count, -1))
    return folded if x.ndim == 2 else folded.transpose(1, 2)


def patches(x: Tensor, size: int, channels_last: bool) -> Tensor:
    """An image as a sequence of patches [batch, patches, size * size * channels]."""
    blocks = x.unflatten(3, (-1, size)).unflatten(2, (-1, size))
    blocks = blocks.permute((0, 2, 4, 3, 5, 1) if channels_last else (0, 2, 4, 1, 3, 5))
    return blocks.flatten(3).flatten(1, 2)


def pad(x: Tensor, axis: int, before: int, after: int, value: float) -> Tensor:
    """Constant entries before and after."""
    return F.pad(x, [0, 0] * (x.ndim - 1 - axis) + [before, after], value=value)


def narrow(x: Tensor, axis: int, part: str) -> Tensor:
    """A slice of one axis."""
    half = x.shape[axis] // 2
    parts = {"head": slice(0, -1), "tail": slice(1, None), "half": slice(half), "even": slice(0, None, 2)}
    return x[at(axis, parts[part])]


def picked(x: Tensor, axis: int, order: str, how: str) -> Tensor:
    """Entries of one axis by a constant list."""
    entries = [*range(x.shape[axis])]
    index = {"reversed": entries[::-1], "rotated": [*entries[1:], 0], "repeated": [0, *entries, 0]}[order]
    if how == "list":
        return x[at(axis, index)]
    if how == "index_select":
        return x.index_select(axis, torch.tensor(index))
    shape = [*x.shape[:axis], len(index), *x.shape[axis + 1 :]]
    return x.gather(axis, torch.tensor(index).reshape([-1] + [1] * (x.ndim - axis - 1)).expand(shape))


def repeated(x: Tensor, axis: int, how: str) -> Tensor:
    """Every entry of one axis twice."""
    return x.repeat_interleave(2, axis) if how == "interleaved" else torch.cat([x, x], axis)


def masked(x: Tensor, axis: int, how: str) -> Tensor:
    """A constant mask over one axis."""
    keep = (torch.arange(x.shape[axis]) % 2 == 0).reshape([-1] + [1] * (x.ndim - axis - 1))
    if how == "where":
        return torch.where(keep, x, 0.25)
    return x.masked_fill(~keep, 0.0) if how == "masked_fill" else x * keep


def add_to_part(x: Tensor, y: Tensor, axis: int, count: int) -> Tensor:
    """`x[:, :count] += y[:, :count]`: writes into x."""
    x[at(axis, slice(count))] += y[at(axis, slice(count))]
    return x


def write_part(x: Tensor, y: Tensor, axis: int) -> Tensor:
    """A copy of x in which every second entry is overwritten by that of y."""
    result = x.clone()
    result[at(axis, slice(0, None, 2))] = y[at(axis, slice(0, None, 2))]
    return result


def halves(x: Tensor, axis: int, how: str) -> Tensor:
    """The two halves of one axis, multiplied."""
    if how == "glu":
        return F.glu(x, axis)
    first, second = x.chunk(2, axis)
    return COMBINE[how](first, second)


def broadcast(x: Tensor, y: Tensor, how: str) -> Tensor:
    """A vector combined with every time step or pixel of a larger value, channel by channel."""
    return COMBINE[how](x, y[:, None] if x.ndim == 3 else y[:, :, None, None])


def scores(x: Tensor, y: Tensor, form: str) -> Tensor:
    """Every time step of x against every one of y: [batch, time, time]."""
    return torch.cdist(x, y + 0.1) if form == "distance" else torch.einsum("btc,bsc->bts", x, y)


def gram(x: Tensor, axis: int) -> Tensor:
    """Inner products between all entries of one axis: the same units on two axes."""
    return torch.einsum("btc,btd->bcd" if axis == 2 else "btc,bsc->bts", x, x) / x.shape[1]


def pool(x: Tensor, form: str) -> Tensor:
    """Pooling over pixels, or over the last axis of a sequence."""
    if x.ndim == 3:
        return F.avg_pool1d(x, 2) if "avg" in form else F.max_pool1d(x, 2)
    return {"max": F.max_pool2d, "avg": F.avg_pool2d}[form](x, 2)


def adaptive_pool(x: Tensor, size: int, form: str) -> Tensor:
    return {"max": F.adaptive_max_pool2d, "avg": F.adaptive_avg_pool2d}[form](x, size)


def no_grad(x: Tensor, function: str) -> Tensor:
    """A pointwise function in a block without gradients."""
    with torch.no_grad():
        return POINTWISE[function](x)


# --- The table ----------------------------------------------------------------------------------------------

ANY = ("234", "234")

# fmt: off
OPERATIONS: dict[str, Operation] = {
    # The plainest first: counter-examples shrink towards the top.
    "linear": layer(lambda x, width, bias, axis: along(axis, nn.Linear(x.shape[axis], width, bias), x),
                    width=widths, bias=(True, False), axis=axes, often=15),
    "pointwise": function(lambda x, function: POINTWISE[function](x), function=tuple(POINTWISE), often=10),
    "conv2d": layer(conv2d, "4", width=widths, kernel=kernels, stride=(1, 2), padding=(0, 1),
                    bias=(True, False), often=15),
    "add": function(torch.add, *ANY, accepts=same_shape, often=10),
    "pool_linear": layer(pool_linear, width=(3, 2, 4), kind=("mean", "max", "sum")),
    "flatten_linear": layer(flatten_linear, width=(3, 2, 4)),
    # Other linear maps.
    "matmul": layer(matmul, "23", width=widths),
    "addmm": layer(addmm, "2", width=widths),
    "rows_linear": layer(rows_linear, "3", width=widths),
    "einsum": layer(einsum, "23", width=widths),
    "einsum_grouped": layer(einsum_grouped, "23", count=groups, width=(2, 3)),
    "einsum_time": layer(einsum_time, "3", width=widths),
    "computed_linear": layer(computed_linear, "23", width=widths, form=tuple(COMPUTED_WEIGHTS), often=3),
    "weight_normed_linear": layer(weight_normed_linear, "23", width=widths),
    "tied": layer(tied, "23", inner=(3, 4, 2), activation=("relu", "tanh", "square")),
    "loop": layer(loop, "23", times=(2, 3), activation=("tanh", "relu", "sigmoid"), accepts=narrow_channels),
    "mixture": layer(mixture, "23", width=widths, experts=(2, 3)),
    "squeeze_excite": layer(squeeze_excite, "34", inner=(2, 3)),
    "bilinear": layer(lambda x, y, width: nn.Bilinear(x.shape[1], y.shape[1], width), "2", "2",
                      width=widths, accepts=narrow_channels),
    # Convolutions.
    "depthwise_conv2d": layer(lambda x, width, kernel: grouped_conv2d(x, x.shape[1], width, kernel), "4",
                              width=(1, 2), kernel=kernels, often=2),
    "grouped_conv2d": layer(grouped_conv2d, "4", count=groups, width=(1, 2, 3), kernel=kernels, often=3),
    "transposed_conv2d": layer(transposed_conv2d, "4", width=(2, 1, 3), stride=(1, 2),
                               count=lambda x: (1, *groups(x), x.shape[1]), often=2),
    "circular_conv2d": layer(circular_conv2d, "4", width=widths),
    "conv1d": layer(conv1d, "3", width=(4, 2, 3), kernel=(3, 1), axis=(2, 1), count=conv1d_groups, bias=FLAG,
                    often=8),
    "unfold": function(lambda x, kernel: F.unfold(x, kernel, padding=1), "4", kernel=(2, 3),
                       accepts=lambda x: x[0].numel() < 50),
    # Norms.
    "batch_norm": layer(batch_norm, affine=(True, False), statistics=(True, True, False), often=4),
    "layer_norm": layer(layer_norm, axis=long_axes, affine=(True, False), bias=(True, False), often=4),
    "layer_norm_all": layer(lambda x, affine: nn.LayerNorm(x.shape[1:], EPSILON, affine), "34",
                            affine=(True, False)),
    "group_norm": layer(lambda x, count, affine: nn.GroupNorm(count, x.shape[1], EPSILON, affine),
                        count=norm_groups, affine=(True, False), often=2),
    "instance_norm": layer(instance_norm, "34", affine=FLAG, accepts=lambda x: x[0, 0].numel() > 1),
    "rms_norm": layer(rms_norm, axis=long_axes, by_hand=FLAG, often=2),
    "normalize": function(lambda x, axis: F.normalize(x, dim=axis, eps=0.1), axis=axes),
    # Parameters and constants on their own.
    "prelu": layer(lambda x, shared: nn.PReLU(1 if shared else x.shape[1]), shared=FLAG),
    "scalar": layer(scalar, how=("multiply", "add", "divide")),
    "per_channel": layer(per_channel, how=("add", "multiply", "subtract", "maximum", "where"), often=3),
    "constant": layer(constant, how=("multiply", "add", "where", "maximum"), where=("buffer", "forward"),
                      often=2),
    "constant_matrix": layer(constant_matrix),
    "ones": function(lambda x: x * spread(torch.ones(width(x), dtype=x.dtype), x) + torch.ones_like(x)),
    "positions": layer(positions, "3", form=("embedding", "parameter", "buckets"), often=2),
    "class_token": layer(class_token, "3"),
    "lookup": layer(lookup, "23", width=widths),
    # Two values.
    "combine": function(lambda x, y, how: COMBINE[how](x, y), *ANY, how=tuple(COMBINE), accepts=same_shape,
                        often=5),
    "broadcast": function(broadcast, "34", "2", how=tuple(COMBINE), accepts=same_width, often=8),
    "cat": function(lambda x, y, axis: torch.cat([x, y], axis), *ANY, axis=joinable_axes, often=4),
    "stack": function(lambda x, y, kind: REDUCE[kind](torch.stack([x, y], 1), 1), *ANY, kind=tuple(REDUCE),
                      accepts=same_shape),
    "stack_new_axis": function(lambda x, y, axis: torch.stack([x, y], axis), "23", "23", axis=(1, -1),
                               accepts=same_shape),
    "write_part": function(write_part, *ANY, axis=long_axes, accepts=same_shape),
    "outer": function(lambda x, y: torch.einsum("bc,bd->bcd", x, y), "2", "2", accepts=narrow_channels),
    "batch_matmul": function(torch.matmul, "3", "3", accepts=lambda x, y: x.shape[2] == y.shape[1]),
    "scores": function(scores, "3", "3", form=("dot", "distance"), accepts=same_width),
    "cosine": function(lambda x, y: F.cosine_similarity(x, y, dim=2, eps=0.1), "3", "3", accepts=same_shape),
    "cross_attention": layer(attention, "3", "3", count=(2, 1, 3), size=(2, 3), form=tuple(ATTENTION),
                             interleaved=FLAG, often=2),
    "recurrent_from": layer(recurrent_from, "3", "2", kind=("gru", "lstm", "rnn"), hidden=(3, 4), often=4),
    # Parts and orders of one axis.
    "chunk": function(lambda x, axis, index: x.chunk(2, axis)[index], axis=even_axes, index=(0, 1), often=2),
    "split": function(lambda x, index: x.split([1, width(x) - 1], channel(x))[index], index=(1, 0),
                      accepts=lambda x: width(x) > 1),
    "halves": function(halves, axis=even_axes, how=("gate", "glu", "multiply", "add"), often=3),
    "slice": function(narrow, axis=long_axes, part=("head", "tail", "half", "even"), often=2),
    "select": function(torch.select, "34", dim=(1, 2), index=(0, -1), often=2),
    "flip": function(lambda x, axis: x.flip(axis), axis=long_axes),
    "roll": function(lambda x, axis, by: x.roll(by, axis), axis=long_axes, by=(1, -1)),
    "picked": function(picked, axis=long_axes, order=("reversed", "rotated", "repeated"),
                       how=("list", "index_select", "gather"), often=2),
    "repeated": function(repeated, axis=axes, how=("tiled", "interleaved"), accepts=narrow_channels),
    "shuffle": function(shuffle, count=groups, often=2),
    "channel_shuffle": layer(lambda x, count: nn.ChannelShuffle(count), "4", count=groups),
    "pixel_shuffle": function(lambda x: F.pixel_shuffle(x, 2), "4",
                              accepts=lambda x: x.shape[1] % 4 == 0, often=3),
    "pixel_unshuffle": function(lambda x: F.pixel_unshuffle(x, 2), "4",
                                accepts=lambda x: x.shape[2] % 2 == x.shape[3] % 2 == 0, often=2),
    "reduce_grouped": function(reduce_grouped, count=groups, over=("rest", "count"),
                               kind=("max", "mean", "sum"), often=2),
    "ordered": function(lambda x, axis, form: ORDERED[form](x, axis), axis=long_axes, form=tuple(ORDERED),
                        often=2),
    "masked": function(masked, axis=long_axes, how=("where", "masked_fill", "multiply"), often=2),
    "pad": function(pad, axis=axes, before=(0, 1), after=(1, 0, 2), value=(0.0, 0.5), often=2),
    # Shapes. `scramble` reshapes without moving an entry.
    "flatten": function(flatten, "34", order=("as_is", "first_axis_last"), often=3),
    "image_to_sequence": function(lambda x: x.flatten(2).transpose(1, 2), "4", often=2),
    "sequence_to_image": function(lambda x: x.transpose(1, 2).unflatten(2, (2, -1)), "3",
                                  accepts=lambda x: x.shape[1] % 2 == 0),
    "merge_rows": function(lambda x: x.flatten(1, 2), "4"),
    "patches": function(patches, "4", size=patch_sizes, channels_last=FLAG),
    "permute": function(torch.permute, "4", dims=((0, 2, 3, 1), (0, 3, 1, 2), (0, 1, 3, 2)), often=2),
    "transpose": function(lambda x: x.transpose(1, 2), "3", often=2),
    "fold": function(fold, "23", count=groups, often=2),
    "scramble": function(lambda x: x.reshape(BATCH, *x.shape[:0:-1]), "34"),
    # Reductions and products.
    "reduce": function(lambda x, kind, axis, keepdim: REDUCE[kind](x, axis, keepdim=keepdim or x.ndim == 2),
                       kind=tuple(REDUCE), axis=axes, keepdim=FLAG, often=2),
    "global_pool": function(lambda x, kind: REDUCE[kind](x, (2, 3)), "4", kind=tuple(REDUCE), often=2),
    "reduce_and_back": function(
        lambda x, kind, axis, how: COMBINE[how](x, REDUCE[kind](x, axis, keepdim=True)),
        kind=tuple(REDUCE), axis=axes, how=("subtract", "multiply", "add", "divide"), often=2),
    "softmax": function(torch.softmax, dim=long_axes, often=2),
    "log_softmax": function(torch.log_softmax, dim=long_axes),
    "gram": function(gram, "3", axis=(2, 1), accepts=narrow_channels),
    "self_outer": function(lambda x: x[:, :, None] * x[:, None, :], "2", accepts=narrow_channels),
    "diagonal": function(lambda x: x.diagonal(dim1=1, dim2=2), "3"),
    "triangle": function(torch.tril, "34"),
    "pool": function(pool, "34", form=("max", "avg"), accepts=lambda x: min(x.shape[2:]) > 1, often=2),
    "adaptive_pool": function(adaptive_pool, "4", size=(1, 2), form=("avg", "max")),
    "upsample": function(lambda x, mode: F.interpolate(x, scale_factor=2, mode=mode), "4",
                         mode=("nearest", "bilinear"), accepts=lambda x: x[0].numel() <= 60),
    "pad_space": function(lambda x, mode: F.pad(x, (1, 1, 1, 1), mode=mode), "4",
                          mode=("constant", "reflect", "replicate", "circular"),
                          accepts=lambda x: min(x.shape[2:]) > 1),
    # Sequences.
    "recurrent": layer(recurrent, "3", kind=tuple(RECURRENT), hidden=(3, 4), num_layers=(1, 2),
                       bidirectional=FLAG, bias=(True, False), readout=tuple(READOUTS),
                       batch_first=(True, False), often=10),
    "recurrent_cell": layer(recurrent_cell, "3", kind=tuple(CELLS), hidden=(3, 4), stacked=(True, False)),
    "attention": layer(attention, "3", count=(2, 1, 3), size=(2, 3), form=tuple(ATTENTION), interleaved=FLAG,
                       causal=FLAG, fused=FLAG, rotary=FLAG, shared_keys=FLAG, often=10),
    "multihead": layer(multihead, "3", count=heads, weights=FLAG, often=2),
    "transformer_layer": layer(transformer_layer, "3", count=heads, norm_first=FLAG,
                               activation=("relu", "gelu")),
    # Memory and gradients.
    "relu_in_place": function(torch.relu_, in_place=True, often=2),
    "scale_in_place": function(lambda x: x.mul_(0.5).add_(0.25), in_place=True),
    "add_in_place": function(lambda x, y: x.add_(y), *ANY, accepts=same_shape_apart, in_place=True, often=2),
    "add_to_part": function(add_to_part, *ANY, axis=long_axes, count=(1, 2), accepts=same_shape_apart,
                            in_place=True, often=3),
    "no_grad": function(no_grad, function=("relu", "tanh", "double")),
}
# fmt: on
