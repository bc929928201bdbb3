"""What a user may pass to `trace` that is unusual or wrong: it works, or one clear error says what to do.

Whatever happens, the model, the inputs and the global state of Python, NumPy and torch are left as they were.
"""

import random
import re
from collections.abc import Callable
from contextlib import contextmanager

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrizations, parametrize

import transfuse
from transfuse import InputError, Layout, ProofError, TraceError, trace

X = torch.linspace(-1, 1, 12).reshape(4, 3)


@pytest.fixture(autouse=True)
def _same_weights():
    torch.manual_seed(0)


class Net(nn.Module):
    """Linear, a function between, linear; five units that can move, unless the function forbids it."""

    def __init__(self, between: Callable[..., Tensor] | None = None):
        super().__init__()
        self.up, self.down = nn.Linear(3, 5), nn.Linear(5, 2)
        self.between = between

    def forward(self, x):
        hidden = self.up(x)
        return self.down(torch.tanh(hidden if self.between is None else self.between(self, hidden)))


def with_buffer(between: Callable[..., Tensor], **buffers: Tensor) -> Net:
    net = Net(between)
    for name, value in buffers.items():
        net.register_buffer(name, value)
    return net


def widths(layout: Layout) -> list[int]:
    return sorted(layout.units.values())


@contextmanager
def refusal(*parts: str, error: type[Exception] = InputError):
    """Exactly this kind of error, whose text has all the parts."""
    with pytest.raises(error) as caught:
        yield
    for part in parts:
        assert re.search(part, str(caught.value)), f"{part!r} is not in: {caught.value}"


# -- the inputs ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("inputs", [None, 3.0, "x", X.numpy()], ids=["None", "number", "text", "array"])
def test_example_inputs_that_are_no_tensors_are_refused(inputs):
    with refusal("example_inputs is", "expected a tensor, a tuple .* or a dict"):
        trace(Net(), inputs)


@pytest.mark.parametrize(
    "inputs",
    [X[:, :2], X.long(), X.half(), (X, X), (), {"y": X}, [[X]], X.to("meta")],
    ids=["shape", "type", "precision", "too many", "too few", "keyword", "nested", "meta"],
)
def test_inputs_that_the_model_does_not_accept_are_refused_with_the_model_and_what_to_pass(inputs):
    with refusal("Net", "example inputs"):
        trace(Net(), inputs)


@pytest.mark.parametrize("inputs", [X, (X,), [X], {"x": X}], ids=["tensor", "tuple", "list", "dict"])
def test_all_ways_to_give_inputs_find_the_same(inputs):
    assert widths(trace(Net(), inputs)) == [5]


def test_an_option_that_does_not_exist_is_refused():
    with refusal("recorder", "export", "eager"):
        trace(Net(), X, recorder="script")
    with refusal("unknown", "fix", "raise"):
        trace(Net(), X, unknown="ignore")


# -- the model -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [torch.tanh, Net, {"weight": X}, None], ids=["function", "class", "state", "None"])
def test_what_is_no_module_is_refused(model):
    with refusal("model is", "torch.nn.Module"):
        trace(model, X)


def test_an_error_in_forward_is_told_with_the_model_and_the_cause():
    def fail(net, hidden):
        raise KeyError("no such thing")

    with refusal("Net.forward", "KeyError", "no such thing"):
        trace(Net(fail), X)


class Returns(nn.Module):
    def __init__(self, what):
        super().__init__()
        self.up, self.what = nn.Linear(3, 5), what

    def forward(self, x):
        return self.what(self.up(x))


@pytest.mark.parametrize("what", [None, 3, {}, [None, "text"]], ids=str)
def test_a_model_that_returns_no_tensor_is_refused(what):
    with refusal("Returns.forward returned no tensor"):
        trace(Returns(lambda hidden: what), X)


@pytest.mark.parametrize(
    "what",
    [
        lambda h: h.argmax(1),
        lambda h: h > 0,
        lambda h: torch.complex(h, h),
        lambda h: {"a": [h, None], "b": 3},
        lambda h: (h, h / 0, h * torch.nan, h[:0]),
    ],
    ids=["integers", "booleans", "complex", "containers", "some not finite or empty"],
)
def test_any_tensor_may_be_returned(what):
    assert widths(trace(Returns(what), X)) == []


