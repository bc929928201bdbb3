"""Balance: rescaled copies of a network come to the same scale, however deep it is."""

import copy
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn

from transfuse import fuse, fuse_states, parse, trace
from transfuse.layout.balance import balanced, scaled_alike
from transfuse.layout.spaces_balance import balancing_shifts
from transfuse.lazy import as_lazy


def chain(depth: int, width: int = 12) -> nn.Sequential:
    torch.manual_seed(0)
    sizes = [6, *[width] * (depth - 1), 3]
    layers = [nn.Linear(a, b) for a, b in pairwise(sizes)]
    for layer in layers:
        nn.init.kaiming_normal_(layer.weight)
        nn.init.normal_(layer.bias, std=0.1)
    return nn.Sequential(*(part for layer in layers for part in (layer, nn.ReLU())))[:-1]


def rescaled(network: nn.Sequential, scales: list[float], *, by_unit: bool = False) -> nn.Sequential:
    """The same function: what a layer gives is multiplied, what the next one reads is divided."""
    layers = [layer for layer in network if isinstance(layer, nn.Linear)]
    twin = chain(len(layers))
    twin.load_state_dict(network.state_dict())
    twins = [layer for layer in twin if isinstance(layer, nn.Linear)]
    for number, (layer, following) in enumerate(pairwise(twins)):
        scale = torch.full((layer.out_features,), scales[number % len(scales)])
        scale = scale * torch.randn(len(scale)).exp() if by_unit else scale
        layer.weight.data *= scale[:, None]
        layer.bias.data *= scale
        following.weight.data /= scale
    return twin


@pytest.mark.long
@pytest.mark.parametrize(
    ("depth", "scales", "by_unit"),
    [
        (10, [10.0], False),
        (10, [10.0], True),
        (50, [10.0, 0.1], True),
        *(pytest.param(50, scales, False, marks=pytest.mark.long) for scales in ([10.0], [0.1])),
    ],
)
def test_a_rescaled_network_comes_to_the_same_scale(depth: int, scales: list[float], by_unit: bool):
    network = chain(depth)
    layout = trace(network, torch.randn(4, 6), proof=False)
    one, other = (balanced(each.state_dict(), layout) for each in (network, rescaled(network, scales, by_unit=by_unit)))
    for name, tensor in one.items():
        torch.testing.assert_close(other[name], tensor, rtol=1e-5, atol=1e-6 * float(tensor.abs().max()))


@pytest.mark.long
@pytest.mark.parametrize("scales", [[10.0], [0.1], [10.0, 0.1]])
def test_fifty_layers_fused_with_a_rescaled_copy_are_themselves(scales: list[float]):
    network, inputs = chain(50), torch.randn(4, 6)
    with torch.no_grad():
        expected = network(inputs)
        got = fuse([network, rescaled(network, scales)], inputs, correct="none").model(inputs)
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-4 * float(expected.abs().max()))


def test_ten_layers_fused_with_a_rescaled_copy_are_themselves():
    network, inputs = chain(10), torch.randn(4, 6)
    with torch.no_grad():
        got = fuse([network, rescaled(network, [10.0])], inputs, correct="none").model(inputs)
        torch.testing.assert_close(got, network(inputs), rtol=0, atol=1e-5 * float(network(inputs).abs().max()))


def test_norms_of_every_unit_are_equal():
    network = chain(10)
    state = balanced(rescaled(network, [10.0]).state_dict(), trace(network, torch.randn(4, 6), proof=False))
    for layer in range(0, 18, 2):
        produced = state[f"{layer}.weight"].square().sum(1) + state[f"{layer}.bias"].square()
        torch.testing.assert_close(produced, state[f"{layer + 2}.weight"].square().sum(0), rtol=1e-5, atol=0)


def test_a_lazy_state_is_balanced_as_a_plain_one():
    network = chain(6)
    layout, state = trace(network, torch.randn(4, 6), proof=False), rescaled(network, [10.0]).state_dict()
    plain, lazy = balanced(state, layout), balanced(as_lazy(state), layout)
    assert all(torch.equal(plain[name], lazy[name]) for name in plain)


