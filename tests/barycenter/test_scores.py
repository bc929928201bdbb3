"""Scores against their slow twins, and as the gradient of the agreement against finite differences."""

import functools

import pytest
import torch

from transfuse.barycenter import Plan
from transfuse.barycenter import scores as scoring
from transfuse.barycenter.scores import agreement, splits, unit_scores
from transfuse.layout import slicing
from zoo_problems import problem_of, random_couplings, states_of

NAMES = ("mlp_tanh", "lenet", "resnet_identity", "lstm", "gru", "multihead_attention", "tied_autoencoder")


@functools.cache
def problem(name):
    return problem_of(name, states_of(name, 3))


by_name = pytest.mark.parametrize("name", NAMES)


@by_name
def test_scores_are_the_gradient_of_the_agreement(name):
    p = problem(name)
    couplings, target = random_couplings(p, 1, soft=True), p.states[0]
    for space in p.widths:
        scores = unit_scores(p, space, 1, target, couplings)
        soft = couplings[space].matrices
        step = torch.randn(soft.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
        step = step if splits(p, space) else step[:1]  # one matrix for all slots
        slope = 0.0
        for sign in (1.0, -1.0):
            # only consuming blocks normalise columns, so steps keep column sums
            moved = soft + sign * 1e-6 * (step - step.mean(1, keepdim=True))
            value = agreement(p, 1, target, {**couplings, space: Plan(moved)}, list(p.blocks))
            slope += sign * value / 2e-6
        centred = step - step.mean(1, keepdim=True)
        expected = float((scores * centred).sum())
        assert slope == pytest.approx(expected, rel=1e-4, abs=1e-4)


@by_name
def test_scores_equal_a_loop_over_pairs_of_units(name):
    p = problem(name)
    couplings, target = random_couplings(p, 3, soft=False), p.states[0]
    space = next(iter(p.widths))
    scores = unit_scores(p, space, 2, target, couplings)
    slow = {True: torch.zeros_like(scores[0]), False: torch.zeros_like(scores[0])}
    for pair in p.blocks_of[space]:
        block = pair.target
        own = p.carried(2, block.tensor, couplings, but=pair).movedim(block.axis, 0)
        other = target[block.tensor].movedim(block.axis, 0)
        for a, row in enumerate(block.positions):
            for b, column in enumerate(block.positions):
                for slot, is_odd in enumerate(block.odd):
                    slow[bool(is_odd)][a, b] += (other[row[slot]] * own[column[slot]]).sum()
    if splits(p, space):
        torch.testing.assert_close(scores, torch.stack([slow[True], slow[False]]))
    else:
        torch.testing.assert_close(scores, (slow[True] + slow[False])[None])


@by_name
@pytest.mark.parametrize("long", [0, 1000], ids=["some units at a time", "some values at a time"])
def test_scores_are_the_same_however_they_are_cut(name, long, monkeypatch):
    p = problem(name)
    couplings, others = random_couplings(p, 3, soft=False), random_couplings(p, 4, soft=False)
    made = {tensor: p.sliced(0, tensor, others) for tensor in p.terms}
    target = {tensor: p.carried(0, tensor, others) for tensor in p.terms}
    whole = {space: unit_scores(p, space, 2, target, couplings) for space in p.widths}
    monkeypatch.setattr(slicing, "PIECE", 7)
    monkeypatch.setattr(scoring, "_THICK", 1)
    monkeypatch.setattr(scoring, "_LONG", long)
    for space, expected in whole.items():
        torch.testing.assert_close(unit_scores(p, space, 2, target, couplings), expected)
        torch.testing.assert_close(unit_scores(p, space, 2, made, couplings), expected)


def test_scores_of_odd_and_even_slots_are_apart_where_units_may_be_negated():
    apart = {name: [space for space in problem(name).widths if splits(problem(name), space)] for name in NAMES}
    assert not apart["lenet"]  # nothing may be negated
    assert not apart["mlp_tanh"]  # everything that a unit has would be
    assert apart["lstm"]  # some gates would not be
