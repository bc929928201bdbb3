"""The verbs that write checkpoints: `fuse` and `align`, in every format."""

import resource

import numpy as np
import pytest
import torch

import transfuse
from command_calls import AB, EXAMPLE, MODEL, call, mlp, works, written
from transfuse.checkpoints import open_checkpoint


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


def test_workers_change_nothing_and_exclude_a_scheduler_and_low_memory(here, capsys):
    for out, further in (("one", []), ("two", ["--workers", 2])):
        works(capsys, "fuse", *AB, "-o", f"{out}.safetensors", *MODEL, "--correct", "none", *further)
    one, two = (open_checkpoint(f"{out}.safetensors").tensors for out in ("one", "two"))
    assert all(torch.equal(one[name], two[name]) for name in one)
    code, _, said = call(capsys, "fuse", *AB, "-o", "c.pt", *MODEL, "--workers", 2, "--scheduler", "tcp://127.0.0.1:9")
    assert code
    assert "give one of them" in said
    code, _, said = call(capsys, "fuse", *AB, "-o", "c.pt", *MODEL, "--workers", 2, "--low-memory")
    assert code
    assert "leave one of them out" in said


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


@pytest.mark.parametrize("more", [("--width", "1.5"), ("--target", "1.*=1.5"), ("--target", "1.out=12")])
def test_a_factor_of_the_width(here, capsys, more):
    works(capsys, "fuse", *AB, "-o", "wide.safetensors", *MODEL, "--correct", "none", *more)
    assert len(open_checkpoint("wide.safetensors").tensors["1.weight"]) == 12


@pytest.mark.parametrize("amount", ["1.6x", "1.6x operations"])
def test_a_budget(here, capsys, amount):
    told = works(capsys, "fuse", *AB, "-o", "wide.safetensors", *MODEL, "--correct", "none", "--budget", amount)
    width = len(open_checkpoint("wide.safetensors").tensors["1.weight"])
    assert 8 < width < 16
    assert told["widths"] == {"1.out": width}
    assert amount.split()[-1].replace("1.6x", "parameters") in told["status"]


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


def test_a_dry_run_writes_nothing(here, capsys):
    told = works(capsys, "fuse", *AB, "-o", "ab.safetensors", *MODEL, "--dry-run")
    assert told["output_bytes"] == open_checkpoint("in/a.safetensors").bytes
    assert told["widths"] == {"1.out": 8}
    assert told["seconds"] < 5
    assert told["memory_bytes"] >= 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2
    assert written(here) == []


def test_a_dry_run_of_align_writes_nothing(here, capsys):
    told = works(capsys, "align", "in/b.safetensors", "--to", "in/a.safetensors", "-o", "b.pt", *MODEL, "--dry-run")
    assert told["inputs"] == ["in/a.safetensors", "in/b.safetensors"]
    assert written(here) == []


def test_nothing_is_replaced_without_force(here, capsys):
    (here / "ab.safetensors").write_bytes(b"precious")
    code, _, err = call(capsys, "fuse", *AB, "-o", "ab.safetensors", *MODEL)
    assert code == 2
    assert "ab.safetensors exists; pass --force" in err
    assert (here / "ab.safetensors").read_bytes() == b"precious"
    assert call(capsys, "fuse", *AB, "-o", "ab.safetensors", *MODEL, "--force", "-q") == (0, "", "")


def test_align_keeps_the_function(here, capsys):
    works(capsys, "align", "in/b.safetensors", "--to", "in/a.safetensors", "-o", "b.safetensors", *MODEL)
    x, twin = torch.randn(4, 3, 4), mlp(2)
    twin.load_state_dict(dict(open_checkpoint("b.safetensors").tensors))
    torch.testing.assert_close(twin(x), mlp(1)(x))
    expected = transfuse.align(mlp(1), to=mlp(0), example_inputs=EXAMPLE)
    for one, two in zip(twin.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(one, two)
    assert "averaged with" in (here / "README.md").read_text().replace("\n", " ")


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


def test_checkpoints_as_they_are_found_are_taken_and_where_their_state_was_is_told(here, capsys):
    from torch import nn

    for number, name in enumerate("ab"):
        torch.manual_seed(number)
        state = nn.Sequential(
            nn.Flatten(), nn.Linear(12, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3)
        ).state_dict()  # fmt: skip
        old = {f"module.{key}": value for key, value in state.items() if not key.endswith("num_batches_tracked")}
        torch.save({"net": old, "acc": torch.tensor(93.1), "optimizer": {"state": {}}}, f"{name}.pth")
    how = ("--model", "in/nets.py:normed", "--input-shape", "3,4", "--correct", "none", "-o", "ab.pth")
    code, out, err = call(capsys, "fuse", "a.pth", "b.pth", *how)
    assert code == 0, err
    assert "a.pth: the state was found under 'net', its names without 'module.'" in out
    assert set(torch.load("ab.pth", weights_only=True)["net"]) >= set(old)
    _, out, _ = call(capsys, "inspect", "a.pth")
    assert "(found under 'net', its names without 'module.')" in out


def test_a_plain_average_of_files_needs_no_network_and_tells_what_does_not_fit(here, capsys):
    for number, name in enumerate("ab"):
        state = {"w": torch.full((2, 3), float(number)), "empty": torch.zeros(0, 3), "n": torch.tensor(7)}
        torch.save(state, f"{name}.pt")
    torch.save({**state, "w": torch.zeros(2, 4)}, "c.pt")
    works(capsys, "fuse", "a.pt", "b.pt", "-o", "ab.pt", "--method", "vanilla")
    assert torch.equal(torch.load("ab.pt")["w"], torch.full((2, 3), 0.5))
    code, _, err = call(capsys, "fuse", "a.pt", "c.pt", "-o", "ac.pt", "--method", "vanilla")
    assert code == 2
    assert "c.pt: tensor w axis 1 has length 4, expected 3" in err
