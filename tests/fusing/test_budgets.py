"""Budgets: widths within what is allowed, no unit more fits, and laws at both ends."""

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

import transfuse
from transfuse.errors import InputError
from transfuse.fusing.budgets import Cost, Limit, cost_of, groups_of, within
from transfuse.layout import parse
from transfuse.modules import Arguments, model_state
from zoo import livened

X = torch.randn(3, 2, 8, 8, generator=torch.Generator().manual_seed(0))


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.norm = nn.Conv2d(2, 6, 3, padding=1), livened(nn.BatchNorm2d(6))
        self.inner, self.back = nn.Conv2d(6, 5, 3, padding=1), nn.Conv2d(5, 6, 3, padding=1)
        self.read = nn.Linear(6, 3)

    def forward(self, x):
        x = torch.relu(self.norm(self.up(x)))
        return self.read((x + self.back(torch.relu(self.inner(x)))).mean((2, 3)))


def network(seed):
    torch.manual_seed(seed)
    return Residual().eval()


@pytest.fixture(scope="module")
def pair():
    return [network(0), network(1)]


@pytest.fixture(scope="module")
def layout(pair):
    return transfuse.trace(pair[0], X)


def fused(pair, layout, budget, **options):
    return transfuse.fuse(pair, X, layout=layout, budget=budget, **{"correct": "none", **options})


def cost_on(layout, amount):
    return Cost(layout, dict.fromkeys(layout.tensors, 1), Limit(amount))


def size(model):
    return sum(each.numel() for each in model.parameters())


def test_the_models_own_size_gives_their_widths(pair, layout):
    found = fused(pair, layout, size(pair[0]))
    assert found.budget.widths == layout.units
    assert found.budget.cost == size(found.model) == size(pair[0])


def test_the_size_of_all_side_by_side_gives_the_sum_of_the_widths(pair, layout):
    whole = transfuse.fuse(pair, X, layout=layout, target=2.0, correct="none")
    found = fused(pair, layout, size(whole.model))
    assert found.budget.widths == {name: 2 * width for name, width in layout.units.items()}
    assert fused(pair, layout, 10 * size(whole.model)).budget.widths == found.budget.widths  # no wider than that


@pytest.mark.long
@pytest.mark.parametrize("factor", [1.1, 1.4, 2.3])
def test_it_is_never_above_the_budget_and_no_unit_more_fits(pair, layout, factor):
    found = fused(pair, layout, f"{factor}x")
    spent, cost = found.budget, cost_of(pair[0], layout, Limit(1), None)
    assert size(found.model) == spent.cost == cost.at(spent.widths) <= spent.limit == int(factor * size(pair[0]))
    for space, width in spent.widths.items():
        assert width == 2 * layout.units[space] or cost.at({**spent.widths, space: width + 1}) > spent.limit


def test_more_is_spent_of_a_larger_budget():
    torch.manual_seed(0)
    layout = parse("{spaces: {a: 7, b: 3}, tensors: {up: [a, 4], mid: [b, < a, 9], down: [2, < b]}}")
    apart = {"a": torch.rand(2, 7), "b": torch.rand(2, 3)}
    limits = range(223, 1500, 7)
    costs = [within(cost_on(layout, amount), layout.units, apart).cost for amount in limits]
    assert costs == sorted(costs)
    assert costs[0] == cost_on(layout, 1).at(layout.units)
    assert costs[-1] > 5 * costs[0]


def test_the_unit_that_matches_worst_stays_apart_first():
    layout = parse("{spaces: {a: 2, b: 2}, tensors: {up: [a, 4], mid: [b, < a], down: [2, < b]}}")
    apart = {"a": torch.tensor([[0.1, 0.2]]), "b": torch.tensor([[0.3, 0.05]])}
    assert within(cost_on(layout, 20), layout.units, apart).widths == {"a": 2, "b": 3}
    assert within(cost_on(layout, 27), layout.units, apart).widths == {"a": 3, "b": 3}


def test_a_space_whose_networks_differ_gets_the_units():
    torch.manual_seed(0)
    one = nn.Sequential(nn.Linear(3, 6), nn.ReLU(), nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 2))
    other = nn.Sequential(nn.Linear(3, 6), nn.ReLU(), nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 2))
    other.load_state_dict(one.state_dict())
    nn.init.normal_(other[4].weight)
    found = transfuse.fuse([one, other], X[:, 0, 0, :3], budget="1.2x", correct="none")
    assert found.budget.widths["0.out"] == 6 < found.budget.widths["2.out"]


@pytest.mark.long
def test_operations_are_those_that_a_run_makes(pair, layout):
    cost = cost_of(pair[0], layout, Limit(1, "operations"), Arguments((X,)))
    for factor in (1.0, 1.5):
        model = transfuse.fuse(pair, X, layout=layout, target=factor, correct="none").model
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            model(X)
        assert 2 * len(X) * cost.at(layout.widths(model_state(model))) == counter.get_total_flops()


def test_operations_of_a_recurrent_layer_count_every_step():
    model, x = nn.LSTM(4, 5, batch_first=True), torch.randn(2, 7, 4)
    cost = cost_of(model, transfuse.trace(model, x), Limit(1, "operations"), Arguments((x,)))
    assert cost.at(cost.layout.units) == 7 * (20 * 4 + 20 * 5)


def test_a_budget_of_operations_is_kept_and_told(pair, layout):
    found = fused(pair, layout, "1.5x operations")
    assert found.budget.unit == "operations"
    assert f"budget: {found.budget.cost:,} of {found.budget.limit:,} operations" in str(found)
    assert found.budget.widths != layout.units


@pytest.mark.long
def test_three_models_have_room_for_all(pair, layout):
    found = fused([*pair, network(2)], layout, "100x")
    assert found.budget.widths == {name: 3 * width for name, width in layout.units.items()}


def test_spaces_that_cannot_grow_by_one_stay_and_woven_ones_grow_together():
    layout = parse(
        "{spaces: {a: 2, b: 2, c: 3, d: 2}, tensors: {up: ['(a b)', 1], norm: [c], list: ['d[1 0]']},"
        " reduced: {c: averaged by a norm}}"
    )
    assert groups_of(layout, layout.units) == [frozenset({"a", "b"})]


@pytest.mark.parametrize(
    ("budget", "text"),
    [
        (10, "budget is 10 parameters, but model 1 has"),
        ("0.5x operations", "for a narrower one pass target"),
        ("many", "budget is 'many'"),
        (1.5, "budget is 1.5"),
        (0, "budget is 0"),
    ],
)
def test_what_cannot_be_is_refused(pair, layout, budget, text):
    with pytest.raises(InputError, match=text):
        fused(pair, layout, budget)


def test_a_target_beside_it_is_refused(pair, layout):
    with pytest.raises(InputError, match="target and budget both say"):
        fused(pair, layout, "1.5x", target=1.5)


def test_models_of_other_widths_are_refused():
    models = [nn.Sequential(nn.Linear(2, width), nn.ReLU(), nn.Linear(width, 2)) for width in (3, 4)]
    with pytest.raises(InputError, match="models of the same widths"):
        transfuse.fuse(models, torch.randn(2, 2), budget="2x")
