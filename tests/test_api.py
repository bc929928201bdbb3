"""Laws of fusing, over the zoo, and what is refused."""

import copy
import functools
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree

import transfuse
from transfuse import InputError, LayoutError
from transfuse.layout import random_actions
from transfuse.tracing.recording import tensors_in
from zoo import ZOO, call, named
from zoo_problems import states_of

ROWS = {row.name: pytest.param(row, id=row.name, marks=pytest.mark.xdist_group(row.name)) for row in ZOO}


@functools.cache
def sample(network):
    """A network in float64, its layout, its inputs."""
    torch.manual_seed(1)
    model = network.build().double()
    inputs = pytree.tree_map(lambda x: x.double() if x.is_floating_point() else x, network.inputs())
    return model, transfuse.trace(model, inputs, proof=False), inputs


def outputs(model, inputs):
    with torch.no_grad():
        return [tensor for tensor in tensors_in(call(model, inputs)) if tensor.is_floating_point()]


def assert_same_function(one, other, inputs):
    for a, b in zip(outputs(one, inputs), outputs(other, inputs), strict=True):
        torch.testing.assert_close(b, a, rtol=1e-5, atol=1e-7)


def moved_twin(model, layout, seed):
    twin = copy.deepcopy(model)
    actions = random_actions(layout, layout.units, np.random.default_rng(seed))
    twin.load_state_dict(transfuse.permute(model.state_dict(), layout, actions))
    return twin


@pytest.mark.parametrize("network", ROWS.values())
def test_a_network_fused_with_a_moved_copy_of_itself_is_itself(network):
    model, layout, inputs = sample(network)
    twin = moved_twin(model, layout, 0)
    fusion = transfuse.fuse([model, twin], layout=layout)
    assert_same_function(model, fusion.model, inputs)


@pytest.mark.parametrize("network", ROWS.values())
def test_aligned_networks_compute_what_their_inputs_do_and_the_objective_never_rises(network):
    model, layout, inputs = sample(network)
    torch.manual_seed(2)
    other = network.build().double()
    fusion = transfuse.fuse([model, other], layout=layout)
    assert_same_function(model, fusion.aligned[0], inputs)
    assert_same_function(other, fusion.aligned[1], inputs)
    objectives = [step.objective for step in fusion.history]
    assert all(b <= a * (1 + 1e-9) + 1e-12 for a, b in pairwise(objectives))
    assert fusion.status == "converged"


@pytest.mark.parametrize("method", transfuse.METHODS)
@pytest.mark.parametrize("name", ["mlp_tanh", "lstm", "lenet"])
def test_all_the_weight_on_one_model_returns_it(name, method):
    model, layout, inputs = sample(named(name))
    torch.manual_seed(2)
    other = named(name).build().double()
    for weights, chosen in (([1, 0], model), ([0, 2], other)):
        fusion = transfuse.fuse([model, other], layout=layout, weights=weights, method=method)
        assert_same_function(chosen, fusion.model, inputs)


@pytest.mark.parametrize("name", ["mlp", "lenet", "vgg"])
def test_exact_wb_and_gwb_from_a_base_model_are_ot_fusion_without_a_repeated_space(name):
    _, layout, _ = sample(named(name))
    results = [transfuse.fuse_states(states_of(name, 2), layout, method=method) for method in ("ot", "wb", "gwb")]
    for other in results[1:]:
        for space, matrix in results[0].couplings[1].items():
            assert torch.equal(matrix, other.couplings[1][space])


@pytest.mark.parametrize("name", ["mlp_tanh", "lstm"])
def test_the_order_of_the_models_does_not_matter(name):
    _, layout, inputs = sample(named(name))
    model = named(name).build().double()
    states = states_of(name, 2)
    losses = [
        transfuse.fuse_states(order, layout, method="rebasin").history[-1].objective for order in (states, states[::-1])
    ]
    assert losses[0] == pytest.approx(losses[1], rel=0.05)
    model.load_state_dict(transfuse.fuse_states(states, layout).state)
    assert all(bool(tensor.isfinite().all()) for tensor in outputs(model, inputs))


@pytest.mark.parametrize("name", ["mlp_tanh", "lstm"])
@pytest.mark.parametrize("method", ["ot", "wb", "gwb"])
def test_entropic_couplings_approach_the_exact_ones(name, method):
    _, layout, _ = sample(named(name))
    states = states_of(name, 2)
    exact, sharp, blurred = (
        transfuse.fuse_states(states, layout, method=method, epsilon=epsilon).couplings[1]
        for epsilon in (None, 0.03, 3.0)
    )
    first = layout.spaces[0].name
    for coupling in (sharp[first], blurred[first]):
        torch.testing.assert_close(coupling.sum(1), torch.ones_like(coupling[:, 0]))
        torch.testing.assert_close(coupling.sum(0), torch.ones_like(coupling[0]), rtol=1e-3, atol=1e-3)
    if method != "gwb":  # its exact coupling is one local optimum, the entropic one may be another
        shares = [float((coupling[first] * exact[first]).sum()) / len(exact[first]) for coupling in (blurred, sharp)]
        assert shares[0] < shares[1]
        assert shares[1] > 0.6


