"""Barriers: laws over the zoo, closed forms, batch norm."""

import copy
import math
import random
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils import parameters_to_vector
from torch.utils.data import DataLoader, TensorDataset

import transfuse
from transfuse import InputError, barrier, chain, simplex
from transfuse.modules import tensors_in
from zoo import ZOO, call

ROWS = [pytest.param(row, id=row.name) for row in ZOO]


def two(network):
    nets = []
    for seed in range(2):
        torch.manual_seed(seed)
        nets.append(network.build())
    return nets


def loss_of(inputs):
    def evaluate(model):
        assert not model.training
        return sum(
            float(out.double().square().mean()) for out in tensors_in(call(model, inputs)) if out.is_floating_point()
        )

    return evaluate


@pytest.mark.filterwarnings("ignore::transfuse.errors.StatisticsWarning")
@pytest.mark.filterwarnings("ignore:LSTM with projections")  # torch says which of its own ways it takes
@pytest.mark.parametrize("network", ROWS)
def test_between_a_network_and_itself_there_is_no_barrier_and_ends_are_the_networks_own(network):
    one, other = two(network)
    evaluate = loss_of(network.inputs())
    flat = barrier(one, one, evaluate, points=4)
    assert flat.height() == 0
    assert flat.midpoint() == flat.of()[0]
    found = barrier(one, other, evaluate, points=3)
    with torch.no_grad():
        assert [found.of()[0], found.of()[-1]] == [evaluate(one), evaluate(other)]
    assert found.height() >= 0


@given(st.floats(-3, 3), st.floats(-3, 3), st.integers(2, 9))
def test_a_cubic_along_the_segment_has_the_barrier_of_the_formula(left, right, points):
    def cubic(state):
        return float(state["w"] ** 3)

    found = barrier({"w": torch.tensor(left).double()}, {"w": torch.tensor(right).double()}, cubic, points=points)
    t = np.union1d(np.arange(points) / (points - 1), 0.5)
    left, right = float(torch.tensor(left)), float(torch.tensor(right))
    excess = ((1 - t) * left + t * right) ** 3 - ((1 - t) * left**3 + t * right**3)
    assert found.height() == pytest.approx(excess.max(), abs=1e-9)
    assert found.midpoint() == pytest.approx(((left + right) / 2) ** 3)


def test_several_values_by_name_and_the_text():
    a, b = {"w": torch.tensor(-1.0)}, {"w": torch.tensor(1.0)}
    found = barrier(a, b, lambda state: {"loss": torch.cos(state["w"]), "error": np.float32(state["w"])}, points=5)
    assert found.metrics == ("loss", "error")
    assert found.height("error") == 0
    assert found.height() == found.height("loss") == pytest.approx(1 - math.cos(1), abs=1e-6)
    assert "loss: 0.5403 to 0.5403, midpoint 1, barrier 0.4597" in str(found)
    with pytest.raises(InputError, match="the metrics: loss, error"):
        found.height("accuracy")


def test_a_chain_is_its_segments_and_a_simplex_has_its_middles():
    states = [{"w": torch.randn(4, generator=torch.Generator().manual_seed(seed)).double()} for seed in range(4)]

    def evaluate(state):
        return float(torch.sin(3 * state["w"]).sum())

    segments = chain(states, evaluate, points=5)
    for segment, (a, b) in zip(segments, pairwise(states), strict=True):
        np.testing.assert_allclose(segment.of(), barrier(a, b, evaluate, points=5).of(), rtol=1e-12)
    found = simplex(states, evaluate)
    assert len(found.members) == 4 + 6 + 1
    middle = {"w": torch.stack([state["w"] for state in states]).mean(0)}
    mean = np.mean([evaluate(state) for state in states])
    assert found.height() == pytest.approx(evaluate(middle) - mean)
    assert found.height((1, 2)) == pytest.approx(segments[1].midpoint() - segments[1].of()[[0, -1]].mean())
    with pytest.raises(InputError, match="nothing was measured"):
        found.height((0, 1, 2))


def normed():
    return nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))


def test_statistics_of_batch_norm_are_those_of_the_interpolated_network_when_data_is_given():
    torch.manual_seed(0)
    a, b, x = normed(), normed(), torch.randn(50, 3) + 1
    seen = []
    found = barrier(a, b, lambda model: seen.append(copy.deepcopy(model)) or 0.0, points=3, data=[(x, None)])
    assert len(seen) == 3
    for model in seen:
        hidden = model[0](x)
        torch.testing.assert_close(model[1].running_mean, hidden.mean(0))
        torch.testing.assert_close(model[1].running_var, hidden.var(0))
    half = (parameters_to_vector(a.parameters()) + parameters_to_vector(b.parameters())) / 2
    torch.testing.assert_close(parameters_to_vector(seen[-1].parameters()), half)  # inner points come last
    assert found.height() == 0


def test_interpolated_statistics_of_batch_norm_are_warned_of_unless_they_are_computed_anew():
    a, b, x = normed(), normed(), torch.randn(20, 3)
    with pytest.warns(transfuse.StatisticsWarning, match="at the ends too, whose values then move"):
        barrier(a, b, lambda _: 0.0, points=3)
    with pytest.warns(transfuse.StatisticsWarning):
        transfuse.plane(a, b, normed(), lambda _: 0.0, grid=2)
    barrier(a, b, lambda _: 0.0, points=3, data=x)  # warnings are errors here: there is none
    barrier(a, b, lambda _: 0.0, points=2, data=x)


@pytest.mark.filterwarnings("ignore::transfuse.errors.StatisticsWarning")
def test_random_states_and_the_callers_networks_stay_and_every_point_sees_the_same_numbers():
    data = DataLoader(TensorDataset(torch.randn(8, 3), torch.zeros(8, dtype=torch.long)), batch_size=4, shuffle=True)
    a, b = normed().train(), normed()
    torch.manual_seed(5)
    before = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].copy()
    drawn = barrier(a, b, lambda _: float(torch.rand(())) + random.random() + np.random.rand(), points=5)
    barrier(a, b, transfuse.evaluator(data, keep=False), points=3)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]
    assert np.array_equal(np.random.get_state()[1], before[2])
    assert len(set(drawn.of())) == 1
    assert a.training
    assert a[1].num_batches_tracked == 0


A, B = {"w": torch.zeros(2)}, {"w": torch.ones(2)}
BAD = {
    "no numbers": (lambda: barrier(A, B, lambda _: "low"), "evaluate gave value: str"),
    "many numbers": (lambda: barrier(A, B, lambda state: state["w"]), "evaluate gave value: Tensor"),
    "nothing": (lambda: barrier(A, B, lambda _: {}), "evaluate gave nothing"),
    "other names": (lambda: barrier(A, B, lambda state: {str(float(state["w"][0])): 1.0}), "at one point"),
    "no function": (lambda: barrier(A, B, 3), "expected a function"),
    "one point": (lambda: barrier(A, B, len, points=1), r"expected 2 \(the two ends\) or more"),
    "one network": (lambda: chain([A], len), "expected 2 or more"),
    "data for states": (lambda: barrier(A, B, len, data=torch.ones(1)), "give modules"),
    "no data": (lambda: barrier(normed(), normed(), len, data=[]), "holds no batches"),
    "workers": (lambda: barrier(A, B, len, workers=-1), "workers is -1"),
}


@pytest.mark.parametrize(("act", "text"), BAD.values(), ids=BAD)
def test_what_cannot_be_measured_is_refused(act, text):
    with pytest.raises(InputError, match=text):
        act()
