"""Refit finds what a layer can express of its parents' mean, and is never worse where it is judged."""

import copy

import pytest
import torch
from torch import nn

from transfuse.activations import Batches, observe, replaying
from transfuse.corrections import pieces
from transfuse.corrections import task as tasks
from transfuse.corrections.refit import refit_sites
from transfuse.corrections.task import Task
from zoo import livened, named
from zoo_problems import outputs

RECURRENT = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}


def built(build, seed):
    torch.manual_seed(seed)
    return livened(build()).double().eval()


def residual(task, model, *, judges=True, site=0):
    """Squared distance of a site's pre-activations to the parents' mean, weighted by slopes and a floor."""
    total, mean = 0.0, None
    for batch in task.batches:
        if batch.judges is judges:
            seen = [observe(each, batch.run)[site] for each in (model, *task.parents)]
            own, *theirs = (each.pre_activations for each in seen)
            target = task.mean(theirs).detach()
            weights = seen[0].squared_slopes(target) if seen[0].bent else torch.ones_like(target)
            mean = weights.mean() if mean is None else mean
            total += float(((weights + 0.05 * mean) * (own - target).detach().square()).mean())
    return total


def averaged(name):
    """A task on the plain average of two networks of the zoo."""
    row = named(name)
    parents = [built(row.build, seed) for seed in (0, 1)]
    fused = copy.deepcopy(parents[0])
    for tensor, *both in zip(fused.state_dict().values(), *(p.state_dict().values() for p in parents), strict=True):
        if tensor.is_floating_point():
            tensor.copy_(sum(both) / 2)
    torch.manual_seed(0)
    x = row.inputs().double()
    return Task(fused, parents, [0.5, 0.5], Batches.of([torch.randn_like(x) for _ in range(10)]))


class Grouped(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(4, 6, 3, groups=2, padding="same", bias=False), nn.BatchNorm2d(6)

    def forward(self, x):
        return self.norm(self.conv(x)).relu()


PLANTED = {
    "linear": (lambda: nn.Linear(4, 5), torch.randn(200, 4)),
    "linear without bias": (lambda: nn.Linear(4, 5, bias=False), torch.randn(200, 4)),
    "norm": (lambda: nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5)), torch.randn(200, 4)),
    "groups": (Grouped, torch.randn(20, 4, 6, 6)),
    "convolution": (lambda: nn.Conv1d(3, 4, 3, stride=2, dilation=2), torch.randn(30, 3, 20)),
}


@pytest.mark.parametrize("name", PLANTED)
def test_what_a_layer_can_express_is_found(name):
    build, x = PLANTED[name]
    parents = [built(build, 0), built(build, 1)]
    for weights in ((0.5, 0.5), (0.2, 0.8)):
        task = Task(built(build, 2), parents, weights, Batches.of(x.double()))  # starts elsewhere
        before = residual(task, task.network)
        with torch.no_grad():
            refit_sites(task)
        assert residual(task, task.network) < 1e-4 * before


@pytest.mark.parametrize("kind", RECURRENT)
@pytest.mark.parametrize("bias", [True, False])
def test_a_recurrent_layer_is_found_again(kind, bias):
    """Both parents are one network: hidden states that its pre-activations drive are its own."""
    parent = built(lambda: RECURRENT[kind](3, 4, bias=bias), 0)
    x = torch.randn(6, 200, 3, dtype=torch.float64)
    start = copy.deepcopy(parent)
    with torch.no_grad():
        for parameter in start.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    batches = Batches.of(list(x.split(40, 1)))
    task = Task(copy.deepcopy(start), [parent, parent], [0.5, 0.5], batches)
    with torch.no_grad():
        refit_sites(task)
        distances = [float((each(x)[0] - parent(x)[0]).square().mean()) for each in (start, task.network)]
    assert distances[1] < 1e-2 * distances[0]


@pytest.mark.parametrize(
    "name",
    ["mlp_without_bias", "mlp_tanh", "lenet", "resnet_projection", "mobilenet", "lstm_bidirectional", "gru", "rnn_relu",
     "siamese", "convolution_3d", "gru_bidirectional", "wavenet"],
)  # fmt: skip
def test_an_unfused_network_stays_as_it_is(name):
    row = named(name)
    model = built(row.build, 0)
    inputs = row.inputs()
    several = [
        tuple(x + shift for x in inputs) if isinstance(inputs, tuple) else (inputs + shift,) for shift in (0, 0.1)
    ]
    several = [tuple(x.double() for x in batch) for batch in several]
    task = Task(copy.deepcopy(model), [model, model], [0.5, 0.5], Batches.of(several, forward=lambda m, b: m(*b)))
    with torch.no_grad():
        refit_sites(task)
    batch = several[0]
    torch.testing.assert_close(outputs(task.network, batch), outputs(model, batch), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["mlp_tanh", "lenet", "lstm_bidirectional", "gru", "resnext_groups_move"])
