"""The command: each verb, each mistake, and what a killed run leaves behind.

Most calls run `main` in this process; a few run the real command, for an interpreter with torch takes seconds to start.
"""

import errno
import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import nn

import transfuse
from transfuse.checkpoints import open_checkpoint
from transfuse.cli import main, parser
from transfuse.networks import NETWORKS

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(transfuse.__file__).parents[1])}
NETS = """
import torch
from torch import nn

def mlp(width=8, bias=True):
    return nn.Sequential(nn.Flatten(), nn.Linear(12, width, bias=bias), nn.Tanh(), nn.Linear(width, 3))

def normed():
    return nn.Sequential(nn.Flatten(), nn.Linear(12, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))

def not_a_module():
    return 3

def share_of_ones(model):
    with torch.no_grad():
        return float((model(torch.linspace(-1, 1, 60).view(5, 3, 4)).argmax(1) == 1).float().mean())

def fails(model):
    raise RuntimeError("no")
"""


def mlp(seed, width=8):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Flatten(), nn.Linear(12, width), nn.Tanh(), nn.Linear(width, 3))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Checkpoints of one architecture in several formats, code that builds it, data, a layout."""
    folder = tmp_path_factory.mktemp("files")
    for number, name in enumerate("abc"):
        safetensors.torch.save_file(mlp(number).state_dict(), folder / f"{name}.safetensors")
        torch.save({"state_dict": {f"module.{k}": v for k, v in mlp(number).state_dict().items()}, "epoch": 3},
                   folder / f"{name}.ckpt")  # fmt: skip
    safetensors.torch.save_file(mlp(0, 6).state_dict(), folder / "narrow.safetensors")
    safetensors.torch.save_file({"1.weight": torch.ones(8, 12), "x": torch.ones(1)}, folder / "other.safetensors")
    (folder / "nets.py").write_text(NETS)
    (folder / "layout.yaml").write_text(str(transfuse.trace(mlp(0), torch.randn(2, 3, 4))))
    torch.manual_seed(0)
    inputs = torch.randn(40, 3, 4)
    safetensors.torch.save_file({"inputs": inputs, "labels": mlp(0)(inputs).argmax(1)}, folder / "data.safetensors")
    np.savez(folder / "unlabeled.npz", inputs=inputs.numpy())
    return folder


@pytest.fixture
def here(files, tmp_path, monkeypatch):
    """An empty folder to write to, as the current one; `files` is beside it."""
    (tmp_path / "in").symlink_to(files)
    monkeypatch.chdir(tmp_path)
    return tmp_path


EXAMPLE = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0))
MODEL = ("--model", "in/nets.py:mlp", "--input-shape", "3,4")
AB = ("in/a.safetensors", "in/b.safetensors")


def call(capsys, *arguments):
    """Exit code, stdout, stderr."""
    code = main([str(each) for each in arguments])
    told = capsys.readouterr()
    return code, told.out, told.err


def works(capsys, *arguments):
    code, out, err = call(capsys, *arguments, "--json")
    assert code == 0, err
    return json.loads(out)


def written(folder):
    return sorted(each.name for each in folder.iterdir() if each.name != "in")


# ---------------------------------------------------------------- fuse


@pytest.mark.parametrize("ending", ["safetensors", "ckpt"])
@pytest.mark.parametrize("low_memory", [False, True])
def test_fuse_gives_what_the_library_gives(here, capsys, ending, low_memory):
    told = works(capsys, "fuse", f"in/a.{ending}", f"in/b.{ending}", "-o", f"ab.{ending}", *MODEL, "--weights", 3, 1,
                 *["--low-memory"] * low_memory)  # fmt: skip
    correct = "none" if low_memory else None
    expected = transfuse.fuse([mlp(0), mlp(1)], EXAMPLE, weights=[3, 1], correct=correct)
    result = open_checkpoint(f"ab.{ending}")
    for name, tensor in expected.model.state_dict().items():
        torch.testing.assert_close(result.tensors[name], tensor)
    assert told["weights"] == [0.75, 0.25]
    assert written(here) == ["README.md", f"ab.{ending}"]
    shown = works(capsys, "inspect", f"ab.{ending}")["provenance"]
    assert shown["method"] == "auto"
    assert [source["name"] for source in shown["sources"]] == [f"a.{ending}", f"b.{ending}"]


def test_the_command_in_the_provenance_does_it_again(here, capsys):
    for name in ("a.safetensors", "b.safetensors", "nets.py"):
        (here / name).symlink_to(f"in/{name}")
    works(capsys, "fuse", *AB, "-o", "ab.safetensors", *MODEL, "--method", "wb", "--option", "updates=3", "--seed", 5)
    first = (here / "ab.safetensors").read_bytes()
    command = works(capsys, "inspect", "ab.safetensors")["provenance"]["command"].split()
    assert command[0] == "transfuse"
    works(capsys, *command[1:], "--force")
    assert (here / "ab.safetensors").read_bytes() == first


def test_a_layout_instead_of_a_model(here, capsys):
    assert works(capsys, "trace", *MODEL)["layout"] == (here / "in/layout.yaml").read_text()
    works(capsys, "fuse", *AB, "-o", "one.safetensors", *MODEL, "--no-synthetic")
    works(capsys, "fuse", *AB, "-o", "two.safetensors", "--layout", "in/layout.yaml")
    one, two = (open_checkpoint(name).tensors for name in ("one.safetensors", "two.safetensors"))
    assert all(torch.equal(one[name], two[name]) for name in one)


@pytest.mark.parametrize(
    "target", [("--target", "1.out=11"), ("--target", "in/nets.py:mlp", "--target-args", "width=11")]
)
def test_one_checkpoint_grows(here, capsys, target):
    works(capsys, "fuse", "in/a.safetensors", "-o", "wide.safetensors", *MODEL, *target)
    x, wide = torch.randn(4, 3, 4), mlp(1, width=11)
    wide.load_state_dict(dict(open_checkpoint("wide.safetensors").tensors))
    torch.testing.assert_close(wide(x), mlp(0)(x))


def test_different_widths_three_models_another_type(here, capsys):
    works(capsys, "fuse", *AB, "in/narrow.safetensors", "-o", "abc.pt", *MODEL, "--dtype", "bfloat16")
    result = open_checkpoint("abc.pt")
    assert {tensor.dtype for tensor in result.tensors.values()} == {torch.bfloat16}
    assert tuple(result.tensors["1.weight"].shape) == (8, 12)


def test_shards(here, capsys):
    told = works(capsys, "fuse", *AB, "-o", "ab.safetensors.index.json", *MODEL, "--shard-size", "300B")
    assert len(told["files"]) > 3
    works(capsys, "align", "in/c.safetensors", "--to", "ab.safetensors.index.json", "-o", "c.safetensors", *MODEL)


@pytest.mark.parametrize("more", [(), ("--terms", "both"), ("--correct", "refit"), ("--method", "activation")])
def test_unlabeled_data(here, capsys, more):
    told = works(capsys, "fuse", *AB, "-o", "ab.pt", *MODEL, "--data", "in/unlabeled.npz", "--no-synthetic", *more)
    inputs = torch.from_numpy(np.load("in/unlabeled.npz")["inputs"])
    wanted = dict(zip([word.strip("-") for word in more[::2]], more[1::2], strict=True))
    expected = transfuse.fuse([mlp(0), mlp(1)], EXAMPLE, data=inputs, synthetic=False, **wanted)
    for name, tensor in expected.model.state_dict().items():
        torch.testing.assert_close(open_checkpoint("ab.pt").tensors[name], tensor)
    assert ("corrected by" in told["status"]) == (expected.correction.method != "none")


def test_fuse_with_a_report(here, capsys):
    works(capsys, "fuse", *AB, "-o", "ab.pt", *MODEL, "--data", "in/data.safetensors", "--report", "page.html")
    assert "</html>" in (here / "page.html").read_text()


def test_report(here, capsys):
    works(capsys, "report", *AB, "-o", "page.html", *MODEL, "--data", "in/data.safetensors")
    assert "barrier" in (here / "page.html").read_text().lower()


def test_a_dry_run_writes_nothing(here, capsys):
    told = works(capsys, "fuse", *AB, "-o", "ab.safetensors", *MODEL, "--dry-run")
    assert told["output_bytes"] == open_checkpoint("in/a.safetensors").bytes
    assert told["widths"] == {"1.out": 8}
    assert told["seconds"] < 5
    assert told["memory_bytes"] >= 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2
    assert written(here) == []


def test_nothing_is_replaced_without_force(here, capsys):
    (here / "ab.safetensors").write_bytes(b"precious")
    code, _, err = call(capsys, "fuse", *AB, "-o", "ab.safetensors", *MODEL)
    assert code == 2
    assert "ab.safetensors exists; pass --force" in err
    assert (here / "ab.safetensors").read_bytes() == b"precious"
    assert call(capsys, "fuse", *AB, "-o", "ab.safetensors", *MODEL, "--force", "-q") == (0, "", "")


# ---------------------------------------------------------------- other verbs


def test_align_keeps_the_function(here, capsys):
    works(capsys, "align", "in/b.safetensors", "--to", "in/a.safetensors", "-o", "b.safetensors", *MODEL)
    x, twin = torch.randn(4, 3, 4), mlp(2)
    twin.load_state_dict(dict(open_checkpoint("b.safetensors").tensors))
    torch.testing.assert_close(twin(x), mlp(1)(x))
    expected = transfuse.align(mlp(1), to=mlp(0), example_inputs=EXAMPLE)
    for one, two in zip(twin.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(one, two)
    assert "averaged with" in (here / "README.md").read_text().replace("\n", " ")


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


def test_barrier_with_a_check(here, capsys):
    data = (*AB, *MODEL, "--data", "in/data.safetensors", "--points", 5)
    told = works(capsys, "barrier", *data, "-o", "barrier.json")
    assert told["barrier"]["error"] >= 0
    assert len(told["positions"]) == 5
    assert transfuse.Barrier.load("barrier.json").height("loss") == pytest.approx(told["barrier"]["loss"])
    aligned = works(capsys, "barrier", *data, "--align")
    assert aligned["values"]["loss"][-1] == pytest.approx(told["values"]["loss"][-1], rel=1e-4)
    assert aligned["values"]["loss"][0] == pytest.approx(told["values"]["loss"][0], rel=1e-4)
    assert call(capsys, "barrier", *data, "--at-most", -1)[0] == 1


def test_plane_with_a_function_and_a_picture(here, capsys):
    told = works(capsys, "plane", *AB, "in/c.safetensors", *MODEL, "--evaluate", "in/nets.py:share_of_ones",
                 "--grid", 3, "--plot", "plane.svg", "-o", "plane.npz")  # fmt: skip
    assert set(told["marks"]) >= {"a", "b", "c"}
    assert (here / "plane.svg").read_text().startswith("<?xml")


@pytest.mark.parametrize("verb", ["barrier", "plane"])
def test_statistics_of_batch_norm_are_computed_anew_if_wanted(here, capsys, verb):
    paths = [f"{name}.pt" for name in "abc"[: 2 if verb == "barrier" else 3]]
    for seed, path in enumerate(paths):
        torch.manual_seed(seed)
        net = nn.Sequential(nn.Flatten(), nn.Linear(12, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
        torch.save(net.state_dict(), path)
    how = (*paths, "--model", "in/nets.py:normed", *(("--points", 3) if verb == "barrier" else ("--grid", 2)))
    data = ("--data", "in/data.safetensors", "--batch-size", 20)
    plain, reset = works(capsys, verb, *how, *data), works(capsys, verb, *how, *data, "--reset-batchnorm")
    assert plain["values"] != reset["values"]
    code, _, err = call(capsys, verb, *how, "--evaluate", "in/nets.py:share_of_ones", "--reset-batchnorm")
    assert code == 2
    assert "pass --data" in err


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


# ---------------------------------------------------------------- run: a YAML file


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


def test_every_flag_has_a_key(here, capsys):
    from transfuse.cli import config

    flags = config._flags()
    assert {"method", "model", "model_args", "layout", "target", "weights", "low_memory", "report", "correct",
            "terms", "force", "json", "shard_size", "example_inputs", "no_proof"} <= set(flags)  # fmt: skip
    typed = config._arguments({"models": ["a", "b"], "out": "c", "low_memory": True, "force": False,
                               "model_args": {"width": 3, "hidden": [1, 2]}}, "x.yml")  # fmt: skip
    options = parser.parse(typed)
    assert options.low_memory is True
    assert options.force is False
    assert options.model_args == ["width=3", "hidden=[1, 2]"]


def test_mistakes_in_a_file_are_named_all_at_once(here, capsys):
    (here / "merge.yml").write_text(
        "merge_metod: wb\nmodels:\n  - {modell: a}\n  - {model: b, parameters: {wieght: 1}}\ntokenizer_source: x\n"
    )
    code, _, err = call(capsys, "run", "merge.yml")
    assert code == 2
    for text in (
        "'merge_metod'; did you mean 'merge_method'?",
        "models, number 1: expected a path",
        "did you mean 'weight'",
        "out_path is missing",
        "unknown key 'tokenizer_source'",
    ):
        assert text in err
    for content in ("- 1", "a: [", "\0"):
        (here / "merge.yml").write_text(content)
        assert call(capsys, "run", "merge.yml")[0] == 2
    assert call(capsys, "run", "none.yml")[0] == 2


# ---------------------------------------------------------------- bad input: one message, nothing written


BAD = {
    "missing file": ((*AB[:1], "in/z.safetensors", *MODEL), "in/z.safetensors does not exist"),
    "truncated": ((*AB[:1], "cut.safetensors", *MODEL), "is no whole safetensors file"),
    "corrupt": ((*AB[:1], "noise.safetensors", *MODEL), "is no whole safetensors file"),
    "a pickle with code": ((*AB[:1], "evil.pt", *MODEL), "transfuse never does that"),
    "no such factory": ((*AB, "--model", "in/nets.py:cnn"), "has no cnn; it has mlp"),
    "no such module": ((*AB, "--model", "nothing.here:net"), "cannot be imported (ModuleNotFoundError"),
    "no such file of code": ((*AB, "--model", "none.py:net"), "there is no file none.py"),
    "not a module": ((*AB, "--model", "in/nets.py:not_a_module"), "gives int; expected a class or function"),
    "a built-in name misspelt": ((*AB, "--model", "mplnet"), "did you mean mlpnet?"),
    "arguments that the factory has not": ((*AB, *MODEL, "--model-args", "depth=3"), "unexpected keyword argument"),
    "no architecture": (AB, "pass --model SPEC, or --layout FILE"),
    "no inputs": ((*AB, "--model", "in/nets.py:mlp"), "pass --input-shape"),
    "inputs of another shape": ((*AB, "--model", "in/nets.py:mlp", "--input-shape", "5"), "(2x5 and 12x8)"),
    "tensors of another model": (("in/other.safetensors", "in/b.safetensors", *MODEL), "missing: 3.weight"),
    "numbers that are none": (("nan.safetensors", "in/b.safetensors", *MODEL), "nan.safetensors: 3.bias"),
    "shapes of another model": (("in/a.safetensors", "bad.safetensors", *MODEL), "tensor 1.bias axis 0"),
    "the same file twice": (("in/a.safetensors", "twin.safetensors", *MODEL), "are the same file"),
    "one alone": (("in/a.safetensors", *MODEL), "one checkpoint alone"),
    "more weights than models": ((*AB, *MODEL, "--weights", "1", "2", "3"), "3 weights for 2 models"),
    "weights below zero": ((*AB, *MODEL, "--weights", "1", "-2"), "expected non-negative"),
    "unknown method": ((*AB, *MODEL, "--method", "rebasn"), "did you mean rebasin?"),
    "unknown option": ((*AB, *MODEL, "--option", "restart=3"), "no option is called 'restart'"),
    "an option without a value": ((*AB, *MODEL, "--option", "restarts"), "expected KEY=VALUE"),
    "unknown space": ((*AB, *MODEL, "--target", "2.out=9"), "no space is called '2.out'"),
    "unknown flag": ((*AB, *MODEL, "--fast"), "unrecognized arguments: --fast"),
    "a shape that is none": ((*AB, "--model", "in/nets.py:mlp", "--input-shape", "3,x"), "is no shape"),
    "a layout that is none": ((*AB, "--layout", "in/nets.py"), "layout"),
    "activations without data": ((*AB, *MODEL, "--terms", "both"), "pass inputs for that (--data)"),
    "an unknown correction": ((*AB, *MODEL, "--correct", "repare"), "expected auto, none"),
    "data and little memory": ((*AB, *MODEL, "--data", "in/unlabeled.npz", "--low-memory"), "works on tensors alone"),
    "an unknown ending": ((*AB, *MODEL, "-o", "ab.onnx"), "the ending says the format"),
    "a folder that is not there": ((*AB, *MODEL, "-o", "no/ab.pt"), "the folder no does not exist"),
    "an input as output": ((*AB, *MODEL, "-o", "in/a.safetensors", "--force"), "is one of the inputs"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_mistake_is_one_message_and_nothing_is_written(here, capsys, name):
    content = (here / "in/a.safetensors").read_bytes()
    (here / "cut.safetensors").write_bytes(content[:-9])
    (here / "noise.safetensors").write_bytes(random.Random(0).randbytes(500))
    torch.save({"w": Trap(here / "sprung")}, here / "evil.pt")
    os.link(here / "in/a.safetensors", here / "twin.safetensors")
    state = mlp(0).state_dict()
    safetensors.torch.save_file({**state, "1.weight": torch.ones(9, 12)}, here / "bad.safetensors")
    safetensors.torch.save_file({**state, "3.bias": torch.full((3,), torch.nan)}, here / "nan.safetensors")
    before = written(here)
    arguments, message = BAD[name]
    out = () if "-o" in arguments else ("-o", "ab.safetensors")
    code, told, err = call(capsys, "fuse", *arguments, *out)
    assert code == 2
    assert message in err
    assert err.startswith("transfuse: ")
    assert "Traceback" not in err
    assert told == ""
    assert written(here) == before


class Trap:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_missing_and_unexpected_tensors_are_in_one_message(here, capsys):
    _, _, err = call(capsys, "fuse", "in/other.safetensors", "in/b.safetensors", "-o", "ab.pt", *MODEL)
    for text in ("missing: 1.bias", "missing: 3.weight", "missing: 3.bias", "unexpected: x"):
        assert text in err


def test_other_verbs_make_no_tracebacks_either(here, capsys):
    (here / "there.json").touch()
    inputs = np.load("in/unlabeled.npz")["inputs"]
    np.savez("short.npz", inputs=inputs, labels=np.zeros(39, int))
    np.savez("high.npz", inputs=inputs, labels=np.arange(40) % 4)
    before = written(here)
    cases = [
        (("barrier", *AB, *MODEL), "pass --data with labels"),
        (("barrier", *AB, *MODEL, "--data", "in/unlabeled.npz"), "has no `labels`"),
        (("barrier", *AB, *MODEL, "--data", "in/none.npz"), "there is no such file"),
        (("barrier", *AB, *MODEL, "--data", "in/a.safetensors"), "expected `inputs`"),
        (("barrier", *AB, *MODEL, "--data", "in/data.safetensors", "-o", "there.json"), "there.json exists"),
        (("barrier", *AB, *MODEL, "--data", "in/data.safetensors", "-o", "x.txt"), "expected .json or .npz"),
        (("barrier", *AB, *MODEL[:2], "--input-shape", "5", "--data", "in/data.safetensors"), "do not fit"),
        (("barrier", *AB, *MODEL, "--data", "in/data.safetensors", "--plot", "x.txt"), "expected .svg, .pdf, .png"),
        (("barrier", *AB, *MODEL[:2], "--data", "digits"), "the model cannot take inputs of shape 1,8,8"),
        (("barrier", *AB, *MODEL, "--data", "short.npz"), "40 inputs and 39 labels"),
        (("plane", *AB, "in/c.safetensors", *MODEL, "--data", "high.npz"), "from 0 to 3 for 3 outputs"),
        (("report", *AB, *MODEL, "--data", "high.npz", "-o", "x.html"), "from 0 to 3 for 3 outputs"),
        (("trace",), "pass --model"),
        (("methods", "none"), "no method is called"),
        (("inspect", "none"), "does not exist"),
        (("inspect", "in"), "holds no weights"),
        (("trace", "--model", "in"), "no config.json"),
        ((), "name a verb"),
    ]  # fmt: skip
    for arguments, message in cases:
        code, _, err = call(capsys, *arguments)
        assert code == 2, err
        assert message in err
    assert written(here) == before


def test_an_error_in_the_users_function_is_told(here, capsys):
    code, _, err = call(capsys, "barrier", *AB, *MODEL, "--evaluate", "in/nets.py:fails")
    assert code in (1, 2)
    assert "no" in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("package", "arguments"),
    [
        ("shtab", ("completion", "bash")),
        ("matplotlib", ("barrier", *AB, *MODEL, "--data", "in/data.safetensors", "--points", "3", "--plot", "b.svg")),
        ("transformers", ("trace", "--model", "hf")),
    ],
)
def test_an_absent_package_is_named_with_its_extra(here, capsys, monkeypatch, package, arguments):
    (here / "hf").mkdir()
    (here / "hf" / "config.json").write_text("{}")
    for name in [each for each in sys.modules if each.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    code, _, err = call(capsys, *arguments)
    assert code in (1, 2)
    assert "pip install 'transfuse[" in err
    assert written(here) == ["hf"]


def test_no_space_on_the_disk(here, capsys, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": 9})())
    code, _, err = call(capsys, "fuse", *AB, "-o", "ab.pt", *MODEL)
    assert code == 2
    assert "make room" in err
    assert written(here) == []


@pytest.mark.parametrize("ending", ["safetensors", "pt", "safetensors.index.json"])
def test_a_disk_that_fills_up_while_writing(here, capsys, monkeypatch, ending):
    def full(*args):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("os.fsync", full)
    monkeypatch.setattr("transfuse.cli.fusing.check_writable", lambda *args, **kwargs: None)
    code, _, err = call(capsys, "fuse", *AB, "-o", f"ab.{ending}", *MODEL)
    assert code == 1
    assert "No space left on device; nothing was left half-written" in err
    assert written(here) == []


def test_debug_shows_the_traceback(here, capsys):
    _, _, err = call(capsys, "inspect", "none", "--debug")
    assert "Traceback" in err


def test_ctrl_c_leaves_nothing(here, capsys, monkeypatch):
    from transfuse.checkpoints import safetensors_file

    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(safetensors_file, "raw", interrupted)
    code, _, err = call(capsys, "fuse", *AB, "-o", "ab.safetensors", *MODEL)
    assert code == 130
    assert "stopped" in err
    assert written(here) == []


# ---------------------------------------------------------------- Hugging Face folders, export archives


def test_hugging_face_folders(here, capsys):
    transformers = pytest.importorskip("transformers")
    for seed, name in enumerate("ab"):
        torch.manual_seed(seed)
        config = transformers.GPT2Config(n_embd=12, n_layer=1, n_head=2, n_positions=16, vocab_size=29)
        transformers.GPT2LMHeadModel(config).save_pretrained(here / name)
    works(capsys, "fuse", "a", "b", "-o", "ab", "--model", "a", "--option", "restarts=0")
    fused = transformers.GPT2LMHeadModel.from_pretrained(here / "ab")
    assert fused.lm_head.weight.data_ptr() == fused.transformer.wte.weight.data_ptr()
    assert sorted(each.name for each in (here / "ab").iterdir()) == ["README.md", *sorted(
        each.name for each in (here / "a").iterdir())]  # fmt: skip
    assert written(here) == ["a", "ab", "b"]


def test_export_archives(here, capsys):
    x = torch.randn(2, 3, 4)
    for seed, name in enumerate("ab"):
        torch.export.save(torch.export.export(mlp(seed).eval(), (x,)), here / f"{name}.pt2")
    works(capsys, "fuse", "a.pt2", "b.pt2", "-o", "ab.pt2", "--model", "a.pt2")
    expected = transfuse.fuse([mlp(0), mlp(1)], x, correct="none").model(x)
    torch.testing.assert_close(torch.export.load("ab.pt2").module()(x), expected)


# ---------------------------------------------------------------- the real command


def command(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "transfuse", *map(str, arguments)],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
        **options,
    )


def test_help_needs_no_torch_and_shows_examples():
    script = (
        "import sys; from transfuse.cli import main; main(['--help']); main(['fuse', '--help']); main(['--version']);"
        "assert not {'torch', 'numpy', 'yaml'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], env=ENVIRONMENT, capture_output=True, text=True, check=True)
    assert "examples:" in done.stdout
    assert "--low-memory" in done.stdout
    assert f"transfuse {transfuse.__version__}" in done.stdout


def test_the_real_command(here):
    done = command("fuse", *AB, "-o", "ab.safetensors", *MODEL)
    assert (done.returncode, done.stderr) == (0, "")
    assert "wrote ab.safetensors, README.md" in done.stdout


def test_a_malicious_pickle_creates_nothing(here):
    torch.save({"state_dict": {"1.weight": torch.ones(2)}, "x": Trap(here / "sprung")}, here / "evil.pt")
    done = command("fuse", "in/a.safetensors", "evil.pt", "-o", "ab.safetensors", *MODEL)
    assert done.returncode == 2
    assert "transfuse never does that" in done.stderr
    assert written(here) == ["evil.pt"]


KILLS = 20
ZYGOTE = """
import os, sys
from transfuse.cli import main
import transfuse.cli.fusing
print("ready", flush=True)
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        os._exit(main(line.split()))
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


