"""Files as mergekit has them: what can be done here is done, what cannot is told in one line."""

import pytest
import safetensors.torch
import torch

from command_calls import call, written

# The kinds of files that mergekit gives as examples, with small networks in place of large ones.
LINEAR = """
models:
  - model: in/a.safetensors
    parameters:
      weight: 1.0
  - model: in/b.safetensors
    parameters:
      weight: 0.3
  - model: in/c.safetensors
    parameters:
      weight: 0.5
merge_method: linear
parameters:
  normalize: true
  int8_mask: true
dtype: float16
"""
TWO = "models:\n  - model: in/a.safetensors\n  - model: in/b.safetensors\n    parameters: {density: 0.5, weight: 0.5}\n"
SLICES = """slices:
  - sources:
      - model: in/a.safetensors
        layer_range: [0, 1]
"""


def tensors(name):
    return safetensors.torch.load_file(name)


def test_a_linear_merge_is_the_weighted_mean(here, capsys):
    (here / "linear.yml").write_text(LINEAR)
    code, _, err = call(capsys, "run", "linear.yml", "out.safetensors")
    assert code == 0, err
    shares = {"a": 1.0 / 1.8, "b": 0.3 / 1.8, "c": 0.5 / 1.8}
    for name, tensor in tensors("out.safetensors").items():
        assert tensor.dtype is torch.float16
        mean = sum(share * tensors(f"in/{each}.safetensors")[name] for each, share in shares.items())
        torch.testing.assert_close(tensor.float(), mean, rtol=1e-3, atol=1e-3)


def test_the_same_file_with_auto_needs_the_network_and_matches_units(here, capsys):
    text = LINEAR.replace("linear", "auto").replace("dtype: float16", "model: in/nets.py:mlp\ninput_shape: [3, 4]")
    (here / "auto.yml").write_text(text)
    code, _, err = call(capsys, "run", "auto.yml", "out.safetensors")
    assert code == 0, err
    (here / "auto.yml").write_text(LINEAR.replace("linear", "auto"))
    code, _, err = call(capsys, "run", "auto.yml", "more.safetensors")
    assert code == 2
    assert "pass --model SPEC" in err


def test_the_base_is_the_first_model_and_types_of_the_output_count(here, capsys):
    (here / "linear.yml").write_text(
        f"{LINEAR}\nbase_model: in/b.safetensors\nout_dtype: float32\ntokenizer_source: base\nout_path: not.pt\n"
    )
    code, out, err = call(capsys, "run", "linear.yml", "out.safetensors", "--dry-run")
    assert code == 0, err
    assert [line.split()[1] for line in out.splitlines() if line.startswith("input")] == [
        "in/b.safetensors", "in/a.safetensors", "in/c.safetensors"
    ]  # fmt: skip
    assert "output: out.safetensors" in out
    from transfuse.cli.config import read_config

    options = read_config("linear.yml", "out.safetensors")
    assert (options.weights, options.dtype, options.method) == ([0.3, 1.0, 0.5], "float32", "vanilla")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"{TWO}merge_method: ties\nbase_model: x/y\nparameters: {{normalize: true}}\n", "common ancestor"),
        (f"{TWO}merge_method: dare_ties\nbase_model: x/y\nparameters: {{int8_mask: true}}\n", "common ancestor"),
        (f"{TWO}merge_method: slerp\nbase_model: in/a.safetensors\nparameters: {{t: 0.5}}\n", "common ancestor"),
        (f"{TWO}merge_method: task_arithmetic\nbase_model: x/y\n", "common ancestor"),
        (f"{SLICES}merge_method: passthrough\ndtype: float16\n", "layers of several models"),
        (f"{SLICES}merge_method: linear\n", "layers of several models"),
        (f"{TWO}merge_method: linear\ntokenizer_source: union\n", "tokenizer of several"),
        (f"{TWO}merge_method: linear\nparameters: {{normalize: false}}\n", "adds models up"),
        (f"{LINEAR}---\n{LINEAR}", "2 files in one"),
        (LINEAR.replace("weight: 0.3", "weight: [0, 0.5, 1]"), "weights of single layers"),
    ],
)
def test_what_only_mergekit_does_is_told_in_one_line(here, capsys, text, reason):
    (here / "merge.yml").write_text(text)
    code, _, err = call(capsys, "run", "merge.yml", "out.safetensors")
    assert code == 2
    assert reason in err
    assert "mergekit" in err
    assert len([line for line in err.strip().splitlines() if "mergekit" in line]) == 1
    assert written(here) == ["merge.yml"]


def test_a_base_that_is_none_of_the_models_is_named(here, capsys):
    (here / "merge.yml").write_text(f"{LINEAR}base_model: x/y\n")
    code, _, err = call(capsys, "run", "merge.yml", "out.safetensors")
    assert code == 2
    assert "base_model x/y is none of the models" in err


def test_names_of_a_hub_are_downloaded_first(here, capsys):
    (here / "merge.yml").write_text(LINEAR.replace("in/a.safetensors", "psmathur/orca_mini"))
    code, _, err = call(capsys, "run", "merge.yml", "out.safetensors")
    assert code == 2
    assert "hf download psmathur/orca_mini --local-dir orca_mini" in err