@pytest.mark.parametrize(
    ("what", "inputs"),
    [(lambda h: h.tanh() * torch.nan, X), (Tensor.tanh, X[:0]), (Tensor.tanh, X * torch.inf)],
    ids=["not a number", "no rows", "not finite"],
)
def test_outputs_that_prove_nothing_are_refused(what, inputs):
    with refusal("Returns.forward", "finite|empty|no numbers"):
        trace(Returns(what), inputs)


def test_example_inputs_of_zeros_do_not_weaken_the_proof():
    net = Net(lambda net, h: h.flip(1))
    net.up.bias = None

    def wrong(t, call):  # claims that the order of the units does not matter
        return t.pointwise(call["self"], odd=True, homogeneous=True)

    with pytest.raises(ProofError, match=r"up\.out"):
        trace(net, torch.zeros(4, 3), rules={"aten::flip": wrong})


def test_a_model_without_parameters_has_an_empty_layout():
    assert trace(nn.ReLU(), X) == Layout((), {}, {})


def test_parameters_that_are_never_used_are_fixed_with_the_reason():
    net = Net()
    net.spare = nn.Linear(3, 4)
    layout = trace(net, X)
    assert widths(layout) == [5]
    assert layout.fixed["spare.weight"] == dict.fromkeys([0, 1], "has no effect on the outputs")
    assert layout.fixed["spare.bias"] == {0: "has no effect on the outputs"}


def test_dropout_that_ignores_evaluation_mode_is_refused():
    with refusal("Net.forward drops units at random in evaluation mode", "training=self.training"):
        trace(Net(lambda net, h: F.dropout(h, training=True)), X)


@pytest.mark.parametrize(
    ("noise", "found"),
    [
        (lambda net, h: h + torch.rand(5), []),
        (lambda net, h: h + torch.rand(1), [5]),
        (lambda net, h: h + torch.randn_like(h), []),
        (lambda net, h: torch.normal(h, 1.0), []),
        (lambda net, h: h + torch.bernoulli(h.sigmoid()), []),
        (lambda net, h: h + random.random(), [5]),
        (lambda net, h: h + float(np.random.rand()), [5]),
    ],
    ids=["for each unit", "for all", "for each number", "normal", "bernoulli", "python", "numpy"],
)
def test_random_numbers_fix_the_units_that_they_tell_apart(noise, found):
    assert widths(trace(Net(noise), X)) == found


def test_results_that_differ_from_call_to_call_are_refused():
    generator = torch.Generator()
    with refusal("Net.forward gives different results", "generators of its own"):
        trace(Net(lambda net, h: h + torch.rand(5, generator=generator)), X)


def test_random_numbers_without_effect_do_not_matter():
    assert widths(trace(Net(lambda net, h: h + 0 * torch.rand(1)), X)) == [5]


# -- its tensors -----------------------------------------------------------------------------------------------------


def test_lazy_modules_are_refused_until_they_have_run():
    net = nn.Sequential(nn.LazyLinear(5), nn.Tanh(), nn.LazyLinear(2))
    with refusal("0.weight is not initialised", "2.bias is not initialised", "run the model once"):
        trace(net, X)
    net(X)
    assert widths(trace(net, X)) == [5]


@pytest.mark.filterwarnings("ignore:.*weight_norm.*is deprecated:FutureWarning")
@pytest.mark.parametrize(
    "norm",
    [
        parametrizations.weight_norm,
        parametrizations.spectral_norm,
        nn.utils.weight_norm,
        nn.utils.spectral_norm,
        lambda layer: parametrize.register_parametrization(layer, "weight", nn.Softplus()),
    ],
    ids=["weight norm", "spectral norm", "old weight norm", "old spectral norm", "parametrised"],
)
def test_units_of_parametrised_layers_move(norm):
    net = Net().eval()
    norm(net.up)
    norm(net.down)
    net(X)
    weight = net.up.weight.clone()
    assert widths(trace(net, X)) == [5]
    torch.testing.assert_close(net.up.weight, weight)  # old norms keep it as an attribute: not that of the last run


def test_an_orthogonal_parametrisation_works():
    net = Net()
    parametrizations.orthogonal(net.up)
    trace(net, X)


