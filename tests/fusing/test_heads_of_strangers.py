"""Heads of networks as strangers write them: whatever the last layer is called and outputs are wrapped in."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import transfuse

IMAGES = torch.randn(120, 1, 8, 8, generator=torch.Generator().manual_seed(0))


class Tutorial(nn.Module):
    """Two convolutions, a flattening by `view`, and a head of some name and some layers."""

    def __init__(self, classes, name="fc", layers=1, wrap=lambda scores, features: scores):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 5, 3, padding=1)
        hidden = [nn.Linear(80, 6), nn.ReLU(inplace=True), nn.Dropout()] if layers > 1 else []
        last = nn.Linear(6 if hidden else 80, classes)
        setattr(self, name, nn.Sequential(*hidden, last) if hidden else last)
        self.head_name, self.wrap = name, wrap

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv2(F.relu(self.conv1(x)))), 2)
        x = x.view(x.size(0), -1)
        return self.wrap(getattr(self, self.head_name)(x), x)


def networks(*classes, **options):
    made = []
    for seed, count in enumerate(classes):
        torch.manual_seed(seed)
        made.append(Tutorial(count, **options).eval())
    return made


def first_of(outputs):
    return outputs[0] if isinstance(outputs, tuple) else outputs["scores"]


WRAPPED = {
    "a dictionary": lambda scores, features: {"scores": scores},
    "a dictionary with features": lambda scores, features: {"features": features, "scores": scores},
    "a tuple with features": lambda scores, features: (scores, features),
}
STYLES = {
    "fc": {},
    "classifier of two layers": dict(name="classifier", layers=2),
    **{name: dict(name="head", wrap=wrap) for name, wrap in WRAPPED.items()},
}


@pytest.mark.parametrize(
    "style", [pytest.param(name, marks=[pytest.mark.long] * ("features" not in name)) for name in STYLES]
)
def test_twice_as_wide_each_models_outputs_stay_what_they_were(style):
    """Features that are returned beside the scores would be fixed; `outputs` says what counts."""
    models, wrapped = networks(3, 4, **STYLES[style]), style in WRAPPED
    fusion = transfuse.fuse(
        models, IMAGES[:2], data=IMAGES, heads="join", target=2.0, correct="selection",
        outputs=first_of if wrapped else None,
    )  # fmt: skip
    pick = first_of if wrapped else lambda outputs: outputs
    found = pick(fusion.model(IMAGES))
    assert found.shape == (len(IMAGES), 7)
    for number, model in enumerate(models):
        torch.testing.assert_close(fusion.heads.of_model(found, number), pick(model(IMAGES)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("style", ["fc", pytest.param("a tuple with features", marks=pytest.mark.long)])
def test_outputs_beside_others_are_calibrated_too(style):
    one, other = networks(3, 4, **STYLES[style])
    plain = transfuse.fuse([one, other], IMAGES[:2], data=IMAGES, heads="join", classes=[[0, 1, 2], [2, 3, 4, 5]],
                           correct="none")  # fmt: skip
    name = f"{one.head_name}.weight"
    with torch.no_grad():
        other.get_parameter(name).mul_(20)
        other.get_parameter(name.replace("weight", "bias")).mul_(20)
    loud = transfuse.fuse([one, other], IMAGES[:2], data=IMAGES, heads="join", classes=[[0, 1, 2], [2, 3, 4, 5]],
                          correct="none")  # fmt: skip
    ratios = [fusion.heads.factors[0] / fusion.heads.factors[1] for fusion in (plain, loud)]
    assert ratios[1] == pytest.approx(20 * ratios[0], rel=1e-3)


@pytest.mark.long
def test_three_parents_share_some_classes():
    models = networks(2, 3, 4)
    classes = [["cat", "dog"], ["dog", "fox", "owl"], ["owl", "bee", "ant", "cat"]]
    fusion = transfuse.fuse(
        models, IMAGES[:2], data=IMAGES, heads="join", classes=classes, target=3.0, correct="selection"
    )
    heads = fusion.heads
    assert heads.classes == ("cat", "dog", "fox", "owl", "bee", "ant")
    own = [
        factor * model(IMAGES) + offset
        for model, factor, offset in zip(models, heads.factors, heads.offsets, strict=True)
    ]
    found = fusion.model(IMAGES)
    torch.testing.assert_close(found[:, 0], (own[0][:, 0] + own[2][:, 3]) / 2, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(found[:, 2], own[1][:, 1], rtol=1e-3, atol=1e-4)


@pytest.mark.long
def test_other_classes_and_other_depths_at_once():
    def chain(layers, classes, seed):
        torch.manual_seed(seed)
        inner = [each for _ in range(layers) for each in (nn.Linear(6, 6), nn.ReLU())]
        return nn.Sequential(nn.Linear(5, 6), nn.ReLU(), *inner, nn.Linear(6, classes)).eval()

    models, x = [chain(1, 3, 1), chain(2, 2, 2)], torch.randn(200, 5)
    fusion = transfuse.fuse(models, x[:4], data=x, heads="join", target=2.0, correct="selection")
    found = fusion.model(x)
    assert len(fusion.depths.changes[0].grown) == 1
    for number, model in enumerate(models):
        torch.testing.assert_close(fusion.heads.of_model(found, number), model(x), rtol=1e-3, atol=1e-4)


def test_scores_that_were_normalised_inside_are_refused():
    models = networks(3, 4, wrap=lambda scores, features: F.log_softmax(scores, 1))
    with pytest.raises(transfuse.InputError, match=r"cannot be placed among others.*Leave out what follows that layer"):
        transfuse.fuse(models, IMAGES[:2], heads="join")
