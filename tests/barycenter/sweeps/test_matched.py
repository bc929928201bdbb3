"""One-shot FedMA: the cost against its slow twin, planted permutations, and what cannot matter."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import transfuse
from transfuse import InputError
from transfuse.barycenter import Problem, layer_by_layer
from transfuse.barycenter.sweeps.matched import assignment_scores, match, matched_averaging
from transfuse.layout import random_elements
from zoo_problems import layout_of, problem_of, states_of

NAMES = ("mlp", "lenet", "lstm")


def slow_scores(total, units, popularity, models, sigma, sigma0):
    """The formula, one number at a time: no norms are taken apart."""
    scores = torch.zeros(len(total), len(units), dtype=torch.float64)
    for i, seen in enumerate(popularity.tolist()):
        for unit in range(len(units)):
            score = 2 * math.log(seen / (models - seen))
            for s, v in zip(total[i].tolist(), units[unit].tolist(), strict=True):
                score += (v / sigma**2 + s / sigma**2) ** 2 / (1 / sigma0**2 + seen / sigma**2 + 1 / sigma**2)
                score -= (s / sigma**2) ** 2 / (1 / sigma0**2 + seen / sigma**2)
            scores[i, unit] = score
    return scores


def drawn(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@given(
    shape=st.tuples(st.integers(1, 5), st.integers(1, 4), st.integers(1, 6)), models=st.integers(2, 12),
    sigma=st.floats(0.3, 3), sigma0=st.floats(0.3, 10), seed=st.integers(0, 10**6),
)  # fmt: skip
def test_the_cost_is_that_of_the_slow_twin(shape, models, sigma, sigma0, seed):
    rows, columns, weights = shape
    total, units = drawn(seed, rows, weights), drawn(seed + 1, columns, weights)
    popularity = torch.from_numpy(np.random.default_rng(seed).integers(1, models, rows))
    fast = assignment_scores(total, units, popularity, models, sigma=sigma, sigma0=sigma0)
    torch.testing.assert_close(fast, slow_scores(total, units, popularity, models, sigma, sigma0))


def test_the_cost_is_the_gain_in_twice_the_log_likelihood():
    """Densities of all units of a global unit, with its weights integrated out, with and without the new one."""
    sigma, sigma0, seen = 0.7, 1.6, 3
    samples = drawn(0, seen + 1)

    def log_density(values):
        covariance = sigma**2 * torch.eye(len(values)).double() + sigma0**2
        normal = torch.distributions.MultivariateNormal(torch.zeros(len(values)).double(), covariance)
        return float(normal.log_prob(values))

    gains, scores = [], []
    for last in (samples[-1], -2 * samples[-1]):  # what does not depend on the new unit drops out of a difference
        alone = torch.distributions.Normal(0.0, sigma).log_prob(last)
        gains.append(2 * (log_density(torch.cat([samples[:-1], last[None]])) - log_density(samples[:-1]) - alone))
        total = samples[:-1].sum().view(1, 1)
        scores.append(
            assignment_scores(total, last.view(1, 1), torch.tensor([seen]), 9, sigma=sigma, sigma0=sigma0)
        )  # fmt: skip
    assert float(scores[0] - scores[1]) == pytest.approx(float(gains[0] - gains[1]))


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("name", NAMES)
def test_planted_permutations_are_recovered(name, count):
    layout, state = layout_of(name), states_of(name, 1)[0]
    rng = np.random.default_rng(0)
    elements = [random_elements(layout, layout.units, rng, symmetries=False) for _ in range(count - 1)]
    problem = problem_of(name, (state, *(transfuse.permute(state, layout, each) for each in elements)))
    couplings, history = matched_averaging(problem)
    assert history[-1].objective == pytest.approx(0.0, abs=1e-12)
    for own, element in zip(couplings[1:], elements, strict=True):
        for space, coupling in own.items():
            first = couplings[0][space].order
            assert torch.equal(element[space].order[coupling.order], first)


@pytest.mark.parametrize("name", [*NAMES, "resnet_identity", "multihead_attention"])
def test_couplings_are_permutations_without_signs_and_the_same_each_time(name):
    problem = problem_of(name, states_of(name, 3))
    (couplings, history), (again, _) = matched_averaging(problem), matched_averaging(problem)
    assert len(history) == len(problem.widths)
    for own, twin in zip(couplings, again, strict=True):
        for space, width in problem.widths.items():
            assert own[space].order.sort().values.tolist() == list(range(width))
            assert bool((own[space].factor == 1).all())
            assert own[space].same_as(twin[space])


@pytest.mark.parametrize("name", ["mlp", "lenet"])
def test_deviations_change_nothing_where_no_unit_is_born(name):
    problem = problem_of(name, states_of(name, 4))
    plain, _ = matched_averaging(problem)
    for sigma, sigma0 in ((0.2, 5.0), (3.0, 0.5)):
        other, _ = matched_averaging(problem, sigma=sigma, sigma0=sigma0)
        for own, twin in zip(plain, other, strict=True):
            assert all(own[space].same_as(twin[space]) for space in own)


@pytest.mark.parametrize("name", NAMES)
def test_two_models_are_matched_as_by_ot_fusion(name):
    problem = problem_of(name, states_of(name, 2))
    ours, theirs = matched_averaging(problem)[0], layer_by_layer(problem, quadratic=False, updates=0)[0]
    for own, other in zip(ours, theirs, strict=True):
        assert all(own[space].same_as(other[space]) for space in own)


@given(seed=st.integers(0, 10**6), models=st.integers(2, 5), units=st.integers(2, 6))
def test_further_rounds_never_lower_the_likelihood(seed, models, units):
    rows = list(drawn(seed, models, units, 4))
    norms = []
    for rounds in range(4):
        orders, _ = match(rows, sigma=1.0, sigma0=1.0, rounds=rounds)
        matched = torch.stack([row[order] for row, order in zip(rows, orders, strict=True)])
        norms.append(float(matched.sum(0).square().sum()))
    assert all(after >= before - 1e-9 for before, after in pairwise(norms))


def test_one_model_stays_as_it_is():
    problem = problem_of("mlp", states_of("mlp", 1))
    couplings, history = matched_averaging(problem)
    assert all(coupling.same_as(problem.start(0)[space]) for space, coupling in couplings[0].items())
    assert history[-1].objective == 0.0


def test_other_widths_are_refused():
    states = states_of("mlp", 2)
    problem = Problem(states, layout_of("mlp"), [0.5, 0.5], {"0.out": 7, "2.out": 12})
    with pytest.raises(InputError, match=r"model 2: space 2\.out has 9 units, the target has 12"):
        matched_averaging(problem)