def quantised(*shape: int) -> Tensor:
    return torch.quantize_per_tensor(torch.ones(shape), 0.1, 0, torch.qint8)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_quantised_tensors_are_refused_by_name():
    net = with_buffer(lambda net, h: h + net.table.dequantize(), table=quantised(5))
    with refusal("table is quantised", "dequantise"):
        trace(net, X)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_quantised_modules_are_refused_by_name():
    try:
        net = torch.ao.quantization.quantize_dynamic(Net(), {nn.Linear})
    except (AttributeError, RuntimeError) as error:
        pytest.skip(f"no dynamic quantisation here: {error}")
    with refusal(r"up\b.*is quantised", r"down\b.*is quantised", "float model"):
        trace(net, X)


@pytest.mark.filterwarnings("ignore:Sparse:UserWarning")
@pytest.mark.parametrize("sparse", [Tensor.to_sparse, Tensor.to_sparse_csr], ids=["coo", "csr"])
def test_sparse_buffers_are_refused_by_name(sparse):
    net = with_buffer(lambda net, h: h @ net.table, table=sparse(torch.eye(5)))
    with refusal("table is sparse", "to_dense"):
        trace(net, X)


def test_sparse_parameters_are_refused_by_name():
    net = Net()
    net.table = nn.Parameter(torch.eye(5).to_sparse())
    with refusal("table is sparse", "to_dense"):
        trace(net, X)


def test_integers_as_parameters_and_buffers_are_constants():
    net = with_buffer(
        lambda net, h: (h[:, net.order] * net.mask).roll(int(net.shift), 0),
        order=torch.tensor([1, 0, 3, 4, 2]),
        mask=torch.ones(5, dtype=torch.bool),
    )
    net.shift = nn.Parameter(torch.tensor(1), requires_grad=False)
    layout = trace(net, X)
    assert widths(layout) == [5]
    assert str(layout.tensors["order"][0].segments) == "(Fixed(count=5),)"


def test_units_of_complex_layers_move():
    net = nn.Sequential(nn.Linear(3, 50, dtype=torch.cfloat), nn.Linear(50, 2, dtype=torch.cfloat))
    assert widths(trace(net, X.cfloat())) == [50]


def test_a_filter_in_the_frequency_domain_works():
    net = Net(lambda net, h: torch.fft.irfft(torch.fft.rfft(h, dim=0) * net.filter, n=len(h), dim=0))
    net.filter = nn.Parameter(torch.randn(3, 5, dtype=torch.cfloat))
    trace(net, X)


def test_tensors_on_the_meta_device_are_refused_by_name():
    with refusal("up.weight is on the meta device", "down.bias", "load the weights"):
        trace(Net().to("meta"), X)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_other_precisions_work(dtype):
    assert widths(trace(Net().to(dtype), X.to(dtype))) == [5]


def test_a_forward_that_insists_on_half_precision_works():
    net = Net(lambda net, h: h.half()).half()
    assert widths(trace(net, X.half())) == [5]


def test_another_default_precision_changes_nothing():
    torch.set_default_dtype(torch.float64)
    try:
        assert widths(trace(Net().float(), X.float())) == [5]
    finally:
        torch.set_default_dtype(torch.float32)


def test_frozen_parameters_and_inference_mode_work():
    net = Net().requires_grad_(False)
    assert widths(trace(net, X)) == [5]
    with torch.inference_mode():
        assert widths(trace(net, X)) == [5]
        assert widths(trace(Net(), X.clone())) == [5]


def test_a_compiled_model_is_traced_or_refused_with_what_to_do():
    net = torch.compile(Net(), backend="eager")
    try:
        assert widths(trace(net, X)) == [5]
    except (InputError, TraceError) as error:
        assert "compile" in str(error)  # noqa: PT017


@pytest.mark.filterwarnings("ignore:.*torch.jit.*deprecated")  # in later versions of torch a FutureWarning
def test_a_scripted_model_is_refused_with_what_to_do():
    net = torch.jit.trace(nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2)), X)
    with refusal("TorchScript", "original"):
        trace(net, X)


# -- nothing is left behind ------------------------------------------------------------------------------------------


