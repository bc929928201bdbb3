"""C2M3: exact line search, planted permutations, circles of models, and never worse than the start."""

import functools
from itertools import combinations, permutations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import transfuse
from transfuse import InputError
from transfuse.barycenter import Problem, objective_of
from transfuse.barycenter.sweeps.cycle import _between, _towards, agreement_of_pairs, cycle_consistent, longest_climb
from transfuse.layout import Permutation, random_elements
from zoo_problems import layout_of, problem_of, states_of

NAMES = ("mlp", "lenet", "lstm", "resnet_identity", "multihead_attention")
SLOW = ("resnet_identity", "lenet")
by_name = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] * (name in SLOW)) for name in NAMES]
)


@functools.cache
def found(name, count=3):
    problem = problem_of(name, states_of(name, count))
    return problem, *cycle_consistent(problem)


def shuffled_start(problem, seed):
    rng = np.random.default_rng(seed)
    return [
        {
            name: Permutation(torch.from_numpy(rng.permutation(width)), torch.ones(width).double())
            for name, width in pairs
        }
        for pairs in [problem.widths.items()] * len(problem.states)
    ]


def planted(name, count, seed):
    layout, state, rng = layout_of(name), states_of(name, 1)[0], np.random.default_rng(seed)
    elements = [random_elements(layout, layout.units, rng, symmetries=False) for _ in range(count - 1)]
    return problem_of(name, (state, *(transfuse.permute(state, layout, each) for each in elements))), elements


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ["mlp", "lenet"])
def test_a_planted_permutation_is_recovered(name, seed):
    problem, (element,) = planted(name, 2, seed)
    couplings, history = cycle_consistent(problem)
    assert history[-1].objective == pytest.approx(0.0, abs=1e-12)
    for space, coupling in couplings[1].items():
        assert np.array_equal(element[space].order[coupling.order], np.arange(problem.widths[space]))


@pytest.mark.long
@pytest.mark.parametrize("name", ["mlp", "lenet"])
def test_planted_permutations_of_several_models_are_mostly_recovered(name):
    """Not always: all move at once, and the climb can end halfway between equally good permutations."""
    objectives = [cycle_consistent(planted(name, 5, seed)[0])[1][-1].objective for seed in range(6)]
    assert sum(objective < 1e-9 for objective in objectives) >= 4


@by_name
def test_couplings_are_permutations_without_signs_and_the_first_model_stays(name):
    problem, couplings, _ = found(name)
    for model, own in enumerate(couplings):
        for space, width in problem.widths.items():
            order = own[space].order.tolist()
            assert sorted(order) == list(range(width))
            assert model or order == list(range(width))
            assert bool((own[space].factor == 1).all())


@by_name
def test_going_round_a_circle_of_models_ends_where_it_began(name):
    problem, couplings, _ = found(name)

    def between(i, j, space):
        """The map from model i to model j, through the universe."""
        return couplings[j][space].matrices[1].T @ couplings[i][space].matrices[1]

    for i, j, k in permutations(range(3)):
        for space, width in problem.widths.items():
            assert torch.equal(between(j, k, space) @ between(i, j, space), between(i, k, space))
            circle = between(k, i, space) @ between(j, k, space) @ between(i, j, space)
            assert torch.equal(circle, torch.eye(width, dtype=circle.dtype))


@pytest.mark.long
@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.long] * (name in SLOW)) for name in NAMES])
@pytest.mark.parametrize("count", [2, 3])
def test_the_models_agree_no_less_than_at_the_start(name, count):
    problem = problem_of(name, states_of(name, count))
    for start in (None, shuffled_start(problem, 0)):
        couplings, history = cycle_consistent(problem, start)
        begun = start or [problem.start(model) for model in range(count)]
        assert agreement_of_pairs(problem, couplings) >= agreement_of_pairs(problem, begun)
        assert history[-1].objective <= history[0].objective * (1 + 1e-9)
        assert history[-1].objective == pytest.approx(objective_of(problem, couplings))


@by_name
def test_the_same_models_give_the_same_couplings(name):
    problem, couplings, history = found(name)
    again, same_history = cycle_consistent(problem)
    assert history == same_history
    for own, twin in zip(couplings, again, strict=True):
        assert all(own[space].same_as(twin[space]) for space in own)


@by_name
def test_agreement_is_a_sum_over_pairs_and_falls_with_the_objective(name):
    problem = problem_of(name, states_of(name, 3))
    values = []
    for seed in range(2):
        couplings = shuffled_start(problem, seed)
        carried = [
            {name: problem.carried(model, name, own) for name in problem.terms} for model, own in enumerate(couplings)
        ]
        slow = sum(float((a[t] * b[t]).sum()) for a, b in combinations(carried, 2) for t in problem.terms)
        assert agreement_of_pairs(problem, couplings) == pytest.approx(slow)
        values.append((slow, objective_of(problem, couplings)))
    (first, high), (second, low) = values
    assert high - low == pytest.approx((second - first) * 2 / 9, abs=1e-9)


@by_name
def test_a_step_is_a_polynomial_of_the_degree_that_the_line_search_relies_on(name):
    problem = problem_of(name, states_of(name, 3))
    here = _between(*(shuffled_start(problem, seed) for seed in range(2)), 0.3)
    there = _towards(problem, here)
    places = np.linspace(0, 1, 9)
    values = [agreement_of_pairs(problem, _between(here, there, place)) for place in places]
    axes = max(len({pair.target.axis for pair in pairs}) for pairs in problem.blocks.values())
    fitted = np.polynomial.Polynomial.fit(places[:: 8 // (2 * axes)], values[:: 8 // (2 * axes)], 2 * axes)
    np.testing.assert_allclose(fitted(places), values, rtol=1e-9, atol=1e-9)


@given(st.lists(st.floats(-5, 5), min_size=3, max_size=7))
def test_the_line_search_finds_the_largest_value_of_a_polynomial(coefficients):
    polynomial = np.polynomial.Polynomial(coefficients)
    length = longest_climb(lambda part: float(polynomial(part)), degree=len(coefficients) - 1)
    assert 0 <= length <= 1
    assert polynomial(length) >= polynomial(np.linspace(0, 1, 201)).max() - 1e-6


def test_one_model_stays_as_it_is():
    _, couplings, history = found("mlp", 1)
    assert all(coupling.order.tolist() == sorted(coupling.order.tolist()) for coupling in couplings[0].values())
    assert history[-1].objective == 0.0


def test_steps_that_run_out_are_seen_in_the_history():
    problem = problem_of("mlp", states_of("mlp", 3))
    assert len(cycle_consistent(problem, steps=1)[1]) == 2
    assert cycle_consistent(problem)[1][-1].changed == 0


def test_other_widths_are_refused():
    problem = Problem(states_of("mlp", 2), layout_of("mlp"), [0.5, 0.5], {"0.out": 8, "2.out": 9})
    with pytest.raises(InputError, match=r"model 1: space 0\.out has 7 units, the target has 8"):
        cycle_consistent(problem)
