"""Selection: the parents side by side are their mean; duplicates go; what is kept is told, and is fair to all."""

import copy
import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import transfuse
from transfuse.corrections import selection
from zoo import livened, named
from zoo_problems import outputs

X = torch.randn(400, 6, generator=torch.Generator().manual_seed(0)).double()


def network(seed, hidden=10, scale=1.0):
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(6, hidden), nn.Tanh(), nn.Linear(hidden, 8), nn.ReLU(), nn.Linear(8, 3)).double()
    with torch.no_grad():
        net[0].weight.mul_(2.0)
        net[4].weight.mul_(scale)
    return net


def selected(models, data=X, method="selection", **options):
    return transfuse.fuse(models, data[:3], data=data, terms="weights", correct=method, **options)


def answers(model, data):
    (found,) = outputs(model, data)
    return found.detach()


def distance(model, models, data=X, weights=None):
    """Squared distance of outputs to the mean of the models' outputs, relative to it."""
    shares = weights or [1 / len(models)] * len(models)
    mean = sum(share * answers(each, data) for share, each in zip(shares, models, strict=True))
    return float((answers(model, data) - mean).square().sum() / mean.square().sum())


SLOW = [pytest.param(name, marks=pytest.mark.long) for name in ("gru", "lstm_bidirectional", "rnn_tanh", "mlp_tanh")]
WIDE = ["lenet", "concatenated_hidden", "lstm", "mlp_batch_norm", *SLOW]


@pytest.mark.parametrize("name", WIDE)
def test_the_parents_side_by_side_are_the_mean_of_their_outputs(name):
    models = []
    for seed in range(3):
        torch.manual_seed(seed)
        models.append(livened(named(name).build()).double().eval())
    x = named(name).inputs().double()
    data = torch.cat([x + 0.1 * torch.randn_like(x) for _ in range(10)])
    layout = transfuse.trace(models[0], x)
    target = {space.name: 3 * space.units for space in layout.spaces}
    fusion = transfuse.fuse(
        models, x, data=data, layout=layout, target=target, weights=[0.5, 0.3, 0.2], terms="weights",
        correct="selection",
    )  # fmt: skip
    assert distance(fusion.model, models, x, [0.5, 0.3, 0.2]) < 1e-8
    assert all(counts == (units,) * 3 for counts, units in zip(
        fusion.correction.kept.values(), (space.units for space in layout.spaces), strict=True))  # fmt: skip


def test_a_network_and_its_copy_give_the_network_back():
    model = network(0)
    fusion = selected([model, copy.deepcopy(model)])
    assert distance(fusion.model, [model]) < 1e-6


def test_a_target_that_is_wider_than_all_is_filled_with_nothing():
    models = [network(0), network(1)]
    layout = transfuse.trace(models[0], X[:3])
    fusion = selected(models, layout=layout, target={"0.out": 25, "2.out": 16})
    assert distance(fusion.model, models) < 1e-8
    assert fusion.model[0].weight[20:].abs().max() < 1e-6


def test_models_of_other_widths_are_selected_from():
    models = [network(0, hidden=7), network(1, hidden=14)]
    fusion = selected(models, target=network(2, hidden=12))
    assert sum(fusion.correction.kept["0.out"]) == 12
    averaged = selected(models, method="refit", target=network(2, hidden=12))
    assert distance(fusion.model, models) < 0.5 * distance(averaged.model, models)


def test_the_order_of_parents_does_not_matter():
    models = [network(0), network(1), network(2)]
    one, other = selected(models), selected(models[::-1])
    torch.testing.assert_close(answers(one.model, X), answers(other.model, X), rtol=1e-3, atol=1e-4)


def test_it_is_nearer_than_random_units_and_than_averages(monkeypatch):
    models = [network(0), network(1)]
    chosen, averaged = selected(models), selected(models, method="refit")
    generator = torch.Generator().manual_seed(0)
    monkeypatch.setattr(
        selection, "eliminated",
        lambda gram, weights, keep, size: torch.randperm(len(gram), generator=generator)[:keep].sort().values,
    )  # fmt: skip
    random = [distance(selected(models).model, models) for _ in range(3)]
    assert distance(chosen.model, models) < 0.7 * min(random)
    assert distance(chosen.model, models) < 0.7 * distance(averaged.model, models)


def test_proportions_count():
    models = [network(0), network(1)]
    alone = selected(models, weights=[1, 0])
    assert alone.correction.kept == {"0.out": (10, 0), "2.out": (8, 0)}
    assert distance(alone.model, models, weights=[1.0, 0.0]) < 1e-8
    heavy = selected(models, weights=[0.9, 0.1])
    assert distance(heavy.model, models, weights=[0.9, 0.1]) < distance(heavy.model, models)
    assert heavy.correction.kept["0.out"][0] > 5


