"""Residual streams in a wider target: alike units share a place, others keep their own."""

import pytest
import torch
from torch import nn

import transfuse
from transfuse.corrections.placing import as_correlations, placed_units

X = torch.randn(200, 3, 6, 6)


class Residual(nn.Module):
    """A small residual network with batch norms, as people write them."""

    def __init__(self, width=6, inner=5):
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
        self.one, self.norm1 = nn.Conv2d(width, inner, 3, padding=1, bias=False), nn.BatchNorm2d(inner)
        self.two, self.norm2 = nn.Conv2d(inner, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
        self.head = nn.Linear(width, 4)

    def forward(self, x):
        x = torch.relu(self.norm(self.stem(x)))
        inner = torch.relu(self.norm1(self.one(x)))
        x = torch.relu(x + self.norm2(self.two(inner)))
        return self.head(x.mean((2, 3)))


def trained(seed, **widths):
    """A network whose norms have seen inputs, and whose gains and biases are no longer ones and zeros."""
    torch.manual_seed(seed)
    model = Residual(**widths)
    for norm in (model.norm, model.norm1, model.norm2):
        nn.init.uniform_(norm.weight, 0.5, 1.5)
        nn.init.normal_(norm.bias)
    for _ in range(20):
        model(X)
    return model.eval()


@pytest.mark.parametrize(
    ("count", "width"), [(2, 14), *(pytest.param(*each, marks=pytest.mark.long) for each in ((2, 12), (3, 18)))]
)
def test_with_a_place_for_every_unit_the_network_is_the_mean_of_its_parents(count, width):
    models = [trained(seed) for seed in range(count)]
    target = {"stem.out": width, "one.out": 5 * count}
    fusion = transfuse.fuse(models, X[:2], target=target, data=X, correct="selection")
    mean = sum(model(X) for model in models) / count
    torch.testing.assert_close(fusion.model(X), mean, rtol=1e-3, atol=1e-4)
    assert "streams with room for units of all models: stem.out" in fusion.correction.note


@pytest.mark.long
def test_the_wider_the_stream_the_nearer_the_mean():
    models = [trained(seed) for seed in range(2)]
    mean = sum(model(X) for model in models) / 2
    made = [transfuse.fuse(models, X[:2], target=factor, data=X, correct="selection") for factor in (1.0, 1.5, 2.0)]
    apart = [float((fusion.model(X) - mean).detach().square().sum()) for fusion in made]
    assert apart[0] > apart[1] > 10 * apart[2]


@pytest.mark.parametrize("widths", [[4, 4], [4, 3], [3, 4, 5]])
@pytest.mark.parametrize("room", [0.0, 0.5, 1.0])
def test_every_place_is_taken_and_no_parent_stands_twice_at_one(widths, room):
    least, most = max(widths), sum(widths)
    width = round(least + room * (most - least))
    torch.manual_seed(0)
    values = torch.randn(50, most).double()
    weights = [1 / len(widths)] * len(widths)
    found = placed_units(as_correlations(values.T @ values), widths, weights, width)
    assert {int(place) for each in found for place in each.places} == set(range(width))
    for each, own in zip(found, widths, strict=True):
        assert len(each.places.unique()) == own
    total = torch.zeros(width).double()
    for each in found:
        total[each.places] += each.shares
    torch.testing.assert_close(total, torch.ones(width).double())


def test_planted_copies_share_a_place():
    torch.manual_seed(0)
    own = torch.randn(100, 5).double()
    other = torch.cat([own[:, [3, 1]], torch.randn(100, 3).double()], 1)
    values = torch.cat([own, other], 1)
    one, two = placed_units(as_correlations(values.T @ values), [5, 5], [0.5, 0.5], 8)
    assert one.places.tolist() == [0, 1, 2, 3, 4]
    assert two.places.tolist()[:2] == [3, 1]
    assert two.shares.tolist()[:2] == [0.5, 0.5]
    assert two.shares.tolist()[2:] == [1.0, 1.0, 1.0]
