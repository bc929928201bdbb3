"""Procrustes: the best rotation is orthogonal, fixes what it must, and no other one scores more."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from transfuse.transport import procrustes

widths, seeds = st.integers(1, 7), st.integers(0, 10**6)


def gaussian(*shape, seed):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape))


def direction(width, seed, fixing):
    return gaussian(width, seed=seed + 1) if fixing else None


@given(widths, seeds, st.booleans())
def test_it_is_orthogonal_and_leaves_the_direction_where_it_is(width, seed, fixing):
    vector = direction(width, seed, fixing)
    turned = procrustes(gaussian(width, width, seed=seed), fixing=vector)
    torch.testing.assert_close(turned @ turned.T, torch.eye(width, dtype=torch.float64))
    if vector is not None:
        torch.testing.assert_close(turned @ vector, vector)


@given(widths, seeds, st.booleans())
def test_no_other_rotation_scores_more(width, seed, fixing):
    scores, vector = gaussian(width, width, seed=seed), direction(width, seed, fixing)
    best = float((procrustes(scores, fixing=vector) * scores).sum())
    for number in range(5):
        other = procrustes(gaussian(width, width, seed=seed + 7 + number), fixing=vector)
        assert float((other * scores).sum()) <= best + 1e-9


@given(widths, seeds, st.booleans())
def test_a_planted_rotation_is_found(width, seed, fixing):
    vector = direction(width, seed, fixing)
    planted = procrustes(gaussian(width, width, seed=seed + 3), fixing=vector)
    points = gaussian(width, 3 * width, seed=seed)
    torch.testing.assert_close(procrustes((planted @ points) @ points.T, fixing=vector), planted)


def test_the_score_is_the_sum_of_singular_values():
    scores = gaussian(6, 6, seed=0)
    best = float((procrustes(scores) * scores).sum())
    assert best == pytest.approx(float(torch.linalg.svdvals(scores).sum()))


def test_scores_keep_their_type():
    assert procrustes(torch.eye(3)).dtype is torch.float32
