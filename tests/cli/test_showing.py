"""The verbs that show something, and help."""

import subprocess
import sys

import pytest

import transfuse
from command_calls import ENVIRONMENT, MODEL, call, works
from transfuse.networks import NETWORKS


def test_trace_writes_a_layout_and_proves_one(here, capsys):
    code, out, _ = call(capsys, "trace", "--model", "rnn", "--model-args", "hidden=5", "-q")
    assert code == 0
    assert "cell.l0.out: 5 signs" in out
    assert call(capsys, "trace", *MODEL, "--checkpoint", "in/a.ckpt", "-o", "l.yaml")[0] == 0
    assert call(capsys, "trace", *MODEL, "--layout", "l.yaml")[0] == 0
    wrong = (here / "l.yaml").read_text().replace("[3, < 1.out]", "[3, 8]")
    (here / "wrong.yaml").write_text(wrong)
    code, _, err = call(capsys, "trace", *MODEL, "--layout", "wrong.yaml")
    assert code == 1
    assert "space 1.out" in err


def test_the_help_names_every_built_in_network(capsys):
    code, out, _ = call(capsys, "fuse", "--help")
    assert code == 0
    assert all(name in out for name in NETWORKS)


def test_methods_lists_all_with_citations(capsys):
    told = works(capsys, "methods")
    assert set(told) == set(transfuse.METHODS)
    assert "2210.06671" in works(capsys, "methods", "wb")["wb"]["citation"]


def test_inspect_shows_tensors_ties_and_hashes(here, capsys):
    told = works(capsys, "inspect", "in/a.ckpt", "--hash")
    assert told["tensors"]["1.weight"] == {"dtype": "float32", "shape": [8, 12]}
    assert len(told["sha256"]["a.ckpt"]) == 64
    code, out, _ = call(capsys, "inspect", "in/a.safetensors", "-q")
    assert code == 0
    assert "1.weight  [8, 12]" in out


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion(capsys, shell):
    code, out, _ = call(capsys, "completion", shell)
    assert code == 0
    for word in ("barrier", "--low-memory", "fedma"):
        assert word in out


def test_help_needs_no_torch_and_shows_examples():
    script = (
        "import sys; from transfuse.cli import main; main(['--help']); main(['fuse', '--help']); main(['--version']);"
        "assert not {'torch', 'numpy', 'yaml'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], env=ENVIRONMENT, capture_output=True, text=True, check=True)
    assert "examples:" in done.stdout
    assert "--low-memory" in done.stdout
    assert f"transfuse {transfuse.__version__}" in done.stdout
