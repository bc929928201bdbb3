"""The verb `run`: a YAML file is the command."""

import safetensors.torch
import torch

from command_calls import AB, MODEL, call, works
from transfuse.cli import config, parser
from transfuse.cli.verbs import VERBS

CONFIG = """
merge_method: wb
model: in/nets.py:mlp
input_shape: [3, 4]
models:
  - model: in/a.safetensors
    parameters: {weight: 0.6}
  - model: in/b.safetensors
    parameters: {weight: 0.4}
parameters: {updates: 3, epsilon: null}
dtype: float32
out_path: ab.safetensors
seed: 5
"""


def test_a_file_is_the_command(here, capsys):
    (here / "merge.yml").write_text(CONFIG)
    works(capsys, "run", "merge.yml")
    first = (here / "ab.safetensors").read_bytes()
    works(capsys, "fuse", *AB, "-o", "ab.safetensors", *MODEL, "--method", "wb", "--weights", 0.6, 0.4,
          "--option", "updates=3", "epsilon=null", "--dtype", "float32", "--seed", 5, "--force")  # fmt: skip
    same = safetensors.torch.load(first), safetensors.torch.load_file("ab.safetensors")
    assert all(torch.equal(same[0][name], same[1][name]) for name in same[0])


def test_every_option_has_a_key(here, capsys):
    keys = [option.name for option in VERBS["fuse"].options]
    assert len(set(keys)) == len(keys)
    typed = config.arguments_in({"models": ["a", "b"], "out": "c", "low_memory": True, "force": False, "seed": 3,
                                 "input_shape": [3, 4], "target": ["s=3", "t=4"], "data": None, "weights": [2, 1],
                                 "model_args": {"width": 3, "hidden": [1, 2]}}, "x.yml")  # fmt: skip
    options = parser.parse(typed)
    assert options.low_memory is True
    assert options.force is False
    assert options.model_args == ["width=3", "hidden=[1, 2]"]
    assert (options.models, options.input_shape, options.target) == (["a", "b"], (3, 4), ["s=3", "t=4"])
    assert (options.seed, options.weights, options.data) == (3, [2.0, 1.0], None)


def test_a_switch_that_is_neither_on_nor_off_is_refused(here, capsys):
    (here / "merge.yml").write_text(CONFIG + "force: perhaps\n")
    code, _, err = call(capsys, "run", "merge.yml")
    assert code == 2
    assert "perhaps" in err


def test_mistakes_in_a_file_are_named_all_at_once(here, capsys):
    (here / "merge.yml").write_text(
        "merge_metod: wb\nmodels:\n  - {modell: a}\n  - {model: b, parameters: {wieght: 1}}\nchat_template: x\n"
    )
    code, _, err = call(capsys, "run", "merge.yml")
    assert code == 2
    for text in (
        "'merge_metod'; did you mean 'merge_method'?",
        "models, number 1: expected a path",
        "did you mean 'weight'",
        "out_path is missing",
        "unknown key 'chat_template'",
    ):
        assert text in err
    for content in ("", "- 1", "a: [", "\0"):
        (here / "merge.yml").write_text(content)
        assert call(capsys, "run", "merge.yml")[0] == 2
    assert call(capsys, "run", "none.yml")[0] == 2