def test_the_first_site_is_never_worse_on_held_out_batches(name):
    task = averaged(name)
    before, first = residual(task, task.network), task.disagreement(task.network)
    with torch.no_grad():
        refit_sites(task)
    assert residual(task, task.network) <= before + 1e-12
    assert task.disagreement(task.network) < first


@pytest.mark.parametrize("name", ["mlp_tanh", "lenet", "resnext_groups_move"])
def test_where_slopes_count_what_passes_the_nonlinearity_is_nearer(name, monkeypatch):
    """Weighted residuals of the second site (the first needs no fit), against a fit with all samples counting alike."""
    found = []
    for bent in (True, False):
        task = averaged(name)
        assert bool(task.bent()) is True
        if not bent:
            monkeypatch.setattr(Task, "bent", lambda self: set())
        with torch.no_grad():
            refit_sites(task)
        found.append(residual(task, task.network, site=1))
    assert found[0] < found[1]


def test_a_weight_is_bent_if_all_that_it_gives_is():
    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = nn.Linear(3, 3), nn.Linear(3, 3)

        def forward(self, x):
            return self.one(x).relu() + self.one(x + 1) + self.two(x).tanh()

    task = Task(Both().eval(), [], [], Batches.of(torch.randn(20, 3)))
    assert task.bent() == {"two.weight"}


class Writer(nn.Module):
    """A language model of one layer, or one that gives as many numbers and no scores of tokens."""

    def __init__(self, tokens=9, outputs=9):
        super().__init__()
        self.words, self.hidden = nn.Embedding(tokens, 4), nn.Linear(4, 5)
        self.scores = nn.Linear(5, outputs)

    def forward(self, tokens):
        return self.scores(self.hidden(self.words(tokens)).tanh())


def of_texts(outputs=9):
    """A task on one of two language models, which shall become their mean."""
    parents = [built(lambda: Writer(outputs=outputs), seed) for seed in (0, 1)]
    for parent in parents:
        parent.scores.weight.data *= 6.0  # they are sure
    return Task(copy.deepcopy(parents[0]), parents, [0.5, 0.5], Batches.of(torch.randint(9, (40, 6))))


def test_scores_of_tokens_are_fitted_by_what_their_softmax_shows():
    """The last layer of one model, against a fit in which all scores count alike: nearer in cross-entropy."""
    assert of_texts().token_scores() == {"scores.weight"}
    assert not of_texts(outputs=8).token_scores()
    found = []
    for bent in (None, {"hidden.weight"}):
        task = of_texts()
        with torch.no_grad():
            refit_sites(task, bent=bent)
        batches = [batch for batch in task.batches if batch.judges]
        wanted = [sum(batch.run(parent) for parent in task.parents) / 2 for batch in batches]
        own = [batch.run(task.network) for batch in batches]
        found.append(sum(
            float(nn.functional.cross_entropy(a.flatten(0, 1), b.flatten(0, 1).softmax(1)).detach())
            for a, b in zip(own, wanted, strict=True)
        ))  # fmt: skip
    assert found[0] < found[1]


def test_of_too_many_tokens_all_scores_count_alike(monkeypatch):
    assert "scores.weight" in of_texts().bent()
    monkeypatch.setattr(tasks, "MOST_SCORES", 100)
    assert "scores.weight" not in of_texts().bent()
    assert of_texts().token_scores()


def test_what_is_kept_in_memory_changes_nothing(monkeypatch):
    results = []
    for memory in (2**30, 0):
        monkeypatch.setattr(tasks, "MEMORY", memory)
        monkeypatch.setattr(pieces, "MEMORY", memory)
        monkeypatch.setattr(replaying, "MEMORY", memory)
        parents = [built(named("lenet").build, seed) for seed in (0, 1)]
        x = torch.randn(30, 1, 12, 12, generator=torch.Generator().manual_seed(0)).double()
        task = Task(copy.deepcopy(parents[0]), parents, [0.5, 0.5], Batches.of(x))
        with torch.no_grad():
            refit_sites(task)
        assert all((sites is None) is (memory == 0) for sites in task.given.shown.values())
        results.append(task.network.state_dict())
    torch.testing.assert_close(results[0], results[1], rtol=0, atol=0)


@pytest.mark.parametrize("name", ["mlp_tanh", "lstm", "gru"])
def test_inference_mode_changes_nothing(name):
    results = []
    for mode in (torch.no_grad, torch.inference_mode):
        task = averaged(name)
        with mode():
            refit_sites(task)
        results.append(task.network.state_dict())
    torch.testing.assert_close(results[0], results[1], rtol=0, atol=0)


def test_layers_that_never_see_anything_stay():
    dead = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2, bias=False)).double()
    with torch.no_grad():
        dead[0].bias.fill_(-100.0)
    other = copy.deepcopy(dead)
    with torch.no_grad():
        other[2].weight.add_(1.0)
    task = Task(copy.deepcopy(dead), [dead, other], [0.5, 0.5], Batches.of(torch.randn(50, 3).double()))
    with torch.no_grad():
        refit_sites(task)
    torch.testing.assert_close(task.network[2].weight, dead[2].weight)