def snapshot(model: nn.Module) -> dict[str, object]:
    """All of a model that tracing might change: identities of objects, and values."""
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    modules = dict(model.named_modules())
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_state_dict_hooks")
    return {
        "modes": {name: module.training for name, module in modules.items()},
        "hooks": {name: [list(getattr(module, kind)) for kind in hooks] for name, module in modules.items()},
        "attributes": {
            name: {k: id(v) for k, v in vars(module).items() if not k.startswith("_") and k != "training"}
            for name, module in modules.items()
        },
        "identities": {name: id(tensor) for name, tensor in tensors.items()},
        "values": {name: tensor.tolist() for name, tensor in tensors.items()},
        "requires_grad": {name: tensor.requires_grad for name, tensor in tensors.items()},
        "gradients": {
            name: (id(tensor.grad), tensor.grad.tolist() if tensor.grad is not None else None)
            for name, tensor in tensors.items()
        },
    }


def surroundings() -> dict[str, object]:
    """The global state that tracing might change."""
    kind, keys, *rest = np.random.get_state()
    return {
        "torch": torch.get_rng_state().tolist(),
        "numpy": (kind, keys.tolist(), *rest),
        "python": random.getstate(),
        "gradients": torch.is_grad_enabled(),
        "fast path": torch.backends.mha.get_fastpath_enabled(),
        "precision": torch.get_default_dtype(),
    }


def count_in_place(net, hidden):
    net.calls.add_(1)
    return hidden


def count_anew(net, hidden):
    net.calls = net.calls + 1
    return hidden


def remember(net, hidden):
    net.last = hidden
    return hidden


def count_in_python(net, hidden):
    net.number += 1
    return hidden


def draw(net, hidden):
    random.random(), np.random.rand(), torch.rand(1)
    return hidden


def fail(net, hidden):
    net.calls.add_(1)
    raise ValueError


def draw_and_use(net, hidden):
    return hidden + random.random() + float(np.random.rand()) + torch.rand(1)


def branch(net, hidden):
    return hidden if hidden.sum() > 0 else -hidden  # refused by export: recorded eagerly


@pytest.mark.parametrize(
    "between",
    [None, count_in_place, count_anew, remember, count_in_python, draw, fail, draw_and_use, branch],
    ids=lambda function: function.__name__ if function else "plain",
)
@pytest.mark.parametrize("recorder", ["eager", None])
def test_model_and_surroundings_are_left_as_they_were(between, recorder):
    net = with_buffer(between, calls=torch.zeros(()))
    net.last, net.number = None, 0
    net.register_buffer("scratch", torch.ones(5), persistent=False)
    net.up.register_forward_hook(lambda module, args, output: output + 1)
    net.down.bias.requires_grad_(False)
    net.down(torch.ones(5)).sum().backward()
    net.down.eval()
    before, around = snapshot(net), surroundings()
    try:
        layout = trace(net, X, recorder=recorder)
    except (InputError, TraceError):
        assert between in (fail, draw_and_use)
    else:
        assert widths(layout) == [5]
    after = snapshot(net)
    for what, value in before.items():
        assert after[what] == value, what
    assert surroundings() == around


@pytest.mark.parametrize("gradients", [True, False])
@pytest.mark.parametrize("fast", [True, False])
def test_grad_mode_and_the_fast_path_are_put_back(gradients, fast):
    was = torch.backends.mha.get_fastpath_enabled()
    try:
        torch.backends.mha.set_fastpath_enabled(fast)
        with torch.set_grad_enabled(gradients):
            trace(Net(), X)
            assert torch.is_grad_enabled() == gradients
        assert torch.backends.mha.get_fastpath_enabled() == fast
    finally:
        torch.backends.mha.set_fastpath_enabled(was)


def test_a_model_in_training_mode_is_traced_as_in_evaluation_and_every_mode_is_put_back():
    net = nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5), nn.Dropout(0.5), nn.ReLU(), nn.Linear(5, 2)).train()
    net[1].eval()
    statistics = net[1].running_mean.clone()
    layout = trace(net, X)
    assert [module.training for module in net] == [True, False, True, True, True]
    assert net.training
    torch.testing.assert_close(net[1].running_mean, statistics, rtol=0, atol=0)
    assert str(layout) == str(trace(net.eval(), X))


