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


def states_of(name, count):
    states = []
    for seed in range(count):
        torch.manual_seed(seed)
        states.append(named(name).build().double().state_dict())
    return states


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


def test_several_models_agree_more_after_fusing_than_before():
    _, layout, _ = sample(named("mlp_tanh"))
    states = states_of("mlp_tanh", 5)
    plain = transfuse.fuse_states(states, layout, method="vanilla").history[-1].objective
    for method in ("ot", "wb", "rebasin", "auto"):
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
    "other widths": (lambda: transfuse.fuse([mlp(3, 4, 2), mlp(3, 5, 2)], X), InputError, r"0\.out has 5 units"),
    "unknown method": (lambda: transfuse.fuse([mlp(3, 4, 2)], X, method="magic"), InputError, "vanilla"),
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
