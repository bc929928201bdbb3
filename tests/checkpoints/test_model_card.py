"""Model cards: what is read of those of inputs, and what the one of a result says to machines."""

from dataclasses import replace

import pytest
import yaml

from checkpoint_states import MADE
from transfuse.checkpoints import card
from transfuse.checkpoints.model_card import TASKS
from transfuse.checkpoints.model_hubs import front_matter
from transfuse.checkpoints.provenance import Origin


def header(text):
    """What a machine reads at the head of a card."""
    return yaml.safe_load(text.split("---\n")[1])


def made_of(*licenses):
    return replace(MADE, sources=tuple(Origin(f"m{i}", {}, 4, 0.5, each) for i, each in enumerate(licenses)))


MIT, OWN = {"license": "mit"}, {"license": "other", "license_name": 'mine: "it"\nis'}


@pytest.mark.parametrize(
    ("licenses", "expected"), [((MIT, MIT), MIT), ((OWN, OWN), OWN), ((MIT, OWN), {}), ((MIT, {}), {}), (({}, {}), {})]
)
def test_a_licence_is_told_only_where_all_inputs_have_it(licenses, expected):
    found = header(card(made_of(*licenses), "x", {"architectures": ["GPT2LMHeadModel"]}))
    assert {key: value for key, value in found.items() if key.startswith("license")} == expected
    assert found["base_model"] == ["m0", "m1"]


@pytest.mark.parametrize("config", [{}, {"architectures": "Bert"}, {"architectures": ["import os", 3]}, {"a": 1}])
def test_a_configuration_without_classes_gives_a_card_without_a_snippet(config):
    text = card(made_of(MIT), "x", config)
    assert "from_pretrained" not in text
    assert "pipeline_tag" not in header(text)


def test_every_task_is_told_by_the_class():
    for part, task in TASKS.items():
        name = part if part.endswith("Model") or "For" in part[1:] else f"Some{part}"
        assert header(card(MADE, "x", {"architectures": [name]}))["pipeline_tag"] == task
    assert header(card(MADE, "x", {"architectures": ["BertModel"]}, "sentence-similarity"))["pipeline_tag"] == (
        "sentence-similarity"
    )


@pytest.mark.parametrize(
    ("verb", "words"), [("fuse", "a.out, b.out; norms over these are folded"), ("align", "b.out\n")]
)
def test_units_that_were_rotated_are_told(verb, words):
    text = card(replace(MADE, verb=verb, rotated=("a.out", "b.out")), "x.pt")
    assert "\n- Rotated, and not only permuted, were the units of a.out, " in text
    assert words in text
    assert "Rotated" not in card(replace(MADE, verb=verb), "x.pt")


def test_files_without_transformers_are_of_pytorch():
    assert header(card(made_of(MIT), "x.pt"))["library_name"] == "pytorch"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("---\nlicense: mit\ntags: [a]\n---\n# x\n", {"license": "mit"}),
        ("# x\n---\nlicense: mit\n---\n", {}),
        ("---\nlicense: [\n---\n", {}),
        ("---\n- 1\n---\n", {}),
        ("---\na: &x [1]\nb: *x\n---\n", {}),
        ("no head", {}),
        ("\0", {}),
    ],
)
def test_cards_of_others_are_read_as_far_as_they_can_be(tmp_path, text, expected):
    (tmp_path / "README.md").write_text(text)
    assert front_matter(tmp_path) == expected
    assert front_matter(tmp_path / "README.md") == {}