def test_parents_count_by_proportion_and_not_by_size():
    models = [network(0), network(1)]
    with torch.no_grad():  # its second layer shouts, and nothing else changes
        models[0][2].weight.mul_(30.0)
        models[0][2].bias.mul_(30.0)
        models[0][4].weight.div_(30.0)
    layout = transfuse.trace(models[0], X[:3])
    with pytest.warns(transfuse.CollapseWarning, match=r"0\.out: [01] of 10 units are of model 2"):
        transfuse.correct(models[0], X, models, method="free_selection", layout=layout)
    fair = transfuse.correct(models[0], X, models, method="selection", layout=layout).correction
    assert 3 <= fair.kept["0.out"][0] <= 7
    assert f"units kept of each model: 0.out {fair.kept['0.out'][0]} + " in str(fair)


def test_a_collapse_is_warned_of():
    models = [network(0), network(1, scale=1e-3)]
    with pytest.warns(transfuse.CollapseWarning, match=r"0\.out: 0 of 10 units are of model 2"):
        selected(models, method="free_selection")
    with warnings.catch_warnings():
        warnings.simplefilter("error", transfuse.CollapseWarning)
        selected([network(0), network(1)])


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.up, self.down, self.read = (nn.Linear(*sizes) for sizes in ((6, 8), (8, 12), (12, 8), (8, 3)))

    def forward(self, x):
        x = self.stem(x)
        return self.read(torch.tanh(x + self.down(F.relu(self.up(x)))))


def test_residual_streams_are_averaged_and_inner_units_selected():
    models = []
    for seed in range(2):
        torch.manual_seed(seed)
        models.append(Residual().double())
    fusion = selected(models)
    assert set(fusion.correction.kept) == {"up.out"}
    plain = selected(models, method="none")
    assert distance(fusion.model, models) < 0.5 * distance(plain.model, models)
    tried = selected(models, method="auto").correction.disagreement
    assert list(tried) == ["none", "selection", "refit"]  # compared, though selection leaves little


class Tutorial(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2, self.fc = nn.Conv2d(1, 6, 3), nn.Conv2d(6, 8, 3), nn.Linear(8 * 16, 4)

    def forward(self, x):
        x = F.relu(self.conv2(F.max_pool2d(F.relu(self.conv1(x)), 2)))
        return {"logits": self.fc(x.view(-1, 8 * 16))}


def test_a_network_that_views_its_images_is_selected_from():
    models = []
    for seed in range(2):
        torch.manual_seed(seed)
        models.append(Tutorial())
    x = torch.randn(150, 1, 14, 14, generator=torch.Generator().manual_seed(3))
    fusion = selected(models, x)
    assert {space: sum(counts) for space, counts in fusion.correction.kept.items()} == {"conv1.out": 6, "conv2.out": 8}
    with torch.no_grad():
        own, *theirs = (model(x)["logits"] for model in (fusion.model, *models))
    mean = sum(theirs) / 2
    assert float((own - mean).square().sum() / mean.square().sum()) < 0.15


def test_the_layout_is_asked_for():
    fusion = selected([network(0), network(1)], method="none")
    with pytest.raises(transfuse.InputError, match=r"selection needs to know which axes.*layout=fusion\.layout"):
        transfuse.correct(fusion.model, X, fusion.aligned, method="selection")
    done = transfuse.correct(fusion.model, X, fusion.aligned, method="selection", layout=fusion.layout)
    assert done.correction.method == "selection"


def test_auto_tells_what_keeping_a_parent_would_do():
    models = [network(0), network(0)]
    with torch.no_grad():
        models[1][4].weight.copy_(network(1)[4].weight)  # the same features, and another last layer
    told = transfuse.fuse(models, X[:3], data=X).correction
    assert told.control == pytest.approx(0.0, abs=1e-5)
    assert "keeping model" in str(told)
    assert "is as good on these inputs" in str(told)
    apart = transfuse.fuse([network(0), network(1)], X[:3], data=X).correction
    assert apart.control > apart.disagreement[apart.method]
    assert "is as good" not in str(apart)


class Branching(nn.Module):
    """Applies one layer or another, by a weight of its own."""

    def __init__(self, first):
        super().__init__()
        self.up, self.one, self.other, self.down = nn.Linear(6, 8), nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 3)
        self.down.bias.data[0] = 1.0 if first else -1.0

    def forward(self, x):
        h = self.up(x).relu()
        return self.down((self.one(h) if self.down.bias[0].item() > 0 else self.other(h)).relu())


@pytest.mark.filterwarnings("ignore::transfuse.TraceWarning")
def test_of_networks_that_go_different_ways_nothing_is_selected():
    torch.manual_seed(0)
    models = [Branching(first).double() for first in (True, False)]
    assert selected(models).correction.kept == {}