@pytest.mark.parametrize("recorder", ["export", "eager", None])
def test_inputs_that_forward_writes_to_are_left_as_they_were(recorder):
    class Greedy(Net):
        def forward(self, x):
            x += 1
            return super().forward(x)

    x = X.clone()
    layout = trace(Greedy(), x, recorder=recorder)
    torch.testing.assert_close(x, X, rtol=0, atol=0)
    assert widths(layout) == [5]


def test_inputs_that_need_gradients_are_left_as_they_were():
    x = X.clone().requires_grad_()
    assert widths(trace(Net(), x)) == [5]
    assert x.requires_grad
    assert x.grad is None


def test_hooks_take_part_and_stay():
    net = Net()
    net.up.register_forward_hook(lambda module, args, output: output * torch.arange(5.0))
    assert widths(trace(net, X)) == []  # the hook tells the units apart
    assert len(net.up._forward_hooks) == 1


def test_backward_hooks_do_not_matter():
    net = Net()
    net.up.register_full_backward_hook(lambda module, inputs, outputs: None)
    assert widths(trace(net, X)) == [5]


def test_a_model_can_be_trained_after_it_was_traced():
    net = Net().train()
    trace(net, X)
    net(X).sum().backward()
    assert all(parameter.grad is not None for parameter in net.parameters())


def test_tracing_twice_gives_the_same():
    net = Net()
    assert trace(net, X) == trace(net, X)
    assert transfuse.parse(str(trace(net, X))) == trace(net, X)


# -- what once ended in a traceback ----------------------------------------------------------------------------------


class WithExtraState(Net):
    def __init__(self, value=None):
        super().__init__()
        self.value = value

    def get_extra_state(self):
        return self.value

    def set_extra_state(self, value):
        self.value = value


@pytest.mark.parametrize("value", [{"a": 1}, None, torch.ones(3)], ids=["dict", "None", "tensor"])
def test_extra_state_is_left_alone(value):
    net = WithExtraState(value)
    assert widths(trace(net, X)) == [5]
    fused = transfuse.fuse([net, WithExtraState(value)], X, correct="none").model
    assert fused.value is value or torch.equal(fused.value, value) if torch.is_tensor(value) else fused.value == value


@pytest.mark.parametrize(
    "transformed",
    [
        lambda net, x: torch.vmap(lambda row: Net.forward(net, row))(x),
        lambda net, x: torch.func.jacrev(lambda row: Net.forward(net, row))(x[0]),
        lambda net, x: torch.vmap(torch.func.jacrev(lambda row: Net.forward(net, row)))(x),
        lambda net, x: torch.func.grad(lambda rows: Net.forward(net, rows).sum())(x),
        lambda net, x: torch.func.jvp(lambda rows: Net.forward(net, rows), (x,), (x,))[1],
    ],
    ids=["vmap", "jacrev", "vmap of jacrev", "grad", "jvp"],
)
@pytest.mark.parametrize("recorder", [pytest.param(None, marks=pytest.mark.long), "eager"])
def test_transformed_functions_are_traced_or_refused(transformed, recorder):
    class Transformed(Net):
        def forward(self, x):
            return transformed(self, x)

    net = Transformed()
    try:
        transfuse.prove(net, X, trace(net, X, recorder=recorder), seed=1)
    except TraceError as error:
        assert "torch.func" in str(error) or "recorded" in str(error)  # noqa: PT017


@pytest.mark.parametrize("recorder", [None, "eager"])
def test_another_default_device_changes_nothing(recorder):
    net = Net()
    torch.set_default_device("meta")
    try:
        assert widths(trace(net, X, recorder=recorder)) == [5]
    finally:
        torch.set_default_device(None)


@pytest.mark.parametrize("between", [nn.Tanh, nn.ReLU])  # of ReLU with one norm for all, a proof once blamed a rule
@pytest.mark.parametrize("dim", [None, 0, 1])
def test_units_move_under_every_weight_norm(dim, between):
    up, down = (parametrizations.weight_norm(nn.Linear(*sizes), dim=dim) for sizes in ((3, 5), (5, 2)))
    assert widths(trace(nn.Sequential(up, between(), down), X)) == [5]
