"""Carrying piece by piece gives what carrying as a whole does."""

import pytest
import torch

from transfuse.barycenter import objective_of
from transfuse.layout import slicing
from zoo_problems import problem_of, random_couplings, states_of

NAMES = ("mlp_tanh", "lenet", "resnet_identity", "lstm", "multihead_attention")


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_pieces_make_the_whole(name, soft, monkeypatch):
    p = problem_of(name, states_of(name, 3))
    couplings = [random_couplings(p, seed, soft=soft and seed == 1) for seed in range(3)]

    def found():
        return [p.carried(1, tensor, couplings[1]) for tensor in p.states[1]], objective_of(p, couplings)

    whole, objective = found()
    monkeypatch.setattr(slicing, "PIECE", 7)
    parts, again = found()
    for one, other in zip(whole, parts, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)
    assert again == pytest.approx(objective, rel=1e-12)


def test_pieces_cover_every_row_once():
    for shape in ((5, 2**16), (1, 2**20), (3, 0), (7,), (0, 4)):
        rows = [row for piece in slicing.pieces(shape) for row in range(shape[0])[piece]]
        assert rows == list(range(shape[0]))
