"""Published methods against small implementations of their definitions, written for these tests alone."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy.optimize import linear_sum_assignment
from torch import nn

import transfuse
from transfuse import InputError
from transfuse.barycenter import Problem, merge_many, objective_of
from transfuse.barycenter.objective import means
from transfuse.barycenter.scores import features
from transfuse.methods import _hidden_importance
from zoo_problems import layout_of, problem_of, states_of

SPACES = ["0.out", "2.out"]


def networks(count, seed=0):
    torch.manual_seed(seed)
    return [
        nn.Sequential(nn.Linear(6, 9), nn.ReLU(), nn.Linear(9, 7), nn.ReLU(), nn.Linear(7, 4)).double()
        for _ in range(count)
    ]


def layers(net):
    return [(net[i].weight.detach().numpy(), net[i].bias.detach().numpy()) for i in (0, 2, 4)]


@pytest.mark.parametrize("distance", ["squared", "plain"])
@pytest.mark.parametrize("seed", range(5))
def test_ot_fusion_is_algorithm_1_of_singh_and_jaggi(distance, seed):
    """Hard couplings, weights and bias as the support of a unit, one pass, to the first model."""
    nets = networks(2, seed)
    a, b = map(layers, nets)
    incoming, fused = np.eye(6), []
    for layer in range(3):
        weight, bias = b[layer][0] @ incoming.T, b[layer][1]
        if layer < 2:
            left, right = np.c_[a[layer]], np.c_[weight, bias]
            costs = np.array(
                [[np.linalg.norm(x - y) ** (2 if distance == "squared" else 1) for y in right] for x in left]
            )
            _, order = linear_sum_assignment(costs)
            incoming = np.eye(len(order))[order]
            weight, bias = weight[order], bias[order]
        fused += [(a[layer][0] + weight) / 2, (a[layer][1] + bias) / 2]
    ours = transfuse.fuse(nets, torch.randn(2, 6).double(), method="ot", distance=distance).model.state_dict()
    for reference, own in zip(fused, ours.values(), strict=True):
        np.testing.assert_allclose(own.numpy(), reference)


def test_plain_and_squared_distances_can_differ():
    """Costs 1 + 3.5 against 2 + 2.2, and their squares: of two couplings, each distance prefers another."""
    layout = transfuse.trace(networks(1)[0], torch.randn(2, 6).double(), proof=False)
    for seed in range(40):
        states = [net.state_dict() for net in networks(2, seed)]
        plain, squared = (
            transfuse.fuse_states(states, layout, method="ot", distance=distance).couplings[1]
            for distance in ("plain", "squared")
        )
        if not all(torch.equal(plain[space], squared[space]) for space in SPACES):
            return
    raise AssertionError("the distances always agreed")


def moved(net, orders):
    """Weights of a network with hidden units in another order (the reference's own permutation)."""
    (w1, b1), (w2, b2), (w3, b3) = net
    first, second = orders["0.out"], orders["2.out"]
    return [(w1[first], b1[first]), (w2[second][:, first], b2[second]), (w3[:, second], b3)]


def weight_matching(a, b, rng):
    """Git Re-Basin, Algorithm 1: permutation coordinate descent, layers in random order, until none changes."""
    orders = {"0.out": np.arange(9), "2.out": np.arange(7)}
    while True:
        changed = False
        for space in rng.permutation(SPACES):
            own = {**orders, space: np.arange(len(orders[space]))}
            (w1, c1), (w2, c2), (w3, _) = moved(b, own)
            if space == "0.out":
                gain = a[0][0] @ w1.T + np.outer(a[0][1], c1) + a[1][0].T @ w2
            else:
                gain = a[1][0] @ w2.T + np.outer(a[1][1], c2) + a[2][0].T @ w3
            _, order = linear_sum_assignment(-gain)
            changed |= not np.array_equal(order, orders[space])
            orders[space] = order
        if not changed:
            return orders


def merge(nets, rng):
    """Git Re-Basin, Algorithm 3: each model in random order is matched to the mean of the others, until none moves."""
    nets = list(nets)
    while True:
        changed = False
        for i in rng.permutation(len(nets)):
            others = [net for j, net in enumerate(nets) if j != i]
            mean = [
                tuple(sum(parts) / len(others) for parts in zip(*layer, strict=True))
                for layer in zip(*others, strict=True)
            ]
            orders = weight_matching(mean, nets[i], rng)
            changed |= any(not np.array_equal(order, np.arange(len(order))) for order in orders.values())
            nets[i] = moved(nets[i], orders)
        if not changed:
            return [
                tuple(sum(parts) / len(nets) for parts in zip(*layer, strict=True)) for layer in zip(*nets, strict=True)
            ]


@pytest.mark.parametrize("seed", range(8))
def test_rebasin_of_two_models_is_algorithm_1_of_git_rebasin(seed):
    nets = networks(2, seed)
    expected = weight_matching(layers(nets[0]), layers(nets[1]), np.random.default_rng(seed))
    found = transfuse.fuse(nets, torch.randn(2, 6).double(), method="rebasin", seed=seed)
    for space, order in expected.items():
        assert found.couplings[1][space].argmax(1).tolist() == order.tolist()


@pytest.mark.parametrize("count", [3, 5])
@pytest.mark.parametrize("seed", range(4))
def test_rebasin_of_many_models_is_algorithm_3_of_git_rebasin(seed, count):
    nets = networks(count, seed)
    layout = transfuse.trace(nets[0], torch.randn(2, 6).double())
    problem = Problem([net.state_dict() for net in nets], layout, [1 / count] * count, layout.units)
    start = [problem.start(model) for model in range(count)]
    couplings, _ = merge_many(problem, start, rng=np.random.default_rng(seed))
    expected = merge(map(layers, nets), np.random.default_rng(seed))
    ours = list(means(problem, couplings).values())
    for reference, own in zip([part for layer in expected for part in layer], ours, strict=True):
        np.testing.assert_allclose(own.numpy(), reference)


def paper_cost(target, own, alpha):
    """Section 3: mean squared differences of incoming weights and of hidden-to-hidden ones, units in one order."""
    (w, h), (v, g) = target, own
    k, k_in = w.shape
    return sum(
        float(((w[j] - v[j]) ** 2).sum()) / k_in / k + alpha * float(((h[j] - g[j]) ** 2).sum()) / k / k
        for j in range(k)
    )


def test_alpha_is_that_of_the_paper():
    """F of two recurrent layers with `alpha` is the paper's objective, up to one factor for all of its terms."""
    layout = transfuse.parse("{spaces: {h: 8}, tensors: {weight_ih_l0: [h, 5], weight_hh_l0: [h, < h]}}")
    states = [nn.RNN(5, 8, bias=False).double().state_dict() for _ in range(2)]
    parts = [(state["weight_ih_l0"], state["weight_hh_l0"]) for state in states]
    mean = tuple(sum(each) / 2 for each in zip(*parts, strict=True))
    for alpha in (0.0, 1.0, 7.0):
        problem = Problem(states, layout, [0.5, 0.5], layout.units)
        weighed = Problem(states, layout, [0.5, 0.5], layout.units, _hidden_importance(problem, alpha))
        ours = objective_of(weighed, [weighed.start(0), weighed.start(1)])
        theirs = sum(paper_cost(mean, own, alpha) for own in parts) / 2
        assert ours == pytest.approx(theirs * 8 * 5)


@pytest.mark.long
@pytest.mark.parametrize("name", ["mlp_tanh", "lstm"])
@pytest.mark.parametrize("method", ["ot", "wb", "gwb"])
def test_entropic_couplings_have_the_right_sums_and_approach_the_exact_ones(name, method):
    layout, states = layout_of(name), states_of(name, 2)
    exact, sharp, blurred = (
        transfuse.fuse_states(states, layout, method=method, epsilon=epsilon, updates=3).couplings[1]
        if method != "ot" else transfuse.fuse_states(states, layout, method=method, epsilon=epsilon).couplings[1]
        for epsilon in (None, 0.03, 3.0)
    )  # fmt: skip
    first = layout.spaces[0].name
    for coupling in (sharp[first], blurred[first]):
        torch.testing.assert_close(coupling.sum(1), torch.ones_like(coupling[:, 0]))
        torch.testing.assert_close(coupling.sum(0), torch.ones_like(coupling[0]), rtol=2e-3, atol=2e-3)
    if method != "gwb":  # its exact coupling is one local optimum, the entropic one may be another
        shares = [float((coupling[first] * exact[first]).sum()) / len(exact[first]) for coupling in (blurred, sharp)]
        assert shares[0] < shares[1]
        assert shares[1] > 0.6


def test_what_has_not_converged_is_told_with_a_remedy():
    layout, states = layout_of("lstm"), states_of("lstm", 3)
    short = transfuse.fuse_states(states, layout, sweeps=1, restarts=0)
    assert "stopped after 1 sweeps" in short.status
    assert "allow more sweeps" in short.status
    torch.manual_seed(0)
    big = [nn.Sequential(nn.Linear(40, 60), nn.ReLU(), nn.Linear(60, 2)) for _ in range(2)]
    sharp = transfuse.fuse(big, torch.randn(2, 40), method="wb", epsilon=1e-4, updates=0)
    assert "columns of an entropic coupling are off their sums by up to" in sharp.status
    assert "raise epsilon" in sharp.status
    blurred = transfuse.fuse(big, torch.randn(2, 40), method="wb", epsilon=0.01, updates=1)
    assert "still changed at the last of 1 updates; raise updates" in blurred.status
    climb = transfuse.fuse_states(states, layout, method="c2m3", steps=1)
    assert "had not ended after 1 steps" in climb.status


def test_every_row_has_a_citation_and_every_option_a_check():
    for method in transfuse.METHODS.values():
        assert method.citation
        for option, default in method.options.items():
            assert not method.problems({option: default})
            assert method.problems({option: "nonsense"}), option


def test_all_wrong_options_are_listed():
    with pytest.raises(InputError) as caught:
        transfuse.fuse_states(states_of("mlp", 1), layout_of("mlp"), method="wb", epsilon=-1, updates=1.5, magic=3)
    for text in (
        "epsilon is -1",
        "updates is 1.5",
        "no option is called 'magic'; the options: updates, epsilon, start",
    ):
        assert text in str(caught.value)


@pytest.mark.parametrize("name", ["mlp", "lenet"])
def test_updates_of_wb_never_raise_the_objective_of_a_layer(name):
    problem = problem_of(name, states_of(name, 3))
    first = next(iter(problem.widths))
    values = []
    for updates in range(5):
        couplings = transfuse.fuse_states(problem.states, problem.layout, method="wb", updates=updates).couplings
        units = [
            own[first]
            @ features(problem, model, [p for p in problem.blocks_of[first] if p.target.side == "produces"], {})
            for model, own in enumerate(couplings)
        ]
        stacked = torch.stack(units)
        values.append(float((stacked - stacked.mean(0)).square().sum()))
    assert all(after <= before + 1e-9 for before, after in pairwise(values))