def test_units_that_nothing_reads_keep_their_scale_and_the_others_settle():
    network = chain(10)
    network[6].weight.data[:, 3] = 0
    twin = rescaled(network, [10.0])
    state = balanced(twin.state_dict(), trace(network, torch.randn(4, 6), proof=False))
    produced = state["4.weight"].square().sum(1) + state["4.bias"].square()
    consumed = state["6.weight"].square().sum(0)
    assert consumed[3] == 0
    torch.testing.assert_close(state["4.bias"][3], twin[4].bias.data[3])
    others = torch.arange(12) != 3
    torch.testing.assert_close(produced[others], consumed[others], rtol=1e-5, atol=0)


@pytest.mark.long
def test_weights_near_the_identity_settle_too():
    network = chain(50)
    for layer in list(network)[2:-1:2]:
        layer.weight.data = torch.eye(12) + 0.01 * torch.randn(12, 12)
    layout = trace(network, torch.randn(4, 6), proof=False)
    one, other = (
        balanced(each.state_dict(), layout) for each in (network, rescaled(network, [10.0, 0.1], by_unit=True))
    )
    for name, tensor in one.items():
        torch.testing.assert_close(other[name], tensor, rtol=1e-3, atol=1e-3 * float(tensor.abs().max()))


def test_spaces_are_balanced_in_closed_form():
    """A chain of masses 1, 1, 10^12: every link gets the geometric mean, 10^4."""
    chained = [(1.0, {"a": 1}), (1.0, {"a": -1, "b": 1}), (1e12, {"b": -1})]
    shifts = balancing_shifts(chained, ["a", "b"])
    masses = [mass * np.exp(2 * sum(e * shifts[n] for n, e in own.items())) for mass, own in chained]
    np.testing.assert_allclose(masses, 1e4)


def test_a_space_that_no_weight_scales_with_stays():
    assert balancing_shifts([(1.0, {"a": 1}), (1.0, {"a": -1})], ["a", "b"]) == {"a": 0.0, "b": 0.0}
    assert balancing_shifts([], ["a"]) == {"a": 0.0}


@torch.no_grad()
def test_dead_units_keep_their_scale_and_scaling_them_changes_no_fusion():
    """Nothing says how large a unit is that nothing produces or reads: it computes the same in any scale."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2))
    net[0].weight[1], net[0].bias[1], net[2].weight[:, 2] = 0.0, 0.0, 0.0
    twin = copy.deepcopy(net)
    factors = torch.tensor([2.0, 1e3, 1e-3, 0.5, 10.0])
    twin[0].weight.mul_(factors[:, None])
    twin[0].bias.mul_(factors)
    twin[2].weight.div_(factors)
    x = torch.randn(7, 3)
    layout = trace(net, x)
    scaled = balanced(net.state_dict(), layout)
    torch.testing.assert_close(scaled["2.weight"][:, 1], net[2].weight[:, 1])
    torch.testing.assert_close(scaled["0.weight"][2], net[0].weight[2])
    fusion = fuse([net, twin], x, correct="none")
    torch.testing.assert_close(fusion.model(x), net(x), rtol=1e-4, atol=1e-5)


def test_networks_are_scaled_alike_unless_many_units_have_other_scales():
    network = chain(4)
    layout = trace(network, torch.randn(2, 6))
    died = copy.deepcopy(network)
    died[0].weight.data[0] *= 1e-8
    died[0].bias.data[0] *= 1e-8
    others = rescaled(network, [1.0], by_unit=True), rescaled(network, [3.0])

    def alike(other: nn.Module) -> bool:
        return scaled_alike([network.state_dict(), other.state_dict()], layout)

    assert alike(network)
    assert alike(died)
    assert not any(map(alike, others))


def test_networks_of_like_scales_are_matched_as_they_are():
    one, other = chain(4), chain(4)
    for tensor in other.parameters():
        tensor.data = tensor[torch.randperm(len(tensor))] + 0.05 * torch.randn_like(tensor)
    layout = trace(one, torch.randn(2, 6))
    plain = parse(str(layout).replace(" scales", ""))
    scaled, unscaled = (fuse_states([one.state_dict(), other.state_dict()], each) for each in (layout, plain))
    for name, matrix in unscaled.couplings[1].items():
        assert torch.equal(scaled.couplings[1][name], matrix)
