"""Sites: where a network applies weights, observed while it runs.

A site is a linear, convolution or recurrent layer, with the batch norm that follows it at once, or the vector that a
linear one is multiplied by (LayerScale), and the residual sum that it enters. What comes out is what the next
nonlinearity sees: the *pre-activation*. Functions are observed, not modules, so weights may stand anywhere in a
network.

In: a module and a call of it. Out: `Seen` records, in the order in which the network makes them. Not here: what is done
with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from weakref import ReferenceType, ref

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from ..modules import live_tensors
from .attending import ATTENTION, SOFTMAX, pattern_of
from .moves import DROPOUTS, MOVES, Moved, opened
from .pooling import pooled
from .recurrence import CELLS, STEPS, Recurrence, Unrolled, layers, slopes
from .replaying import KEPT, Replay
from .resuming import Lost, Resumption, writes

CONVOLUTION = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")
LAYERS = {"linear": ("input", "weight", "bias"), **dict.fromkeys(("conv1d", "conv2d", "conv3d"), CONVOLUTION)}
NORM = ("input", "running_mean", "running_var", "weight", "bias", "training", "momentum", "eps")
SUMS = ("add", "add_", "__add__", "__radd__", "__iadd__")
PRODUCTS = ("mul", "mul_", "__mul__", "__rmul__", "__imul__")
# Nonlinearities that act on each number alone.
ELEMENTWISE = frozenset(
    {"relu", "relu6", "leaky_relu", "elu", "celu", "selu", "gelu", "silu", "mish", "softplus", "softsign", "tanh",
     "sigmoid", "logsigmoid", "hardtanh", "hardswish", "hardsigmoid", "rrelu"}
)  # fmt: skip
_Owner = tuple[ReferenceType[Tensor], str]  # what comes out of a site, while it is there, and the name of the site
NOTHING = ""  # the name of no weight: nothing is looked for
# Ways to the memory of a tensor by which writes to it are not counted.
UNCOUNTED = {Tensor.data.__get__, Tensor.data.__set__} | {  # type: ignore[attr-defined]
    getattr(Tensor, name) for name in ("numpy", "__array__", "__dlpack__", "storage", "untyped_storage", "data_ptr")
}
# Functions that look at a tensor without using its values.
LOOKS = ("__get__", "__len__", "size", "dim", "numel", "stride", "is_contiguous", "is_floating_point")


@dataclass(frozen=True)
class Norm:
    """The batch norm that follows a layer: the names of its tensors, and what is added to its variance."""

    mean: str
    variance: str
    weight: str
    bias: str
    epsilon: float


@dataclass(frozen=True, eq=False)
class Seen:
    """A site as it was seen: one application of weights, with what went in and what came out.

    Args:
        name: Name of the weight (of a recurrent layer: its hidden-to-hidden weight).
        inputs: What the weight was applied to.
        output: What came out, after norm or scale and residual sum (of a recurrent layer: the hidden states).
        bias: Name of the bias, if there is one.
        kernel: Size of the kernel of a convolution; empty for a linear layer.
        how: Stride, padding, dilation and groups of a convolution.
        norm: The batch norm that follows.
        scale: Name of the vector, one number for each row, that what comes out of a linear layer is multiplied by.
        rest: The other summand of the residual sum.
        joint: That summand is what another site gives, and had gone nowhere before: both make one pre-activation.
        recurrence: The recurrent layer, where it is one.
        then: The elementwise function that takes what comes out, if the first to take it is one.
        straight: What comes out is also used past that function. Known only when a whole run is observed.
        shared: The weight, or what comes out before the norm, is also used in another way (as an embedding, by a skip):
            a change would be felt there. Known only when a whole run is observed.
        pattern: How the heads whose values it reads attend, [..., heads, places, places]. Known only where it is asked
            for, and attention comes right before.
    """

    name: str
    inputs: Tensor
    output: Tensor
    bias: str | None = None
    kernel: tuple[int, ...] = ()
    how: Mapping[str, Any] = field(default_factory=dict)
    norm: Norm | None = None
    scale: str | None = None
    rest: Tensor | None = None
    joint: bool = False
    recurrence: Recurrence | None = None
    then: Callable[[Tensor], Tensor] | None = None
    straight: bool = False
    shared: bool = False
    pattern: Tensor | None = None

    @property
    def tensors(self) -> tuple[str, ...]:
        """Names of all tensors that decide what the site computes."""
        if self.recurrence:
            return self.recurrence.names
        norm = (self.norm.mean, self.norm.variance, self.norm.weight, self.norm.bias) if self.norm else ()
        return (*filter(None, (self.name, self.bias, self.scale)), *norm)

    @property
    def rows(self) -> tuple[int, ...]:
        """The shape of what comes out without its channels: how often, and where, the weights were applied."""
        shape, channels = tuple(self.output.shape), self.output.dim() - 1 - len(self.kernel)
        return shape[:channels] + shape[channels + 1 :]

    @property
    def pre_activations(self) -> Tensor:
        """What the next nonlinearity sees; of a recurrent layer, what its gates see at each step."""
        return self.recurrence.pre_activations(self.inputs, self.output) if self.recurrence else self.output

    @property
    def bent(self) -> bool:
        """Whether pre-activations are used only through a nonlinearity that is known."""
        return self.recurrence is not None or (self.then is not None and not self.straight)

    def without_inputs(self) -> Seen:
        """The site with nothing of what went in, to be kept where only what came out counts."""
        return replace(self, inputs=self.inputs.new_empty(0), rest=None, pattern=None)

    def without_values(self) -> Seen:
        """The site with nothing of what went in and came out, to be kept where only its weights count."""
        return replace(self.without_inputs(), output=self.output.new_empty(0))

    def squared_slopes(self, pre_activations: Tensor) -> Tensor:
        """Squared slopes of the nonlinearity that follows, where it sees these pre-activations."""
        if self.recurrence is not None:
            return self.recurrence.squared_slopes(pre_activations)
        assert self.then is not None, "asked of sites that are bent"
        (found,) = slopes(self.then, pre_activations)
        return found.square()


def observe(  # noqa: PLR0913
    model: nn.Module, call: Callable[[nn.Module], Any], *, only: str | None = None, calls: int | None = None,
    gradients: bool = False, replay: Replay | None = None, forced: Sequence[Tensor] = (), blank: bool = False,
) -> list[Seen]:  # fmt: skip
    """The sites of a network in one run, in the order in which it makes them.

    Their tensors are as they were seen: copies, unless a replay tells that the network does not write to its own.

    Args:
        model: The network, in evaluation mode.
        call: Runs it.
        only: Name of the weight to look for; default: all.
        calls: The run is stopped when this many sites were seen; default: it goes to its end.
        gradients: Whether what is seen can be traced back to the weights.
        replay: What the network gave on the same inputs before, so that only what has changed is computed.
        forced: What comes out of the weight that is looked for, at each of its applications, in place of what it gives:
            what a loop of the network's own comes to later is then as it would be with other weights.
        blank: What comes out of the weight that is looked for does not count, if it is a linear or convolution layer
            and the run is stopped there: it is not computed, and its numbers mean nothing.
    """
    unused = blank and calls == 1
    look = partial(_Observer, model, only, calls, None if forced else replay, forced=forced, blank=unused)
    return _shown(look, model, call, gradients=gradients)


def observe_attending(model: nn.Module, call: Callable[[nn.Module], Any]) -> list[Seen]:
    """The sites of a network in one run; those that read what heads of attention write tell how these attend."""
    return _shown(partial(_Observer, model, None, None, None, patterns=True), model, call)


def _shown(
    look: Callable[[], _Observer], model: nn.Module, call: Callable[[nn.Module], Any], *, gradients: bool = False
) -> list[Seen]:
    """What an observer sees in one run, or in another one if the network wrote to what was seen."""
    mode = look()
    again = partial(_shown, look, model, call, gradients=gradients)
    try:
        with torch.set_grad_enabled(gradients):
            with mode:
                result = call(model)
            mode.use(pytree.tree_leaves(result))
            mode.close(list(mode.open))
        if mode.replay:
            mode.replay.complete = True
    except _Enough:
        pass
    except Lost:
        return again()
    if mode.replay and mode.overwritten:
        mode.replay.keep_copies()
        return again()
    return [
        replace(seen, shared=bool(mode.elsewhere.intersection(seen.tensors)), straight=seen.name in mode.straight)
        for seen in mode.whole()
    ]


def replayed(model: nn.Module, call: Callable[[nn.Module], Any], replay: Replay) -> Any:
    """What a network gives, of which only what has changed since its last run on the same inputs is computed."""
    try:
        with torch.no_grad(), _Observer(model, NOTHING, None, replay) as mode:
            result = call(model)
        if mode.resumption:
            mode.resumption.check(mode.names, pytree.tree_leaves(result))
        if mode.overwritten:
            replay.keep_copies()
    except Lost:
        return replayed(model, call, replay)
    replay.complete = True
    return result


def together(each: Sequence[list[Seen]]) -> list[tuple[Seen, ...]]:
    """What several networks showed, site by site; nothing if they went different ways through their code.

    Sites at which they saw different numbers of rows are left out: an expert to which each network routes rows of its
    own choice.
    """
    ways = {tuple(seen.name for seen in one) for one in each}
    shown = list(zip(*each, strict=True)) if len(ways) == 1 else []
    return [seen for seen in shown if len({one.rows for one in seen}) == 1]


class _Enough(BaseException):
    """Raised to stop a network that has shown what is wanted. No `Exception`: a network may catch those."""


class _Observer(TorchFunctionMode):
    """Sees each function that the network calls. A site is open until its output goes elsewhere."""

    def __init__(  # noqa: PLR0913
        self, model: nn.Module, only: str | None, calls: int | None, replay: Replay | None, *, patterns: bool = False,
        forced: Sequence[Tensor] = (), blank: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.patterns, self.forced, self.blank = patterns, forced, blank
        self.copying = replay is None or replay.memory.written
        self.looked: list[tuple[Tensor, int]] = []  # what was seen, where no copies are made, and how often written to
        self.uncounted = False  # whether writes may not have been counted
        self.pattern: Tensor | None = None  # of attention that was seen since the last layer
        tensors = live_tensors(model)
        self.names = {id(tensor): name for name, tensor in reversed(tensors.items())}
        self.only, self.calls, self.replay = only, calls, replay
        if replay:
            replay.begin({self.names[id(tensor)]: tensor for tensor in tensors.values()}, only)
        # Where one site is looked for, what comes before it need not be shown, and may be left out.
        self.resumption = replay.resumption if replay and only is not None and replay.resumption.possible else None
        self.reached = only == NOTHING
        self.open: dict[int, Seen] = {}
        self.moved: dict[int, Moved] = {}  # by what was made of the output of an open site by moving it
        self.seen: list[Seen] = []
        self.unrolled: dict[int, Unrolled] = {}  # by the number of a site that a cell makes step by step
        self.normed: dict[int, _Owner] = {}  # by what comes out before the norm
        self.bent: dict[int, _Owner] = {}  # by what went through a nonlinearity
        self.elsewhere: set[str] = set()
        self.straight: set[str] = set()

    def __torch_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Called by PyTorch in place of each of its functions, so that inputs and outputs can be noted."""
        kwargs = kwargs or {}
        self.uncounted = self.uncounted or func in UNCOUNTED
        if func is nn.functional.multi_head_attention_forward:
            with self:  # a function of PyTorch that is made of others: its weights are applied by those
                return opened(func)(*args, **kwargs)
        name = getattr(func, "__name__", "")
        leaves = [] if name in LOOKS else _leaves(args, kwargs)
        make = partial(func, *args, **kwargs)
        if self.replay:
            self.replay.use(self.names[id(x)] for x in (leaves or args) if id(x) in self.names)
        if self.replay and self.resumption:
            return self._resumed(self.replay, self.resumption, name, make, leaves)
        return self._observed(name, make, leaves)

    def _resumed(
        self, replay: Replay, resumption: Resumption, name: str, make: partial[Any], leaves: Sequence[Any]
    ) -> Any:
        """What a function gives: as it was kept, or as it is observed, and noted before the site that is looked for."""
        if name in LOOKS:
            result = make()
            if isinstance(result, Tensor):  # maybe another way to the same numbers, whose writes are not counted
                resumption.give_up()
                raise Lost
            return result
        if resumption.resuming:
            replay.at += name in KEPT
            return resumption.again(name, make, leaves)
        if name != "clone" or resumption.calls:  # a batch is copied first
            resumption.check(self.names, leaves)
        if not self.reached and any(self.names.get(id(each)) == self.only for each in leaves):
            self.reached = True
            replay.reach()
        result = self._observed(name, make, leaves)
        resumption.know(result)
        if not self.reached and resumption.possible:
            resumption.note(name, self.names, leaves, result)
        return result

    def _observed(self, name: str, make: partial[Any], leaves: Sequence[Any]) -> Any:
        """Run a function and note what it means for sites."""
        func, args, kwargs = make.func, make.args, make.keywords
        taken = [id(x) for x in leaves if id(x) in self.open]
        scale = self._scale(args, taken) if taken and name in PRODUCTS and not kwargs else None
        self.use([] if scale else leaves[:1] if name in (*LAYERS, *STEPS, *CELLS, "batch_norm") else leaves)
        if part := self._part(name, args, kwargs, taken, scale):
            return part(func)
        then = None if self.moved.keys() & set(taken) else _nonlinearity(name, func, args, kwargs)
        bent = [self.open[key] for key in taken if then]
        self.close(taken, then)
        if self.patterns and name == ATTENTION:
            self.pattern = pattern_of(func, args, kwargs)
        result = self._result(name, make, leaves)
        if name in STEPS and not kwargs:
            for layer, inputs, hidden in layers(name, func, args, self.names, result[0]):
                self._show(Seen(layer.names[1], inputs, hidden, recurrence=layer))
        if name in CELLS and not kwargs:
            self._step(name, args, result)
        self.bent |= {id(seen.output): _owner(seen) for seen in bent if seen.output is not result}  # else: in place
        if self.patterns and name == SOFTMAX:
            self.pattern = result
        if name in LAYERS:
            self._layer({**dict(zip(LAYERS[name], args, strict=False)), **kwargs}, result)
        return result

    def _result(self, name: str, make: partial[Any], leaves: Sequence[Any]) -> Any:
        """What a function gives, as it was kept or computed now; numbers that mean nothing where none are wanted."""
        if self.blank and name in LAYERS and any(self.names.get(id(each)) == self.only for each in leaves):
            make = partial(_blank, make)
            if self.replay:
                self.replay.full = True  # these are not to be kept
        if name == "max_pool2d":
            make = partial(pooled, make)
        return self.replay.result(make) if self.replay and name in KEPT else make()

    def _part(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], taken: Sequence[int], scale: str | None
    ) -> Callable[[Callable[..., Any]], Any] | None:
        """What is done where a function becomes a part of the open site that it reads; nothing if it does not."""
        if taken and name == "batch_norm":
            return lambda func: self._norm(func, args, kwargs)
        if scale:
            return lambda func: self._scaled(func, args, taken[0], scale)
        if taken and name in SUMS and len(args) == 2 and not kwargs and isinstance(args[1], Tensor):
            return lambda func: self._sum(func, args, max(taken, key=list(self.open).index))
        if taken and name in DROPOUTS:
            return lambda func: self._dropped(func, args, kwargs, taken)
        if taken and name in MOVES:
            return lambda func: self._move(func, args, kwargs, taken[0])
        return None

    def _dropped(
        self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], taken: Sequence[int]
    ) -> Any:
        """Run a dropout, which gives what it takes."""
        result = func(*args, **kwargs)
        self.close(key for key in taken if key != id(result))
        return result

    def use(self, values: Iterable[Any]) -> None:
        """Note weights, and outputs that went through a norm or a nonlinearity, that are used in another way."""
        for value in values:
            if id(value) in self.names:
                self.elsewhere.add(self.names[id(value)])
            for owners, names in ((self.normed, self.elsewhere), (self.bent, self.straight)):
                if (owner := owners.get(id(value))) and owner[0]() is value:
                    names.add(owner[1])

    def close(self, keys: Iterable[int], then: Callable[[Tensor], Tensor] | None = None) -> None:
        """Record open sites whose output goes elsewhere now."""
        for key in keys:
            if key in self.open:
                self._force(key)
                self.moved.pop(key, None)
                self._show(replace(self.open.pop(key), then=then))

    def _force(self, key: int) -> None:
        """Write what shall come out of an open site over what it gives, if that is asked for."""
        site, given = self.open[key], self.forced[len(self.seen) : len(self.seen) + 1]
        if site.name == self.only and key not in self.moved and [each.shape for each in given] == [site.output.shape]:
            site.output.copy_(given[0])

    def _show(self, seen: Seen) -> None:
        """Record a site with a copy of its output, if it is wanted; stop the run if it was the last."""
        if self.only in (None, seen.name):
            last = len(self.seen) + 1 == self.calls  # nothing is written any more
            self.seen.append(seen if last else replace(seen, output=self._as_seen(seen.output)))
            if last:
                raise _Enough

    def _as_seen(self, tensor: Tensor) -> Tensor:
        """A tensor with the numbers that it has now: a copy, or itself while the network does not write to it."""
        if self.copying:
            return tensor.clone()
        self.looked.append((tensor, writes(tensor)))
        return tensor

    @property
    def overwritten(self) -> bool:
        """Whether the network wrote, or may have written, to something that is not a copy after it had been seen."""
        return not self.copying and (self.uncounted or any(writes(tensor) != before for tensor, before in self.looked))

    def _step(self, name: str, args: tuple[Any, ...], result: Any) -> None:
        """Note a step of a cell: one more of a site, or the first of one that has its place from now on."""
        found = Unrolled.before(CELLS[name], args, self.names)
        if found is None or self.only not in (None, found.layer.names[1]):
            return
        earlier = next((each for each in self.unrolled.values() if found.goes_on(each)), None)
        if earlier is None:
            self.unrolled[len(self.seen)] = earlier = found
            self.seen.append(Seen(found.layer.names[1], args[0], args[0], recurrence=found.layer))
        earlier.step(args[0], result)

    def whole(self) -> list[Seen]:
        """All sites in the order in which the network began them, those of cells with all their steps."""
        steps = {number: (torch.stack(each.inputs), torch.stack(each.hidden)) for number, each in self.unrolled.items()}
        ends = {number: replace(self.seen[number], inputs=x, output=hidden) for number, (x, hidden) in steps.items()}
        return [ends.get(number, seen) for number, seen in enumerate(self.seen)]

    def _layer(self, given: dict[str, Any], result: Tensor) -> None:
        """Open a site for a linear or convolution layer whose weight is a parameter of the network."""
        inputs, weight, bias = (given.pop(key, None) for key in LAYERS["linear"])
        name = self.names.get(id(weight))
        if name is not None and isinstance(weight, nn.Parameter) and weight.is_floating_point():
            kernel = tuple(weight.shape[2:])
            how = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1, **given} if kernel else {}
            kept = self._as_seen(inputs) if self.only in (None, name) else inputs  # others only say whose a sum is
            self.open[id(result)] = Seen(
                name, kept, result, self.names.get(id(bias)), kernel, how, pattern=self.pattern
            )
        self.pattern = None

    def _norm(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a batch norm and make it part of the open site that it reads, if it can be."""
        given = {**dict(zip(NORM, args, strict=False)), **kwargs}
        names = [self.names.get(id(given.get(key))) for key in NORM[1:5]]
        key = id(given["input"])
        site = self.open.get(key)
        if site is None or site.norm or site.rest is not None or None in names or key in self.moved:
            self.close([key])
            return func(*args, **kwargs)
        self.normed[key] = _owner(self.open.pop(key))
        result = func(*args, **kwargs)
        mean, variance, weight, bias = (name or "" for name in names)
        norm = Norm(mean, variance, weight, bias, given.get("eps", 1e-5))
        self.open[id(result)] = replace(site, output=result, norm=norm)
        return result

    def _scale(self, args: tuple[Any, ...], taken: Sequence[int]) -> str | None:
        """The name of the vector that the output of an open site is multiplied by, if that is all that happens."""
        site, vector = self.open[taken[0]], args[1] if id(args[0]) == taken[0] else args[0]
        plain = not (site.kernel or site.norm or site.scale or site.recurrence or site.rest is not None)
        if not plain or len(args) != 2 or taken[0] in self.moved or not isinstance(vector, nn.Parameter):
            return None
        alone = vector.dim() > 0 and vector.numel() == vector.shape[-1] == site.output.shape[-1]
        return self.names.get(id(vector)) if alone and vector.dim() <= site.output.dim() else None

    def _scaled(self, func: Callable[..., Any], args: tuple[Any, ...], key: int, scale: str) -> Any:
        """Run a product with a vector and make it part of the open site that it reads."""
        site = self.open.pop(key)
        result = func(*args)
        if result is not site.output:  # else: changed in place
            self.normed[key] = _owner(site)
        self.open[id(result)] = replace(site, output=result, scale=scale)
        return result

    def _move(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], key: int) -> Any:
        """Run a function that moves the output of an open site; the site stays open, as what came of it."""
        before = self.moved.pop(key, None) or Moved(self.open[key].output, ())
        result = func(*args, **kwargs)
        self.open[id(result)] = self.open.pop(key)
        self.moved[id(result)] = Moved(result, (*before.steps, lambda tensor: func(tensor, *args[1:], **kwargs)))
        return result

    def _sum(self, func: Callable[..., Any], args: tuple[Any, ...], key: int) -> Any:
        """Run a sum and make it part of the open site that it reads, as its residual sum, if it can be."""
        site = self.open.pop(key)
        moved = self.moved.pop(key, None) or Moved(site.output, ())
        other = args[1] if args[0] is moved.result else args[0]
        joint = id(other) in self.open
        self.close([id(other)])
        if site.rest is not None or other is moved.result or other.shape != moved.result.shape:
            self._show(site)
            return func(*args)
        rest = self._as_seen(moved.back(other, site.output)) if self.only in (None, site.name) else other
        result = func(*args)
        if moved.steps:
            self._show(replace(site, output=moved.back(result, site.output), rest=rest, joint=joint))
        else:
            self.open[id(result)] = replace(site, output=result, rest=rest, joint=joint)
        return result


def _blank(make: partial[Tensor]) -> Tensor:
    """A tensor like the one that a function gives, with any numbers."""
    args, kwargs = pytree.tree_map_only(Tensor, lambda tensor: tensor.to("meta"), (make.args, make.keywords))
    like, device = make.func(*args, **kwargs), next(x for x in make.args if isinstance(x, Tensor)).device
    return torch.empty_strided(like.shape, like.stride(), dtype=like.dtype, device=device)


def _owner(seen: Seen) -> _Owner:
    """Whose output a tensor is; it may be gone, so that its memory can be used again."""
    return ref(seen.output), seen.name


def _leaves(args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """All that a function takes, containers opened; most are no containers, and are not looked into."""
    values = [*args, *kwargs.values()]
    parts = [(x,) if isinstance(x, Tensor | int | float | None) else pytree.tree_leaves(x) for x in values]
    return [leaf for part in parts for leaf in part]


def _nonlinearity(
    name: str, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Callable[[Tensor], Tensor] | None:
    """The elementwise function that a call applies to its first argument, if it is one."""
    rest = args[1:]
    if name.rstrip("_") not in ELEMENTWISE or any(isinstance(x, Tensor) for x in pytree.tree_leaves((rest, kwargs))):
        return None
    return lambda values: function(values, *rest, **kwargs)