def test_several_models_agree_more_after_fusing_than_before():
    _, layout, _ = sample(named("mlp_tanh"))
    states = states_of("mlp_tanh", 5)
    plain = transfuse.fuse_states(states, layout, method="vanilla").history[-1].objective
    for method in ("ot", "wb", "fedma", "c2m3", "rebasin", "auto"):
        assert transfuse.fuse_states(states, layout, method=method).history[-1].objective < plain


def test_the_reference_definition_of_ot_fusion_on_an_mlp():
    """Singh and Jaggi, Algorithm 1, hard couplings, squared distance: written out for three linear layers."""
    torch.manual_seed(0)
    nets = [nn.Sequential(nn.Linear(6, 9), nn.ReLU(), nn.Linear(9, 7), nn.ReLU(), nn.Linear(7, 4)) for _ in range(2)]
    from scipy.optimize import linear_sum_assignment

    a, b = ([(net[i].weight.detach(), net[i].bias.detach()) for i in (0, 2, 4)] for net in nets)
    incoming, fused = torch.eye(6), []
    for layer in range(3):
        weight, bias = b[layer][0] @ incoming.T, b[layer][1]
        if layer < 2:
            left, right = (torch.cat([w, c[:, None]], 1) for w, c in (a[layer], (weight, bias)))
            _, order = linear_sum_assignment(torch.cdist(left, right) ** 2)
            incoming = torch.eye(len(order))[order]
            weight, bias = weight[order], bias[order]
        fused += [(a[layer][0] + weight) / 2, (a[layer][1] + bias) / 2]
    ours = transfuse.fuse(nets, torch.randn(2, 6), method="ot").model.state_dict()
    for reference, own in zip(fused, ours.values(), strict=True):
        torch.testing.assert_close(own, reference)


def test_align_gives_the_same_function_closer_to_the_reference():
    model, layout, inputs = sample(named("lenet"))
    torch.manual_seed(3)
    other = named("lenet").build().double()
    twin = transfuse.align(other, to=model, layout=layout)
    assert_same_function(other, twin, inputs)

    def distance(one, two):
        pairs = zip(one.parameters(), two.parameters(), strict=True)
        return sum(float((a - b).detach().square().sum()) for a, b in pairs)

    balanced = transfuse.fuse([model], layout=layout).model
    assert distance(balanced, twin) < distance(balanced, other)


def test_inputs_are_not_modified():
    model, layout, _ = sample(named("lstm"))
    other = moved_twin(model, layout, 1)
    before = [{k: v.clone() for k, v in m.state_dict().items()} for m in (model, other)]
    transfuse.fuse([model, other], layout=layout)
    for saved, module in zip(before, (model, other), strict=True):
        for name, tensor in module.state_dict().items():
            assert torch.equal(tensor, saved[name])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_the_result_has_the_type_of_the_inputs(dtype):
    _, layout, _ = sample(named("mlp"))
    states = [{k: v.to(dtype) for k, v in state.items()} for state in states_of("mlp", 2)]
    assert {tensor.dtype for tensor in transfuse.fuse_states(states, layout).state.values()} == {dtype}


def test_the_same_seed_gives_the_same_result():
    _, layout, _ = sample(named("lstm"))
    first, second = (transfuse.fuse_states(states_of("lstm", 3), layout, seed=7).state for _ in range(2))
    assert all(torch.equal(first[key], second[key]) for key in first)


def doubled(layout):
    return {space.name: 2 * space.units for space in layout.spaces}


# Growing repeats units, which functions of all units at once (a softmax over them) can see.
GROWING = [
    "mlp", "mlp_tanh", "mlp_batch_norm", "mlp_rms_norm", "lenet", "vgg", "resnet_projection", "densenet",
    "mobilenet", "unet_transposed", "inception", "rnn_tanh", "lstm", "lstm_bidirectional", "lstm_projected", "gru",
    "embedding_then_lstm", "convolution_then_lstm", "siamese", "convolution_3d",
]  # fmt: skip


@pytest.mark.parametrize("name", GROWING)
def test_one_model_fused_into_a_wider_target_computes_the_same(name):
    model, layout, inputs = sample(named(name))
    grown = transfuse.fuse([model], layout=layout, target=doubled(layout)).model
    assert_same_function(model, grown, inputs)
    assert sum(p.numel() for p in grown.parameters()) > sum(p.numel() for p in model.parameters())