def test_a_kill_at_any_moment_leaves_the_old_file_or_the_new(here):
    """Forks of one process that has torch loaded run the real command; each is killed while it writes."""
    for number, name in enumerate("ab"):
        torch.manual_seed(number)
        safetensors.torch.save_file(
            {f"{i}.weight": torch.randn(400, 500) for i in range(12)}, here / f"{name}.safetensors"
        )
    spaces = "{spaces: {s: 400}, tensors: {" + ", ".join(f"{i}.weight: [s, 500]" for i in range(12)) + "}}"
    (here / "layout.yaml").write_text(spaces)
    old = safetensors.torch.save({"old": torch.ones(2)})
    arguments = "fuse a.safetensors b.safetensors -o out.safetensors --layout layout.yaml --method vanilla --force -q"
    early = 0
    with subprocess.Popen(
        [sys.executable, "-c", ZYGOTE], env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "ready\n"
        for moment in random.Random(0).choices(range(30), k=KILLS):
            (here / "out.safetensors").write_bytes(old)
            early += _killed(process, arguments, here, moment / 1000)
        process.stdin.write(arguments + "\n")
        process.stdin.close()
        process.stdout.read()
    assert early >= 3, "the kills came too late to show anything"
    assert not list(here.glob(".*.part")), "what killed runs left is removed by the next one"
    assert len(open_checkpoint(here / "out.safetensors").tensors) == 12


def _killed(process, arguments, folder, seconds):
    """Run the command, kill it so long after it began to write; whether the old file is still there."""
    old = (folder / "out.safetensors").read_bytes()
    process.stdin.write(arguments + "\n")
    process.stdin.flush()
    child = int(process.stdout.readline())
    _wait_for_part(folder, child)
    time.sleep(seconds)
    with suppress(ProcessLookupError):  # it was done before
        os.kill(child, signal.SIGKILL)
    assert int(process.stdout.readline()) in (0, -9)
    if (folder / "out.safetensors").read_bytes() == old:
        return True
    assert len(open_checkpoint(folder / "out.safetensors").tensors) == 12
    return False


def _wait_for_part(folder, child):
    """Until the temporary file is there (or the command has finished already)."""
    deadline = time.monotonic() + 60
    while not list(folder.glob(f".out.safetensors.{child}.*")) and time.monotonic() < deadline:
        if not Path(f"/proc/{child}").exists():
            return
        time.sleep(0.001)
