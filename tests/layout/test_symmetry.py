"""Symmetries: elements belong to their group, undo each other, and the best one is the best of all."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from transfuse import LayoutError, Permutation, Rotation, Symmetry

permuting = st.builds(Symmetry, st.booleans(), st.booleans())
rotating = st.builds(lambda fixing: Symmetry(rotations=True, fixing_mean=fixing), st.booleans())
symmetries = st.one_of(permuting, rotating)


def drawn(symmetry: Symmetry, width: int, seed: int) -> Permutation:
    return symmetry.random_element(width, np.random.default_rng(seed))


@given(symmetries, st.integers(1, 9), st.integers(0, 10**6))
def test_a_random_element_belongs_to_its_symmetry_and_so_does_its_inverse(symmetry, width, seed):
    element = drawn(symmetry, width, seed)
    assert symmetry.objection(element, width) == ""
    assert symmetry.objection(element.inverse(), width) == ""


@given(symmetries, st.integers(1, 9), st.integers(0, 10**6))
def test_an_element_and_its_inverse_are_the_identity(symmetry, width, seed):
    element = drawn(symmetry, width, seed)
    identity = torch.eye(width, dtype=torch.float64)
    torch.testing.assert_close(element.signed @ element.inverse().signed, identity)
    torch.testing.assert_close(element.inverse().signed @ element.signed, identity)
    torch.testing.assert_close(element.relative_to(element).signed, identity)
    moved = drawn(Symmetry(), width, seed + 1)
    torch.testing.assert_close(moved.relative_to(element).signed, element.inverse().signed @ moved.signed)


@given(symmetries, st.integers(1, 9), st.integers(0, 10**6))
def test_carrying_is_the_product_with_the_matrix_and_consumers_undo_what_producers_do(symmetry, width, seed):
    element = drawn(symmetry, width, seed)
    rng = np.random.default_rng(seed)
    units, readers = (torch.from_numpy(rng.standard_normal((width, 3))) for _ in range(2))
    produced = element.carry(units, odd=True, produced=True)
    torch.testing.assert_close(produced, element.signed @ units)
    consumed = element.carry(readers, odd=True, produced=False)
    torch.testing.assert_close(consumed.T @ produced, readers.T @ units)
    even = units if isinstance(element, Rotation) else units[element.order]
    torch.testing.assert_close(element.carry(units, odd=False, produced=True), even)


@given(rotating, st.integers(1, 6), st.integers(0, 10**6), st.integers(1, 2))
def test_the_best_rotation_scores_at_least_as_much_as_random_ones_and_as_permutations(symmetry, width, seed, kinds):
    scores = torch.from_numpy(np.random.default_rng(seed).standard_normal((kinds, width, width)))
    scores[1:] = 1.0  # gains that are folded are all alike
    best = symmetry.best_element(scores).agreement(scores)
    for number in range(4):
        assert drawn(symmetry, width, seed + number).agreement(scores) <= best + 1e-9
        assert drawn(Symmetry(), width, seed + number).agreement(scores) <= best + 1e-9


def test_what_does_not_belong_to_rotations_is_told():
    free, fixing = Symmetry(rotations=True), Symmetry(rotations=True, fixing_mean=True)
    turned = Rotation(torch.tensor([[0.6, -0.8], [0.8, 0.6]]))
    assert free.objection(turned, 2) == ""
    assert "does not fix the mean" in fixing.objection(turned, 2)
    assert "not rotated" in Symmetry(signs=True).objection(turned, 2)
    assert "not orthogonal" in free.objection(Rotation(2 * turned.matrix), 2)
    assert "expected numbers [3, 3]" in free.objection(turned, 3)
    assert fixing.objection(Permutation([1, 0]), 2) == ""
    assert "not be negated" in fixing.objection(Permutation([1, 0], [1.0, -1.0]), 2)


@pytest.mark.parametrize("flags", [
    {"fixing_mean": True}, {"rotations": True, "scales": True}, {"rotations": True, "fixing_mean": True, "signs": True},
])  # fmt: skip
def test_symmetries_that_contradict_themselves_are_refused(flags):
    with pytest.raises(LayoutError, match="rotations"):
        Symmetry(**flags)


@given(symmetries)
def test_words_are_read_back(symmetry):
    assert Symmetry.of_words(" ".join(symmetry.words)) == symmetry
    assert Symmetry.of_words("rotations of the mean") is None


@given(st.integers(1, 5), st.integers(0, 10**6), st.integers(1, 2), st.booleans(), st.booleans())
def test_the_best_element_is_the_best_of_all(width, seed, kinds, allowed, wanted):
    scores = torch.from_numpy(np.random.default_rng(seed).standard_normal((kinds, width, width)))
    best = Symmetry(signs=allowed).best_element(scores, signs=wanted)
    signs = (-1.0, 1.0) if allowed and wanted else (1.0,)
    every = (
        Permutation(list(order), list(factor))
        for order in itertools.permutations(range(width))
        for factor in itertools.product(signs, repeat=width)
    )
    assert best.agreement(scores) == pytest.approx(max(each.agreement(scores) for each in every))


@pytest.mark.parametrize(
    ("factor", "reorders", "rescales", "keeps_norms"),
    [([1.0, 1.0], False, False, True), ([1.0, -1.0], False, True, True), ([1.0, 2.0], False, True, False)],
)
def test_an_element_says_what_it_does(factor, reorders, rescales, keeps_norms):
    element = Permutation([0, 1], factor)
    assert (element.reorders, element.rescales, element.keeps_norms) == (reorders, rescales, keeps_norms)
    assert element.is_identity is not (reorders or rescales)
    assert Permutation([1, 0], factor).reorders
