"""`correct`: a corrected copy that says what was done; models untouched; clear errors."""

import copy

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import transfuse
from transfuse.corrections import CORRECTIONS, ChosenCorrection, Uncorrected, Units, candidates, choose
from transfuse.corrections.task import Task
from transfuse.errors import InputError
from zoo import livened, named
from zoo_problems import outputs

X = torch.randn(200, 4, generator=torch.Generator().manual_seed(0))


def network(seed, **options):
    torch.manual_seed(seed)
    norm = livened(nn.BatchNorm1d(6))
    layers = [nn.Linear(4, 6, **options), norm, nn.ReLU(), nn.Linear(6, 5, **options), nn.Tanh(), nn.Linear(5, 3)]
    return nn.Sequential(*layers)


@pytest.fixture(scope="module")
def fusion():
    return transfuse.fuse([network(0), network(1)], X[:2], correct="none")


def numbers(model, x=X):
    with torch.no_grad():
        return copy.deepcopy(model).eval()(x)


@pytest.mark.parametrize("method", [name for name in CORRECTIONS if not CORRECTIONS[name].needs_units])
def test_an_unfused_network_stays_as_it_is(method):
    model = network(0)
    if method == "batchnorm":  # as after training: its statistics are those of the data
        model = transfuse.correct(model, [X], method=method)
    result = transfuse.correct(model, [X], [model, model], method=method)
    torch.testing.assert_close(numbers(result), numbers(model), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("method", ["repair", "rescale", "closed_form", "refit"])
@pytest.mark.parametrize("name", ["resnet_pre_activation", "densenet", "lstm_bidirectional", "transformer_post_norm"])
def test_an_unfused_network_of_the_zoo_stays_as_it_is(method, name):
    torch.manual_seed(0)
    model, x = named(name).build().double(), named(name).inputs().double()
    result = transfuse.correct(model, [x, x + 0.1], [model, model], method=method)
    torch.testing.assert_close(outputs(result, x), outputs(model, x), rtol=1e-4, atol=1e-6)


@pytest.mark.long
@pytest.mark.parametrize("method", CORRECTIONS)
def test_models_are_untouched_and_the_copy_is_of_their_kind(fusion, method):
    models = [fusion.model, *fusion.aligned]
    for model in models:
        model.train()
    before = [copy.deepcopy(model.state_dict()) for model in models]
    random = torch.get_rng_state()
    result = transfuse.correct(fusion.model, X, fusion.aligned, method=method, layout=fusion.layout)
    assert torch.equal(torch.get_rng_state(), random)
    for model, state in zip(models, before, strict=True):
        torch.testing.assert_close(model.state_dict(), state, rtol=0, atol=0)
        assert model.training
        assert all(parameter.grad is None and parameter.requires_grad for parameter in model.parameters())
    assert result.training
    assert all(parameter.requires_grad for parameter in result.parameters())
    assert result.correction.method == method
    again = transfuse.correct(fusion.model, X, fusion.aligned, method=method, layout=fusion.layout)
    torch.testing.assert_close(result.state_dict(), again.state_dict(), rtol=0, atol=0)
    shuffling = DataLoader(TensorDataset(X), 50, shuffle=True)
    given = {"method": method, "layout": fusion.layout}
    one, other = (transfuse.correct(fusion.model, shuffling, fusion.aligned, **given) for _ in range(2))
    torch.testing.assert_close(one.state_dict(), other.state_dict(), rtol=0, atol=0)


AUTOMATIC = [name for name, row in CORRECTIONS.items() if row.automatic]


@pytest.mark.parametrize(("clear", "tried"), [(0.0, AUTOMATIC), (1.0, AUTOMATIC[-1:])])
def test_auto_takes_the_one_that_is_nearest_to_the_parents_mean_and_says_so(fusion, monkeypatch, clear, tried):
    monkeypatch.setattr(choose, "CLEAR", clear)
    result = transfuse.correct(fusion.model, X, fusion.aligned, layout=fusion.layout)
    said = result.correction
    assert set(said.disagreement) == {"none", *tried}
    assert said.disagreement[said.method] == min(said.disagreement.values()) < said.disagreement["none"]
    assert f"{said.method}: distance of outputs" in str(said)
    task = Task(fusion.model, fusion.aligned, [0.5, 0.5], transfuse.activations.Batches.of(X))
    task.network.eval()
    for parent in fusion.aligned:
        parent.eval()
    assert task.disagreement(result.eval()) == pytest.approx(said.disagreement[said.method])


@pytest.mark.parametrize(("drawn", "tried"), [(False, ["selection"]), (True, ["refit", "selection"])])
def test_on_drawn_images_a_correction_must_leave_less_before_no_more_is_tried(fusion, monkeypatch, drawn, tried):
    monkeypatch.setattr(choose, "CLEAR", 1.0)
    monkeypatch.setattr(choose, "CLEAR_OF_DRAWN", 0.0)
    batches = transfuse.activations.Batches.of(X)
    units = Units(fusion.layout, fusion.aligned)
    start = Uncorrected(fusion.model, fusion.aligned, [0.5, 0.5], batches, units=units, drawn=drawn)
    _, done = ChosenCorrection.of("auto").made(start, lambda *stage: None, data=False)
    assert set(done.disagreement) == {"none", *tried}


def test_the_weight_of_the_parents_counts(fusion):
    result = transfuse.correct(fusion.model, [X], fusion.aligned, weights=[1, 0], method="repair")
    torch.testing.assert_close(numbers(result).std(0), numbers(fusion.aligned[0]).std(0), rtol=1e-3, atol=1e-4)


def test_a_bias_is_added_only_if_allowed():
    parents = [nn.Sequential(nn.Linear(4, 5, bias=False), nn.ReLU(), nn.Linear(5, 3, bias=False)) for _ in range(2)]
    fused = copy.deepcopy(parents[0])
    without = transfuse.correct(fused, X, parents, method="repair")
    assert without[0].bias is None
    result = transfuse.correct(fused, X, parents, method="repair", biases=True)
    assert result[0].bias.shape == (5,)
    assert "0.bias" in dict(result.named_parameters())
    assert fused[0].bias is None
    wanted = (numbers(parents[0]).mean(0) + numbers(parents[1]).mean(0)) / 2
    torch.testing.assert_close(numbers(result).mean(0), wanted, rtol=1e-4, atol=1e-5)


def test_tied_weights_and_what_is_no_layer_are_left_and_said():
    parents = []
    for seed in range(2):
        torch.manual_seed(seed)
        parents.append(named("gpt").build())
    x = torch.randint(13, (40, 5))
    result = transfuse.correct(parents[0], x, parents, method="refit")
    assert torch.equal(result.words.weight, parents[0].words.weight)
    assert result.read.weight is result.words.weight
    assert "left as they are" in result.correction.note
    assert "words.weight" in result.correction.note


class SharedNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two, self.norm = nn.Linear(4, 4), nn.Linear(4, 4), nn.BatchNorm1d(4)

    def forward(self, x):
        return self.norm(self.two(self.norm(self.one(x)).relu()))


def test_layers_that_share_a_norm_are_left_as_they_are():
    parents = [livened(SharedNorm()) for _ in range(2)]
    result = transfuse.correct(parents[0], X, parents, method="refit")
    assert torch.equal(result.one.weight, parents[0].one.weight)
    assert "one.weight, two.weight" in result.correction.note


def test_networks_that_go_different_ways_are_corrected_where_they_meet():
    parents = []
    for seed in range(2):
        torch.manual_seed(seed)
        parents.append(named("data_dependent_branch").build())
    result = transfuse.correct(parents[0], torch.randn(40, 5), parents, method="refit")
    assert result.correction.method == "refit"


def test_a_network_without_sites_stays_as_it_is():
    model = nn.PReLU(4)
    result = transfuse.correct(model, X, [model, nn.PReLU(4)])
    torch.testing.assert_close(result.weight, model.weight)


def test_progress_is_told(fusion):
    told = []
    transfuse.correct(fusion.model, X, fusion.aligned, progress=lambda *step: told.append(step))
    tried = len(candidates(fusion.model, units=False))
    assert told[-1][1:] == (tried, tried)
    assert any("refit, site 2 of 3" in stage for stage, *_ in told)
    assert [done for _, done, _ in told] == sorted(done for _, done, _ in told)


def with_nan():
    x = X.clone()
    x[7] = float("nan")
    return x


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (dict(method="best"), "no correction is called 'best'"),
        (dict(parents=None), "pass parents="),
        (dict(parents=None, method="repair"), "repair needs the networks"),
        (dict(parents=[network(0), nn.Linear(4, 3)]), "parent 2: 0.weight is None, in the model (6, 4)"),
        (dict(weights=[1.0]), "for 2 models; give one for each"),
        (dict(weights=[-1.0, 2.0]), "expected non-negative numbers"),
        (dict(data=X[:, :2]), "Sequential does not run on batch 1 of the data (RuntimeError"),
        (dict(data=[]), "no batches"),
        (dict(data=iter(())), "exhausted"),
        *((dict(data=with_nan(), method=name), "NaN or infinity") for name in ("repair", "rescale", "closed_form")),
        *((dict(data=with_nan(), method=name), "sees NaN") for name in ("batchnorm", "refit")),  # a norm comes first
        (dict(forward=lambda model, batch: "text"), "gives no tensor of floats but str"),
    ],
)
def test_what_cannot_be_is_refused(fusion, arguments, text):
    given = {"data": X, "parents": list(fusion.aligned), **arguments}
    with pytest.raises(InputError) as error:
        transfuse.correct(fusion.model, **given)
    assert text in str(error.value)


@pytest.mark.parametrize("method", ["auto", "repair", "rescale", "closed_form", "refit"])
def test_what_is_no_number_is_named_by_its_site(method):
    model, other = (nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2)) for _ in range(2))
    with pytest.raises(InputError, match=r"NaN or infinity at 0.weight on the data"):
        transfuse.correct(model, with_nan(), [model, other], method=method)


def test_batchnorm_needs_one():
    with pytest.raises(InputError, match="no batch norm"):
        transfuse.correct(nn.Linear(4, 2), X, method="batchnorm")