# A norm without parameters, parameters of the user's own, a layer without effect: their sizes are not in the layout.
@pytest.mark.parametrize("name", ["mlp_layer_norm", "tied_autoencoder", "wavenet"])
def test_layers_that_cannot_be_rebuilt_ask_for_a_target_module(name):
    model, layout, inputs = sample(named(name))
    with pytest.raises(InputError, match="Pass a module of the wanted widths as target"):
        transfuse.fuse([model], inputs, layout=layout, target=doubled(layout))


@pytest.mark.parametrize("name", ["mlp", "lenet", "lstm", "gru", "resnet_projection"])
def test_units_that_were_doubled_are_merged_again(name):
    model, layout, inputs = sample(named(name))
    grown = transfuse.fuse([model], layout=layout, target=doubled(layout)).model
    shrunk = transfuse.fuse([grown], layout=layout, target=layout.units).model
    assert_same_function(model, shrunk, inputs)


def test_models_of_different_widths_are_fused_into_a_third():
    torch.manual_seed(0)
    small, large, target = mlp(3, 8, 6, 2), mlp(3, 12, 9, 2), mlp(3, 10, 7, 2)
    fusion = transfuse.fuse([small, large], X, target=target)
    assert [tuple(p.shape) for p in fusion.model.parameters()] == [tuple(p.shape) for p in target.parameters()]
    for couplings, model in zip(fusion.couplings, (small, large), strict=True):
        for name, matrix in couplings.items():
            width = fusion.layout.widths(model.state_dict())[name]
            torch.testing.assert_close(matrix.sum(1), torch.ones(len(matrix)))
            assert matrix.shape[1] == width


def mlp(*widths, **options):
    layers = [nn.Linear(a, b, **options) for a, b in pairwise(widths)]
    return nn.Sequential(*[part for layer in layers for part in (layer, nn.ReLU())][:-1])


X = torch.randn(2, 3)
BAD = {
    "no model": (lambda: transfuse.fuse([], X), InputError, "one or more"),
    "not a module": (lambda: transfuse.fuse([3], X), InputError, r"torch\.nn\.Module"),
    "no inputs": (lambda: transfuse.fuse([mlp(3, 4, 2)]), InputError, "example_inputs"),
    "another architecture": (lambda: transfuse.fuse([mlp(3, 4, 2), mlp(3, 4, 4, 2)], X), LayoutError, r"4\.weight"),
    "other inputs": (lambda: transfuse.fuse([mlp(3, 4, 2), mlp(5, 4, 2)], X), LayoutError, r"0\.weight axis 1"),
    "no such space": (lambda: transfuse.fuse([mlp(3, 4, 2)], X, target={"1.out": 5}), InputError, "no space is called"),
    "no units": (lambda: transfuse.fuse([mlp(3, 4, 2)], X, target={"0.out": 0}), InputError, "cannot have 0 units"),
    "a target of other depth": (
        lambda: transfuse.fuse([mlp(3, 4, 2)], X, target=mlp(3, 4, 4, 2)),
        LayoutError,
        r"4\.weight",
    ),
    "a target with other outputs": (
        lambda: transfuse.fuse([mlp(3, 4, 2)], X, target=mlp(3, 4, 5)),
        LayoutError,
        r"2\.weight axis 0",
    ),
    "unknown method": (lambda: transfuse.fuse([mlp(3, 4, 2)], X, method="magic"), InputError, "vanilla"),
    "unknown option": (
        lambda: transfuse.fuse([mlp(3, 4, 2)], X, method="wb", alpha=3),
        InputError,
        "updates, epsilon, start",
    ),
    "too many weights": (lambda: transfuse.fuse([mlp(3, 4, 2)], X, weights=[1, 2]), InputError, "2 weights for 1"),
    "negative weights": (lambda: transfuse.fuse([mlp(3, 4, 2)] * 2, X, weights=[2, -1]), InputError, "non-negative"),
    "zero weights": (lambda: transfuse.fuse([mlp(3, 4, 2)] * 2, X, weights=[0, 0]), InputError, "not all zero"),
    "not a number": (lambda: transfuse.fuse([mlp(3, 4, 2), spoiled()], X), InputError, r"model 2: tensor 0\.bias"),
}


def spoiled():
    net = mlp(3, 4, 2)
    net[0].bias.data[1] = torch.nan
    return net


@pytest.mark.parametrize(("act", "error", "text"), BAD.values(), ids=BAD)
def test_what_cannot_be_fused_is_refused_before_work_starts(act, error, text):
    with pytest.raises(error, match=text):
        act()
