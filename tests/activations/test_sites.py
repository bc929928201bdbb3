"""Sites are seen where weights are applied, with what the next nonlinearity sees; the network does not notice."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils import _pytree as pytree

from transfuse.activations import observe, together
from zoo import ZOO, call, livened, named
from zoo_problems import outputs

LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)


def seen_by_hooks(model, inputs):
    """Names of the weights of layers that are called, as often as they are."""
    found = []
    weights = {id(p): name for name, p in reversed(list(model.named_parameters(remove_duplicate=False)))}
    for module in model.modules():
        if isinstance(module, LAYERS) and "weight" in module._parameters:  # not so under weight norm
            module.register_forward_hook(lambda module, *_: found.append(weights[id(module.weight)]))
    call(model, inputs)
    return found


@pytest.mark.filterwarnings("ignore:LSTM with projections")
@pytest.mark.parametrize("name", [row.name for row in ZOO][::3])
def test_every_layer_of_a_network_is_a_site_and_the_network_does_not_notice(name):
    torch.manual_seed(0)
    model, inputs = named(name).build(), named(name).inputs()
    before, expected = copy.deepcopy(model.state_dict()), seen_by_hooks(copy.deepcopy(model), inputs)
    results = []
    seen = observe(model, lambda each: results.append(call(each, inputs)))
    layers = [each.name for each in seen if each.recurrence is None]
    own = set(dict(model.named_parameters()))
    assert sorted(each for each in layers if each in expected) == sorted(expected)
    assert set(layers) <= own
    for one, other in zip(pytree.tree_leaves(results[0]), pytree.tree_leaves(call(model, inputs)), strict=True):
        if isinstance(one, torch.Tensor):
            assert torch.equal(one, other)
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())


def run(model, x):
    return observe(model.eval(), lambda each: each(x))


def test_a_norm_belongs_to_the_layer_before_it():
    net = livened(nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU(inplace=True), nn.Conv2d(3, 4, 1)))
    x = torch.randn(2, 2, 5, 5)
    first, second = run(net, x)
    assert first.tensors == ("0.weight", "0.bias", "1.running_mean", "1.running_var", "1.weight", "1.bias")
    torch.testing.assert_close(first.output, net[1](net[0](x)))  # as it was before the ReLU wrote over it
    torch.testing.assert_close(second.inputs, net[:3](x))
    assert second.norm is None
    assert second.rest is None


class Residual(nn.Module):
    """A projection and a main path that meet in a sum."""

    def __init__(self, join):
        super().__init__()
        self.skip, self.main, self.norm, self.join = nn.Linear(3, 4), nn.Linear(3, 4), nn.BatchNorm1d(4), join

    def forward(self, x):
        return self.join(self.skip(x), self.norm(self.main(x))).relu_()


def written_in_place(one, other):
    one += other
    return one


@pytest.mark.parametrize(
    "join", [torch.add, lambda one, other: one + other, written_in_place, lambda one, other: one.add_(other)]
)
def test_the_last_summand_of_a_residual_sum_owns_the_sum(join):
    net, x = livened(Residual(join)).eval(), torch.randn(5, 3)
    skip, main = run(net, x)
    assert (skip.name, main.name) == ("skip.weight", "main.weight")
    torch.testing.assert_close(skip.output, net.skip(x))
    torch.testing.assert_close(main.rest, net.skip(x))
    torch.testing.assert_close(main.output, net.skip(x) + net.norm(net.main(x)))
    assert skip.rest is None


class Written(nn.Module):
    def __init__(self, forward):
        super().__init__()
        self.one, self.two, self.written = nn.Linear(3, 3), nn.Linear(3, 3), forward

    def forward(self, x):
        return self.written(self, x)


@pytest.mark.parametrize(
    ("forward", "names", "rests"),
    [
        (lambda net, x: net.one(x) - net.one(x + 1), ["one.weight"] * 2, [False] * 2),  # siamese
        (lambda net, x: (y := net.one(x)) + y, ["one.weight"], [False]),
        (lambda net, x: net.one(x) + 1.0, ["one.weight"], [False]),
        (lambda net, x: torch.add(net.one(x), x, alpha=2), ["one.weight"], [False]),
        (lambda net, x: net.one(x) + x[:1], ["one.weight"], [False]),  # broadcast
        (lambda net, x: (net.one(x) + x + x).tanh(), ["one.weight"], [True]),
        (lambda net, x: net.two(net.one(x)), ["one.weight", "two.weight"], [False] * 2),
        (lambda net, x: F.linear(input=x, weight=net.two.weight, bias=None), ["two.weight"], [False]),
        (lambda net, x: net.one(x[0]), ["one.weight"], [False]),
        (lambda net, x: x @ net.one.weight, [], []),
    ],
)  # fmt: skip
def test_what_counts_as_a_site_and_as_a_residual_sum(forward, names, rests):
    seen = run(Written(forward), torch.randn(4, 3))
    assert [each.name for each in seen] == names
    assert [each.rest is not None for each in seen] == rests


def test_a_vector_behind_a_linear_layer_belongs_to_it_and_is_seen_before_a_residual_sum():
    for forward in (lambda net, x: net.size * net.one(x) + x, lambda net, x: x + net.one(x).mul_(net.size)):
        net = Written(forward)
        net.size = nn.Parameter(torch.tensor([[0.5, 2.0, -1.0]]))
        (seen,) = run(net, torch.randn(4, 3))
        assert (seen.scale, seen.tensors, seen.shared) == ("size", ("one.weight", "one.bias", "size"), False)
        torch.testing.assert_close(seen.output - seen.rest, net.size * net.one(seen.inputs))


def test_a_weight_that_is_used_otherwise_too_is_shared():
    tied = named("gpt").build()
    shared = {each.name for each in observe(tied, lambda model: call(model, named("gpt").inputs())) if each.shared}
    assert shared == {"words.weight"}
    norm = run(Written(lambda net, x: net.two(net.one(x) * net.one.weight.norm())), torch.randn(4, 3))
    assert [each.shared for each in norm] == [True, False]


class PreActivation(nn.Module):
    """What comes out of the first layer goes to its norm, and past it."""

    def __init__(self, join):
        super().__init__()
        self.lift, self.norm, self.inner, self.join = nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 4), join

    def forward(self, x):
        x = self.lift(x)
        return self.join(x, self.inner(self.norm(x).relu()))


@pytest.mark.parametrize("join", [torch.add, lambda x, y: torch.cat([x, y], 1), lambda x, y: (x, y), torch.maximum])
def test_a_layer_whose_output_goes_past_its_norm_is_shared(join):
    assert [(each.name, each.shared) for each in run(PreActivation(join), torch.randn(5, 3))] == [
        ("lift.weight", True),
        ("inner.weight", False),
    ]
    assert not any(each.shared for each in run(PreActivation(lambda x, y: y), torch.randn(5, 3)))
    twice = PreActivation(lambda x, y: y + twice.norm(x))
    assert run(twice, torch.randn(5, 3))[0].shared


@pytest.mark.parametrize(
    ("forward", "bent"),
    [
        (lambda net, x: net.two(net.one(x).relu()), [True, False]),
        (lambda net, x: net.two(F.relu(net.one(x), inplace=True)), [True, False]),
        (lambda net, x: net.two((y := net.one(x)).relu_() + y), [True, False]),  # y is what comes after
        (lambda net, x: net.two((y := net.one(x)).relu() + y), [False, False]),
        (lambda net, x: ((y := net.one(x)).relu(), y), [False]),
        (lambda net, x: net.one(x).relu() + net.one(x), [True, False]),
        (lambda net, x: (net.one(x) + x).tanh(), [True]),
        (lambda net, x: F.gelu(net.one(x), approximate="tanh"), [True]),
        (lambda net, x: net.one(x).softmax(1), [False]),  # of several numbers together
        (lambda net, x: F.prelu(net.one(x), net.two.bias[:1]), [False]),
        (lambda net, x: net.one(x).flatten(1).relu(), [False]),
    ],
)
def test_what_goes_through_a_nonlinearity_alone_is_bent(forward, bent):
    seen = run(Written(forward), torch.randn(4, 3))
    assert [each.bent for each in seen] == bent


@pytest.mark.parametrize("function", [torch.relu, torch.tanh, F.gelu, lambda x: F.leaky_relu(x, 0.3), F.silu])
def test_slopes_are_those_of_the_nonlinearity(function):
    (seen,) = run(Written(lambda net, x: function(net.one(x))), torch.randn(4, 3))
    values = torch.randn(7, 3, dtype=torch.float64)
    expected = (function(values + 1e-6) - function(values)) / 1e-6
    torch.testing.assert_close(seen.squared_slopes(values), expected.square(), rtol=1e-4, atol=1e-6)


def test_one_site_is_enough():
    calls = []
    net, x = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)), torch.randn(5, 3)
    net[2].register_forward_pre_hook(lambda *_: calls.append(1))
    (seen,) = observe(net, lambda each: each(x), only="0.weight", calls=1)
    assert seen.name == "0.weight"
    assert not calls  # the network was stopped before


@pytest.mark.parametrize("name", ["resnet_projection", "highway", "transformer_post_norm", "lstm_bidirectional"])
def test_looked_for_alone_a_site_is_as_it_is_among_all(name):
    torch.manual_seed(0)
    model, inputs = named(name).build(), named(name).inputs()
    for seen in observe(model, lambda each: call(each, inputs)):
        (alone,) = observe(model, lambda each: call(each, inputs), only=seen.name)
        assert alone.tensors == seen.tensors
        torch.testing.assert_close((alone.inputs, alone.output), (seen.inputs, seen.output))
        torch.testing.assert_close(alone.rest, seen.rest)


def test_buffers_are_no_weights():
    class Fixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("fixed", torch.randn(2, 3), persistent=False)

        def forward(self, x):
            return F.linear(x, self.fixed)

    assert run(Fixed(), torch.randn(4, 3)) == []


def test_networks_that_go_different_ways_are_not_put_side_by_side():
    one = run(Written(lambda net, x: net.two(net.one(x))), torch.randn(4, 3))
    assert len(together([one, one])) == 2
    assert together([one, one[:1]]) == []


def test_gradients_and_random_states_stay():
    net, x = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5)), torch.randn(5, 3)
    state = torch.get_rng_state()
    run(net, x)
    assert torch.equal(torch.get_rng_state(), state)
    assert net[0].weight.grad is None
    assert net[0].weight.requires_grad
    assert outputs(net, x)[0].shape == (5, 4)


class BehindMoves(nn.Module):
    """What a layer gives is moved and dropped before it is added to something."""

    def __init__(self, *moves):
        super().__init__()
        self.main, self.drop, self.moves = nn.Linear(3, 4), nn.Dropout(0.5), moves

    def forward(self, x, rest):
        moved = self.main(x)
        for move in self.moves:
            moved = move(moved)
        return rest + self.drop(moved)


@pytest.mark.parametrize(
    "moves",
    [
        [lambda x: x.view(2, 5, 4)],
        [lambda x: x.reshape(5, 2, 4), lambda x: x.transpose(0, 1)],
        [lambda x: x.unflatten(0, (5, 2)), lambda x: x.permute(1, 2, 0), lambda x: x.contiguous()],
        [],
    ],
)
def test_a_residual_sum_is_seen_behind_what_moves_values_and_behind_dropout(moves):
    net, x = BehindMoves(*moves).eval(), torch.randn(10, 3)
    shape = x.new_empty(10, 4)
    for move in moves:
        shape = move(shape)
    rest = torch.randn(shape.shape)
    (seen,) = observe(net, lambda each: each(x, rest))
    torch.testing.assert_close(seen.output - seen.rest, net.main(x))
    again = seen.output
    for move in moves:
        again = move(again)
    torch.testing.assert_close(again, net(x, rest))


def test_a_nonlinearity_behind_what_moves_values_is_not_taken_for_that_of_the_layer():
    net = nn.Sequential(nn.Linear(3, 4), nn.Unflatten(1, (2, 2)), nn.ReLU())
    (seen,) = run(net, torch.randn(5, 3))
    assert seen.then is None


@pytest.mark.parametrize("first", [True, False])
def test_the_weights_inside_attention_are_sites(first):
    layer = nn.TransformerEncoderLayer(8, 2, 6, 0.1, batch_first=True, norm_first=first)
    x, fast = torch.randn(3, 5, 8), torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        found = run(layer, x)
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
    named = {seen.name: seen for seen in found}
    assert list(named) == ["self_attn.in_proj_weight", "self_attn.out_proj.weight", "linear1.weight", "linear2.weight"]
    assert not any(seen.shared for seen in found)
    out = named["self_attn.out_proj.weight"]
    torch.testing.assert_close(out.output - out.rest, layer.self_attn.out_proj(out.inputs))
    torch.testing.assert_close(out.rest.view(5, 3, 8).transpose(0, 1), x)
