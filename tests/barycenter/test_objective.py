"""The objective against its slow twin, and carrying by an index against carrying by a matrix."""

import functools

import pytest
import torch

from transfuse.barycenter import objective_of
from transfuse.barycenter.objective import averaged, means, term
from zoo_problems import problem_of, random_couplings, states_of

NAMES = ("mlp_tanh", "lenet", "resnet_identity", "lstm", "gru", "multihead_attention", "tied_autoencoder")


@functools.cache
def problem(name):
    return problem_of(name, states_of(name, 3))


by_name = pytest.mark.parametrize("name", NAMES)


@by_name
def test_carrying_by_an_index_equals_carrying_by_a_matrix(name):
    p = problem(name)
    hard, soft = (random_couplings(p, 0, soft=kind) for kind in (False, True))
    for tensor in p.states[1]:
        torch.testing.assert_close(p.carried(1, tensor, hard), p.carried(1, tensor, soft))


@by_name
def test_the_objective_is_the_mean_squared_distance_to_the_barycenter(name):
    p = problem(name)
    couplings = [random_couplings(p, model, soft=False) for model in range(3)]
    slow = 0.0
    for tensor in p.terms:
        carried = [p.carried(model, tensor, own) for model, own in enumerate(couplings)]
        slow += sum(float(((each - sum(carried) / 3) ** 2).sum()) / 3 for each in carried)
    assert objective_of(p, couplings) == pytest.approx(slow)


@by_name
@pytest.mark.parametrize("soft", [False, True])
def test_a_mean_and_its_part_in_the_objective_come_together(name, soft):
    p = problem(name)
    couplings = [random_couplings(p, model, soft=soft) for model in range(3)]
    for tensor in (tensor for tensor, values in p.states[0].items() if values.is_floating_point()):
        carried = [p.carried(model, tensor, own) for model, own in enumerate(couplings)]
        mean, part = averaged(p, tensor, couplings)
        torch.testing.assert_close(mean, sum(carried) / 3)
        alone = term(p, tensor, couplings) if tensor in p.terms else 0.0
        again, same = averaged(p, tensor, couplings, carried)
        if soft:  # products of matrices round as memory happens to be aligned
            assert [alone, same] == pytest.approx([part, part], rel=1e-12)
            torch.testing.assert_close(mean, again)
        else:
            assert part == alone == same
            assert torch.equal(mean, again)


def test_the_mean_of_equal_models_is_exactly_the_model():
    state = states_of("lenet", 1)[0]
    p = problem_of("lenet", [state, state, state])
    couplings = [p.start(model) for model in range(3)]
    for tensor, mean in means(p, couplings).items():
        assert torch.equal(mean, p.states[0][tensor])
    assert objective_of(p, couplings) == 0.0
