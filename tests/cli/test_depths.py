"""Folders of other depths by the command: the result has the depth, the outputs and the names that its config says."""

import json

import pytest
import torch

import transfuse
from command_calls import call, works

transformers = pytest.importorskip("transformers")

QUICK = ("--method", "vanilla")
PETS, VEHICLES = ("cat", "dog"), ("ship", "plane", "cat")


def vit(layers, seed, labels=PETS):
    torch.manual_seed(seed)
    config = transformers.ViTConfig(
        num_hidden_layers=layers, hidden_size=16, num_attention_heads=2, intermediate_size=20, image_size=16,
        patch_size=8, id2label=dict(enumerate(labels)), label2id={name: place for place, name in enumerate(labels)},
    )  # fmt: skip
    return transformers.ViTForImageClassification(config).eval()


@pytest.fixture
def pair(here):
    """Folders of two and of three layers."""
    models = [vit(2, 0), vit(3, 1)]
    for name, model in zip("ab", models, strict=True):
        model.save_pretrained(name)
    return models


def loaded(folder):
    model, found = transformers.ViTForImageClassification.from_pretrained(folder, output_loading_info=True)
    assert not any(found.values())
    return model.eval()


def configured(folder):
    return json.loads((folder / "config.json").read_text())


IMAGES = {"pixel_values": torch.randn(3, 3, 16, 16, generator=torch.Generator().manual_seed(0))}


def test_the_result_has_the_depth_of_the_deepest(here, capsys, pair):
    code, out, err = call(capsys, "fuse", "a", "b", "-o", "ab", *QUICK, "--weights", "1", "0")
    assert code == 0, err
    assert "model 1: 5 layers became 6: it grew vit.layers." in out
    assert "from b: config.json" in out
    assert configured(here / "ab")["num_hidden_layers"] == 3
    torch.testing.assert_close(loaded("ab")(**IMAGES).logits, pair[0](**IMAGES).logits, rtol=1e-4, atol=1e-4)


@pytest.mark.long
def test_the_command_gives_what_the_library_does(here, capsys, pair):
    works(capsys, "fuse", "a", "b", "-o", "ab", "--method", "clafusion", "--terms", "weights")
    images = {"pixel_values": torch.zeros(2, 3, 16, 16)}
    fusion = transfuse.fuse(pair, images, method="clafusion", terms="weights")
    torch.testing.assert_close(loaded("ab")(**IMAGES).logits, fusion.model(**IMAGES).logits, rtol=1e-3, atol=1e-3)


@pytest.mark.long
def test_a_target_among_them_decides_about_the_depth(here, capsys, pair):
    code, out, err = call(capsys, "fuse", "b", "a", "-o", "ab", "--target", "a", *QUICK)
    assert code == 0, err
    assert "model 1: 6 layers became 5: it lost vit.layers." in out
    assert configured(here / "ab")["num_hidden_layers"] == 2
    loaded("ab")


@pytest.mark.long
def test_other_depths_and_other_classes(here, capsys, pair):
    vit(2, 2, VEHICLES).save_pretrained("c")
    told = works(capsys, "fuse", "c", "b", "-o", "cb", *QUICK, "--heads", "join", "--classes", ",".join(VEHICLES),
                 ",".join(PETS))  # fmt: skip
    assert told["heads"]["places"] == [[0, 1, 2], [2, 3]]
    assert configured(here / "cb")["num_hidden_layers"] == 3
    assert loaded("cb").config.id2label == {0: "ship", 1: "plane", 2: "cat", 3: "dog"}


@pytest.mark.long
@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (("ship", "plane", "bike"), ["cat", "dog", "ship", "plane", "bike"]),
        (VEHICLES, [f"LABEL_{n}" for n in range(5)]),
    ],
)
def test_outputs_are_called_what_the_folders_call_them_unless_that_is_ambiguous(here, capsys, pair, labels, names):
    vit(2, 2, labels).save_pretrained("c")
    code, out, err = call(capsys, "fuse", "a", "c", "-o", "ac", *QUICK, "--heads", "join")
    assert code == 0, err
    assert "id2label of 5" in out
    assert list(loaded("ac").config.id2label.values()) == names


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--low-memory",), "networks of other depths are run; leave it out"),
        pytest.param(("--target", "vgg11"), "expected one of them", marks=pytest.mark.long),
    ],
)
def test_what_cannot_be_done_with_other_depths_is_refused(here, capsys, pair, arguments, told):
    code, _, err = call(capsys, "fuse", "a", "b", "-o", "ab", *arguments)
    assert code == 2
    assert told in err
    assert not (here / "ab").exists()
