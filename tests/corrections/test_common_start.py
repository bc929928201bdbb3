"""Parents that were fine-tuned from one network: their average is left as it is, unless a correction is asked for."""

import copy

import pytest
import torch
from torch import nn

import transfuse
from transfuse.corrections.common_start import NEAR, apart
from zoo_problems import moved_twin

X = torch.randn(200, 6, generator=torch.Generator().manual_seed(0))
HALF = [0.5, 0.5]


def network(seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 4))


def tuned(start, seed, far=0.1):
    """A network some way from a start, by a part of the size of each weight."""
    result, generator = copy.deepcopy(start), torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for tensor in result.parameters():
            tensor += far * tensor.std() * torch.randn(tensor.shape, generator=generator)
    return result


def test_equal_networks_are_not_apart_and_random_ones_are_by_one():
    wide = [nn.Linear(500, 500) for _ in range(3)]
    assert apart([wide[0], wide[0]], HALF) == 0
    assert apart(wide[:2], HALF) == pytest.approx(1, abs=0.02)
    assert apart(wide[:2], [0.9, 0.1]) == pytest.approx(1, abs=0.05)
    assert apart(wide, [1 / 3] * 3) == pytest.approx(1, abs=0.02)


def test_the_order_of_networks_does_not_matter_nor_does_their_common_scale():
    one, other = network(0), network(1)
    assert apart([one, other], [0.3, 0.7]) == pytest.approx(apart([other, one], [0.7, 0.3]))
    before = apart([one, other], HALF)
    with torch.no_grad():
        for model in (one, other):
            model[2].weight *= 10
    assert apart([one, other], HALF) == pytest.approx(before)


def test_a_large_weight_that_all_share_does_not_hide_the_others():
    one, other = (nn.Sequential(nn.Embedding(1000, 16), nn.Linear(16, 16)) for _ in range(2))
    other[0].load_state_dict(one[0].state_dict())
    assert apart([one, other], HALF) > 0.8


@pytest.mark.parametrize("data", [None, X])
def test_auto_leaves_the_average_of_networks_from_one_start(data):
    start = network(0)
    models = [tuned(start, 1), tuned(start, 2)]
    fusion = transfuse.fuse(models, X[:3], data=data)
    plain = transfuse.fuse(models, X[:3], data=data, correct="none")
    torch.testing.assert_close(fusion.model.state_dict(), plain.model.state_dict(), rtol=0, atol=0)
    assert fusion.correction.method == "none"
    assert "as networks from a common start do" in str(fusion.correction)


def test_a_correction_is_made_if_it_is_asked_for_or_if_starts_differ():
    start = network(0)
    models = [tuned(start, 1), tuned(start, 2)]
    assert transfuse.fuse(models, X[:3], data=X, correct="refit").correction.method == "refit"
    assert transfuse.fuse([network(0), network(1)], X[:3], data=X).correction.method != "none"


def test_a_network_whose_units_were_moved_is_as_near_as_before():
    start = network(0)
    layout = transfuse.trace(start, X[:3])
    models = [tuned(start, 1), moved_twin(tuned(start, 2), layout, 0)]
    assert apart(models, HALF) > NEAR
    assert transfuse.fuse(models, X[:3], layout=layout).correction.method == "none"


def test_correct_goes_by_the_same_rule():
    start = network(0)
    models = [tuned(start, 1), tuned(start, 2)]
    fusion = transfuse.fuse(models, X[:3], correct="none")
    assert transfuse.correct(fusion.model, X, fusion.aligned).correction.method == "none"


class Spectral(nn.Module):
    """A layer whose weights are complex, between real ones: a Fourier neural operator in small."""

    def __init__(self):
        super().__init__()
        self.lift, self.project = nn.Linear(1, 6), nn.Sequential(nn.Linear(6, 9), nn.GELU(), nn.Linear(9, 1))
        self.weight = nn.Parameter(torch.randn(6, 6, 4, dtype=torch.cfloat) / 6)

    def forward(self, x):
        waves = torch.fft.rfft(self.lift(x[..., None]).transpose(1, 2))
        waves = torch.einsum("bix,iox->box", waves, self.weight)
        return self.project(torch.relu(torch.fft.irfft(waves, n=x.size(1))).transpose(1, 2)).squeeze(-1)


def test_complex_weights_are_apart_by_their_sizes():
    one, other = (nn.ParameterList([torch.randn(200, 200, dtype=torch.cfloat)]) for _ in range(2))
    assert apart([one, one], HALF) == 0
    assert apart([one, other], HALF) == pytest.approx(1, abs=0.02)


def test_networks_with_complex_weights_are_fused_with_data():
    torch.manual_seed(0)
    model = Spectral()
    fusion = transfuse.fuse([model, moved_twin(model, transfuse.trace(model, X[:3]), 0)], X[:3], data=X)
    torch.testing.assert_close(fusion.model(X), model(X), rtol=1e-4, atol=1e-5)
