"""Groups of like units: against all groupings, planted ones, and exchanges one by one."""

from itertools import permutations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from transfuse.transport import grouped
from transfuse.transport.grouping import exchange_gains


def inner(size, seed):
    units = np.random.default_rng(seed).standard_normal((size, 4))
    return units @ units.T


def within(similarity, groups):
    """The sum of similarities of different units of a group, one pair at a time."""
    pairs = [(i, j) for i in range(len(groups)) for j in range(len(groups)) if i != j and groups[i] == groups[j]]
    return sum(similarity[i, j] for i, j in pairs)


@given(size=st.integers(1, 40), part=st.floats(0.05, 1), seed=st.integers(0, 10**6))
def test_groups_are_even_and_no_worse_than_neighbours(size, part, seed):
    count = max(1, round(part * size))
    similarity = inner(size, seed)
    groups = grouped(similarity, count)
    sizes = np.bincount(groups, minlength=count)
    assert sizes.max() - sizes.min() <= 1
    assert within(similarity, groups) >= within(similarity, np.arange(size) * count // size) - 1e-9
    assert exchange_gains(similarity, groups, count).max() <= 1e-6


@settings(max_examples=20)
@given(size=st.integers(2, 7), count=st.integers(1, 3), seed=st.integers(0, 10**6))
def test_gains_are_those_of_exchanges_made(size, count, seed):
    similarity = inner(size, seed)
    groups = np.random.default_rng(seed).permutation(np.arange(size) * count // size)
    gains = exchange_gains(similarity, groups, count)
    for i, j in permutations(range(size), 2):
        swapped = groups.copy()
        swapped[[i, j]] = swapped[[j, i]]
        np.testing.assert_allclose(2 * gains[i, j], within(similarity, swapped) - within(similarity, groups), atol=1e-9)


@given(count=st.integers(1, 12), copies=st.integers(2, 3), seed=st.integers(0, 10**6))
def test_planted_copies_are_found(count, copies, seed):
    rng = np.random.default_rng(seed)
    units = np.eye(count) * rng.uniform(1, 2, count)
    labels = rng.permutation(np.repeat(np.arange(count), copies))
    groups = grouped(units[labels] @ units[labels].T, count)
    assert len({(a, b) for a, b in zip(labels, groups, strict=True)}) == count
