"""Joined heads: each model's outputs stay what they were, classes add up, and what cannot be joined is refused."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import transfuse
from transfuse.checkpoints import open_checkpoint
from transfuse.fusing.heads import Heads, Joined
from transfuse.fusing.joining import asked_models, between_models
from transfuse.lazy import as_lazy

X = torch.randn(200, 6, generator=torch.Generator().manual_seed(0))


def mlp(outputs, seed, width=8, bias=True, last=()):
    torch.manual_seed(seed)
    layers = [nn.Linear(6, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, outputs, bias=bias)]
    return nn.Sequential(*layers, *last).eval()


def residual(outputs, seed):
    torch.manual_seed(seed)
    return Residual(outputs).eval()


class Residual(nn.Module):
    """Two residual blocks with batch norm."""

    def __init__(self, outputs):
        super().__init__()
        self.stem, self.read = nn.Linear(6, 7), nn.Linear(7, outputs)
        self.one, self.two = nn.Linear(7, 5, bias=False), nn.Linear(5, 7)
        self.norm = nn.BatchNorm1d(5)

    def forward(self, x):
        h = torch.relu(self.stem(x))
        return self.read(torch.relu(h + self.two(torch.relu(self.norm(self.one(h))))))


def worst(one, other):
    return float((one - other).detach().abs().max())


CLASSES = [["ant", "bee", "cat"], ["cat", "dog", "eel", "fox"]]
PAIRS = {"mlp": (mlp(3, 1), mlp(4, 2)), "no bias": (mlp(3, 1, bias=False), mlp(4, 2, bias=False)),
         "residual": (residual(3, 1), residual(4, 2))}  # fmt: skip


@pytest.mark.parametrize("kind", ["mlp", "residual", pytest.param("no bias", marks=pytest.mark.long)])
def test_twice_as_wide_side_by_side_is_each_model_to_the_last_digits(kind):
    models = PAIRS[kind]
    before = [copy.deepcopy(model.state_dict()) for model in models]
    fusion = transfuse.fuse(models, X[:2], data=X, heads="join", target=2.0, correct="selection")
    outputs = fusion.model(X)
    assert fusion.heads.places == ((0, 1, 2), (3, 4, 5, 6))
    assert outputs.shape == (len(X), 7)
    for number, model in enumerate(models):
        assert worst(fusion.heads.of_model(outputs, number), model(X)) < 1e-4
    for model, state in zip(models, before, strict=True):
        assert all(torch.equal(model.state_dict()[name], state[name]) for name in state)


def test_twice_as_wide_by_class_is_each_model_as_calibrated_and_the_mean_where_both_know_a_class():
    models = PAIRS["mlp"]
    fusion = transfuse.fuse(
        models, X[:2], data=X, heads="join", classes=CLASSES, target=2.0, correct="selection", weights=[3, 1]
    )
    heads = fusion.heads
    outputs, own = fusion.model(X), [
        factor * model(X) + offset for model, factor, offset in zip(models, heads.factors, heads.offsets, strict=True)
    ]  # fmt: skip
    assert heads.classes == ("ant", "bee", "cat", "dog", "eel", "fox")
    assert worst(outputs[:, :2], own[0][:, :2]) < 1e-4
    assert worst(outputs[:, 3:], own[1][:, 1:]) < 1e-4
    assert worst(outputs[:, 2], 0.75 * own[0][:, 2] + 0.25 * own[1][:, 0]) < 1e-4


def own_outputs(fusion):
    """What each parent gives for its own classes, side by side."""
    own = [fusion.heads.of_model(parent(X), number).detach() for number, parent in enumerate(fusion.parents)]
    return torch.cat(own, 1)


@pytest.mark.long
@pytest.mark.parametrize("bias", [True, False])
def test_calibration_makes_up_for_a_louder_model(bias):
    one, other = mlp(3, 1, bias=bias), mlp(4, 2, bias=bias)
    louder = copy.deepcopy(other)
    with torch.no_grad():
        louder[4].weight.mul_(9)
        if bias:
            louder[4].bias.mul_(9).add_(4)
    plain, loud = (
        transfuse.fuse([one, each], X[:2], data=X, heads="join", classes=[[0, 1, 2], [3, 4, 5, 6]], correct="none")
        for each in (other, louder)
    )
    assert plain.heads.factors[1] != pytest.approx(1.0)
    found = [own_outputs(fusion) / fusion.heads.factors[0] for fusion in (plain, loud)]
    assert torch.allclose(*found, atol=1e-4)


@pytest.mark.long
@pytest.mark.parametrize(("loud", "calibrated"), [(1.0, False), (9.0, True)])
def test_synthetic_inputs_calibrate_only_what_differs_much(loud, calibrated):
    one = mlp(3, 1)
    other = copy.deepcopy(one)
    with torch.no_grad():
        other[4].weight.mul_(loud)
        other[4].bias.mul_(loud)
    fusion = transfuse.fuse([one, other], X[:2], heads="join", classes=[[0, 1, 2], [3, 4, 5]], correct="refit")
    assert bool(fusion.heads.factors) == calibrated


@settings(max_examples=20, deadline=None)
@given(share=st.floats(0.1, 0.9), loud=st.floats(0.1, 10.0), seed=st.integers(0, 99))
def test_inputs_are_found_to_ask_the_model_that_knows_them_in_any_shares(share, loud, seed):
    random = torch.Generator().manual_seed(seed)
    truth = (torch.arange(400) >= 400 * share).long()
    sure = torch.stack([truth == 0, truth == 1])
    above = torch.where(sure, 5.0, 1.5) + torch.rand(2, 400, generator=random)
    for rule in (asked_models, between_models):
        asked, heights = rule(above * torch.tensor([[1.0], [loud]]))
        assert torch.equal(asked, truth)
        assert heights[1] / heights[0] == pytest.approx(loud, rel=0.2)


def test_a_model_that_is_surer_by_right_stays_surer():
    truth = torch.arange(400) % 2
    noise = torch.rand(2, 400, generator=torch.Generator().manual_seed(0))
    # The second is surer where it is asked, and by as much less sure where it is not: both scales are the same.
    above = torch.where(truth == torch.tensor([[0], [1]]), torch.tensor([[4.0], [8.0]]), torch.tensor([[2.0], [1.0]]))
    (_, plain), (asked, middle) = (rule(above + 0.1 * noise) for rule in (asked_models, between_models))
    assert plain[1] / plain[0] == pytest.approx(2.0, rel=0.05)
    assert middle[1] / middle[0] == pytest.approx(1.0, rel=0.05)
    assert torch.equal(asked, truth)


def test_a_model_and_its_shuffled_twin_with_other_classes_share_one_trunk():
    one = mlp(3, 5)
    twin = mlp(4, 6)
    order = torch.randperm(8, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        twin[0].weight.copy_(one[0].weight[order])
        twin[0].bias.copy_(one[0].bias[order])
        twin[2].weight.copy_(one[2].weight[:, order])
        twin[2].bias.copy_(one[2].bias)
    fusion = transfuse.fuse([one, twin], X[:2], heads="join", correct="none")
    outputs = fusion.model(X)
    assert worst(outputs[:, :3], one(X)) < 1e-5
    assert worst(outputs[:, 3:], twin(X)) < 1e-5
    given = [one.state_dict(), twin.state_dict()]
    states = transfuse.fuse_states(given, transfuse.trace(one, X[:2]), heads="join")
    assert states.heads == fusion.heads
    assert all(worst(states.state[name], fusion.states.state[name]) < 1e-5 for name in states.state)


def test_lazy_states_give_the_same_as_plain_ones():
    models = PAIRS["mlp"]
    layout = transfuse.trace(models[0], X[:2])
    states = [model.state_dict() for model in models]
    plain, lazy = (
        transfuse.fuse_states(given, layout, heads="join", classes=CLASSES)
        for given in (states, [as_lazy(state) for state in states])
    )
    assert all(worst(plain.state[name], lazy.state[name]) < 1e-6 for name in plain.state)
    assert plain.state["4.weight"].shape == (6, 8)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 4).flatmap(lambda n: st.lists(st.sets(st.integers(0, 6), min_size=1), min_size=n, max_size=n)))
def test_the_mean_of_placed_outputs_is_for_each_class_the_mean_over_those_who_know_it(classes):
    random = torch.Generator().manual_seed(len(classes))
    named = [sorted(own, reverse=True) for own in classes]
    heads = Heads.of([len(own) for own in named], named)
    weights = [1 / len(named)] * len(named)
    joined = Joined(heads, {}, heads.known(weights))
    outputs = [torch.randn(3, len(own), generator=random) for own in named]
    placed = [joined.expected(model, each, 1) for model, each in enumerate(outputs)]
    mean = sum(weight * each for weight, each in zip(weights, placed, strict=True))
    assert heads.classes == tuple(sorted(set().union(*classes)))
    for place, name in enumerate(heads.classes):  # slowly, class by class
        known = [each[:, own.index(name)] for each, own in zip(outputs, named, strict=True) if name in own]
        assert torch.allclose(mean[:, place], torch.stack(known).mean(0), atol=1e-5)


@pytest.mark.long
def test_models_of_other_widths_and_a_target_with_other_outputs():
    models = [mlp(3, 1, width=4), mlp(4, 2, width=3)]
    fusion = transfuse.fuse(models, X[:2], data=X[:50], heads="join", target=mlp(2, 3, width=6), correct="refit")
    assert fusion.model(X).shape == (len(X), 7)
    assert fusion.model[4].out_features == 7


def test_a_convolution_can_be_the_last_layer():
    def net(outputs, seed):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Conv2d(4, outputs, 1)).eval()

    images = torch.randn(30, 2, 6, 6, generator=torch.Generator().manual_seed(2))
    models = net(2, 1), net(3, 2)
    fusion = transfuse.fuse(models, images[:2], data=images, heads="join", target=2.0, correct="selection")
    outputs = fusion.model(images)
    for number, model in enumerate(models):
        assert worst(fusion.heads.of_model(outputs, number, axis=1), model(images)) < 1e-4


def test_what_is_said_of_heads(tmp_path):
    fusion = transfuse.fuse(PAIRS["mlp"], X[:2], heads="join", correct="none")
    assert "heads: 7 outputs: 0-2 of model 1, 3-6 of model 2" in str(fusion)
    assert fusion.heads.asked == {"heads": "join"}
    named = transfuse.fuse(PAIRS["mlp"], X[:2], heads="join", classes=CLASSES, correct="none")
    kept = open_checkpoint(named.save(tmp_path / "joined.safetensors"))
    assert named.heads.asked == {"heads": "join", "classes": CLASSES}
    assert kept.tensors["4.weight"].shape == (6, 8)
    assert kept.provenance["options"]["classes"] == CLASSES


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (dict(heads="add"), "heads is 'add'; expected 'join'"),
        (dict(classes=CLASSES), "classes are given, but heads are not joined; pass heads='join'"),
        (dict(heads="join", classes=[["a", "b", "c"]]), "1 lists of classes for 2 models"),
        (dict(heads="join", classes=[["a", "b"], CLASSES[1]]), "model 1 has 3 outputs and 2 classes"),
        (dict(heads="join", classes=[["a", "b", "a"], CLASSES[1]]), "model 1 has classes twice: a"),
        (dict(heads="join", classes=[[1, 2, 3], CLASSES[1]]), "some classes are names and some are numbers"),
        (dict(heads="join", classes=["abc", "cdef"]), "classes is .*; expected the classes of each model"),
        (dict(heads="join", aim="evidence"), "aim is 'evidence', but heads are joined"),
        (dict(heads="join", weights=[1, 0]), "outputs 3, 4, 5, 6 are known only to models whose weight is 0"),
        ({}, r"3, 4 outputs \(classes; see 4.weight\).*Pass heads='join'"),
    ],
)  # fmt: skip
def test_what_does_not_add_up_is_refused_before_work(options, told):
    with pytest.raises(transfuse.FusionError, match=told):
        transfuse.fuse(PAIRS["mlp"], X[:2], **options)


@pytest.mark.parametrize(
    ("models", "told"),
    [
        ((mlp(3, 1), mlp(4, 2, last=(nn.Softmax(1),))), "outputs of model 2 cannot be placed"),
        ((mlp(3, 1), nn.Sequential(nn.Linear(5, 8), *mlp(4, 2)[1:])), "read 6, 5 inputs"),
        ((mlp(3, 1), nn.Sequential(nn.Linear(6, 4))), "model 2"),
        ((nn.Linear(6, 1), nn.Linear(6, 1)), "the layout names none"),
    ],
)
def test_what_cannot_be_joined_is_refused_before_work(models, told):
    with pytest.raises(transfuse.FusionError, match=told):
        transfuse.fuse(models, X[:2], heads="join")


@pytest.mark.long
def test_a_model_of_transformers_knows_its_labels_and_is_saved_with_them(tmp_path):
    transformers = pytest.importorskip("transformers")

    def bert(labels, seed):
        torch.manual_seed(seed)
        sizes = dict(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=20)
        config = transformers.BertConfig(vocab_size=40, max_position_embeddings=12, num_labels=labels, **sizes)
        return transformers.BertForSequenceClassification(config).eval()

    models = [bert(2, 0), bert(3, 1)]
    tokens = {"input_ids": torch.randint(0, 40, (2, 8), generator=torch.Generator().manual_seed(0))}
    classes = [["bad", "good"], ["bad", "fair", "good"]]
    fusion = transfuse.fuse(models, tokens, heads="join", classes=classes, correct="none")
    assert fusion.model.config.id2label == {0: "bad", 1: "good", 2: "fair"}
    assert models[0].config.num_labels == 2
    fusion.save(tmp_path / "joined")
    again = transformers.BertForSequenceClassification.from_pretrained(tmp_path / "joined")
    assert torch.allclose(again(**tokens).logits, fusion.model(**tokens).logits, atol=1e-6)
