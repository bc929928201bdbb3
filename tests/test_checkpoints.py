"""Checkpoints: what is written is what is read, in every format, by this package and by the libraries that own them."""

import json
import os
import pickle
import struct
from collections import OrderedDict
from dataclasses import replace
from pathlib import Path

import pytest
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from transfuse import InputError
from transfuse.checkpoints import (
    KEY,
    Output,
    Provenance,
    card_path,
    check_writable,
    fitted,
    open_checkpoint,
    origins_of,
    write_checkpoint,
)
from transfuse.checkpoints.safetensors_file import DTYPES

MADE = Provenance((), "fuse", "auto", "nobody", {}, 0, "converged", 1.5, "transfuse fuse", {})
TENSORS = {
    "a.weight": torch.arange(6.0).view(2, 3),
    "a.half": torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
    "count": torch.tensor(7),
    "empty": torch.zeros(0, 3),
}


def same(one, other):
    assert set(one) == set(other)
    for name in one:
        torch.testing.assert_close(one[name], other[name], rtol=0, atol=0, equal_nan=True)


def write(path, tensors, like=None, **options):
    like = like or plain(path.parent, tensors)
    return write_checkpoint(path, Output(tensors, like, MADE, **options))


def plain(folder, tensors):
    safetensors.torch.save_file(tensors, folder / "plain.safetensors")
    return open_checkpoint(folder / "plain.safetensors")


# ---------------------------------------------------------------- safetensors, against the library


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
def test_every_type_comes_through_both_ways(tmp_path, dtype):
    tensors = {"x": torch.arange(6).to(dtype).view(2, 3), "y": torch.ones((), dtype=dtype)}
    same(plain(tmp_path, tensors).tensors, tensors)
    write(tmp_path / "out.safetensors", tensors)
    same(safetensors.torch.load_file(tmp_path / "out.safetensors"), tensors)


shapes = st.lists(st.integers(0, 4), max_size=3)
kinds = st.sampled_from([torch.float32, torch.float64, torch.bool, torch.int8, torch.float16])


@settings(max_examples=30)
@given(st.dictionaries(st.text(min_size=1, max_size=5), st.tuples(shapes, kinds), min_size=1, max_size=5))
def test_any_state_comes_through(tmp_path_factory, specs):
    folder = tmp_path_factory.mktemp("any")
    tensors = {name: (torch.rand(shape) * 9).to(dtype) for name, (shape, dtype) in specs.items()}
    write(folder / "out.safetensors", tensors)
    same(safetensors.torch.load_file(folder / "out.safetensors"), tensors)
    same(open_checkpoint(folder / "out.safetensors").tensors, tensors)


def test_tensors_are_mapped_not_read_and_files_are_never_changed(tmp_path):
    checkpoint = plain(tmp_path, TENSORS)
    before = checkpoint.path.read_bytes()
    checkpoint.tensors["a.weight"].zero_()
    assert checkpoint.path.read_bytes() == before
    assert float(checkpoint.tensors["a.weight"].sum()) == 15


def sparse(path, rows):
    """A file with two tensors of zeros, of which the file system keeps nothing but the header."""
    offsets = {name: [4096 * rows * i, 4096 * rows * (i + 1)] for i, name in enumerate("ab")}
    header = {name: {"dtype": "F32", "shape": [rows, 1024], "data_offsets": each} for name, each in offsets.items()}
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + 2 * 4096 * rows)


def test_a_file_larger_than_memory_is_opened(tmp_path):
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4096
    try:
        sparse(tmp_path / "huge.safetensors", rows=pages * 3 // 5)
    except OSError:
        pytest.skip("the file system keeps no holes")
    checkpoint = open_checkpoint(tmp_path / "huge.safetensors")
    assert checkpoint.bytes > 4096 * pages
    assert float(checkpoint.tensors["b"][-1, -1]) == 0


def test_tensors_that_are_not_aligned_are_read(tmp_path):
    header = {"x": {"dtype": "U8", "shape": [3], "data_offsets": [0, 3]},
              "y": {"dtype": "F32", "shape": [2], "data_offsets": [3, 11]}}  # fmt: skip
    text = json.dumps(header).encode()
    (tmp_path / "a.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + b"abc" + struct.pack("<ff", 1.5, 2))
    same(open_checkpoint(tmp_path / "a.safetensors").tensors,
         {"x": torch.tensor(list(b"abc"), dtype=torch.uint8), "y": torch.tensor([1.5, 2.0])})  # fmt: skip


HOSTILE = {
    "a gap": [["F32", [1], [0, 4]], ["F32", [1], [8, 12]]],
    "an overlap": [["F32", [2], [0, 8]], ["F32", [2], [4, 12]]],
    "a size that is none": [["F32", [-1], [0, 4]], ["F32", [2], [4, 12]]],
    "a size beyond all memory": [["F32", [1 << 62, 1 << 62], [0, 4]], ["F32", [2], [4, 12]]],
    "bytes beyond the end": [["F32", [1], [0, 4]], ["F32", [100], [4, 404]]],
    "bytes before the start": [["F32", [1], [-4, 0]], ["F32", [3], [0, 12]]],
    "another number of bytes": [["F32", [2], [0, 4]], ["F32", [2], [4, 12]]],
    "a type that there is not": [["F99", [1], [0, 4]], ["F32", [2], [4, 12]]],
}


@pytest.mark.parametrize("header", HOSTILE.values(), ids=HOSTILE)
def test_a_header_that_lies_is_refused(tmp_path, header):
    specs = zip("ab", header, strict=True)
    text = json.dumps({name: dict(zip(("dtype", "shape", "data_offsets"), spec, strict=True)) for name, spec in specs})
    (tmp_path / "a.safetensors").write_bytes(struct.pack("<Q", len(text)) + text.encode() + bytes(12))
    with pytest.raises(InputError, match=r"a\.safetensors is no whole safetensors file .*; save or download it again"):
        open_checkpoint(tmp_path / "a.safetensors")


def test_a_type_that_pytorch_has_not_is_named(tmp_path):
    text = json.dumps({"w": {"dtype": "F6_E2M3", "shape": [4], "data_offsets": [0, 3]}}).encode()
    (tmp_path / "a.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + bytes(3))
    with pytest.raises(InputError, match="tensor w has the unknown type 'F6_E2M3'"):
        open_checkpoint(tmp_path / "a.safetensors")


@pytest.mark.parametrize("where", ["length", "header", "numbers", "one more"])
def test_a_damaged_file_says_so(tmp_path, where):
    path = plain(tmp_path, TENSORS).path
    content = path.read_bytes()
    length = struct.unpack("<Q", content[:8])[0]
    cut = {"length": 5, "header": 8 + length // 2, "numbers": len(content) - 3, "one more": None}[where]
    path.write_bytes(content[:cut] if cut else content + b"\0")
    with pytest.raises(InputError, match=r"no whole safetensors file .*; save or download it again"):
        open_checkpoint(path)


@settings(max_examples=60)
@given(st.data())
def test_no_damage_is_worse_than_an_error(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("damage") / "x.safetensors"
    content = bytearray(safetensors.torch.save(TENSORS))
    for _ in range(3):
        content[data.draw(st.integers(0, 200))] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    try:
        checkpoint = open_checkpoint(path)
    except InputError:
        return
    assert all(tensor.numel() >= 0 for tensor in checkpoint.tensors.values())


# ---------------------------------------------------------------- ties, prefixes, wrappers, metadata


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.read = nn.Embedding(5, 3), nn.Linear(3, 5, bias=False)
        self.read.weight = self.embed.weight


def test_ties_survive_in_safetensors(tmp_path):
    model = Tied()
    safetensors.torch.save_model(model, str(tmp_path / "a.safetensors"))
    checkpoint = open_checkpoint(tmp_path / "a.safetensors")
    assert set(checkpoint.tensors) == set(model.state_dict())
    write_checkpoint(tmp_path / "b.safetensors", Output(dict(checkpoint.tensors), checkpoint, MADE))
    twin = Tied()
    safetensors.torch.load_model(twin, str(tmp_path / "b.safetensors"))
    same(twin.state_dict(), model.state_dict())
    assert len(safetensors.torch.load_file(tmp_path / "b.safetensors")) == 1


def test_ties_survive_in_pytorch_files(tmp_path):
    torch.save(Tied().state_dict(), tmp_path / "a.pt")
    checkpoint = open_checkpoint(tmp_path / "a.pt")
    assert dict(checkpoint.ties) == {"read.weight": "embed.weight"}
    write_checkpoint(tmp_path / "b.pt", Output(dict(checkpoint.tensors), checkpoint, MADE))
    state = torch.load(tmp_path / "b.pt", weights_only=True)
    assert state["embed.weight"].data_ptr() == state["read.weight"].data_ptr()


def test_a_tensor_that_the_model_ties_need_not_be_in_the_file(tmp_path):
    checkpoint = plain(tmp_path, {"embed.weight": torch.ones(5, 3)})
    full = fitted(checkpoint, ["embed.weight", "read.weight"], {"read.weight": "embed.weight"})
    same(full.tensors, {"embed.weight": torch.ones(5, 3), "read.weight": torch.ones(5, 3)})
    write_checkpoint(tmp_path / "b.safetensors", Output(dict(full.tensors), full, MADE))
    assert set(safetensors.torch.load_file(tmp_path / "b.safetensors")) == {"embed.weight"}


@pytest.mark.parametrize("key", [None, "state_dict", "model_state_dict", "net"])
@pytest.mark.parametrize("prefix", ["", "module.", "_orig_mod.module."])
@pytest.mark.parametrize("old", [False, True])
def test_wrapped_states_are_found_and_written_alike(tmp_path, key, prefix, old):
    inner = OrderedDict((prefix + name, tensor) for name, tensor in TENSORS.items())
    content = {key: inner, "epoch": 3, "lr": [0.1], "optimizer": {"state": {0: torch.ones(2)}}} if key else inner
    torch.save(content, tmp_path / "a.ckpt", _use_new_zipfile_serialization=not old)
    checkpoint = open_checkpoint(tmp_path / "a.ckpt")
    same(checkpoint.tensors, TENSORS)
    write_checkpoint(tmp_path / "b.ckpt", Output(dict(checkpoint.tensors), checkpoint, MADE))
    written = torch.load(tmp_path / "b.ckpt", weights_only=True)
    same(written[key] if key else written, inner)
    if key:
        assert set(written) == {key, "epoch", "lr", "transfuse"}
        assert written["transfuse"]["method"] == "auto"
    else:
        assert written._metadata["transfuse"]["method"] == "auto"


def test_a_result_loads_where_the_input_did(tmp_path):
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    torch.save(model.state_dict(), tmp_path / "a.pth")
    checkpoint = open_checkpoint(tmp_path / "a.pth")
    write_checkpoint(tmp_path / "b.pth", Output(dict(checkpoint.tensors), checkpoint, MADE))
    state = torch.load(tmp_path / "b.pth", weights_only=True)
    assert state._metadata["1"]["version"] == 2
    model.load_state_dict(state)


def test_any_common_prefix_goes_if_the_model_has_none(tmp_path):
    checkpoint = plain(tmp_path, {f"model.net.{name}": tensor for name, tensor in TENSORS.items()})
    full = fitted(checkpoint, list(TENSORS))
    same(full.tensors, TENSORS)
    write_checkpoint(tmp_path / "b.safetensors", Output(dict(full.tensors), full, MADE))
    assert set(safetensors.torch.load_file(tmp_path / "b.safetensors")) == set(checkpoint.tensors)


def test_all_that_does_not_fit_is_named_at_once(tmp_path):
    with pytest.raises(InputError) as caught:
        fitted(plain(tmp_path, TENSORS), ["a.weight", "a.half", "b", "c", "count"])
    for text in ("missing: b", "missing: c", "unexpected: empty", "--model"):
        assert text in str(caught.value)


def test_metadata_survive_and_provenance_is_added(tmp_path):
    safetensors.torch.save_file(TENSORS, tmp_path / "a.safetensors", {"format": "pt", "note": "grüße"})
    checkpoint = open_checkpoint(tmp_path / "a.safetensors")
    made = replace(MADE, sources=origins_of([checkpoint], [1.0]))
    for name in ("b.safetensors", "c.safetensors"):  # the second replaces the provenance of the first
        write_checkpoint(tmp_path / name, Output(dict(checkpoint.tensors), checkpoint, made))
        checkpoint = open_checkpoint(tmp_path / name)
    assert {key: checkpoint.metadata[key] for key in ("format", "note")} == {"format": "pt", "note": "grüße"}
    (source,) = json.loads(checkpoint.metadata[KEY])["sources"]
    assert len(source["sha256"]["a.safetensors"]) == 64


# ---------------------------------------------------------------- no code is ever run


class Trap:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.mark.parametrize("suffix", [".pt", ".bin", ".safetensors", ".pt2"])
@pytest.mark.parametrize("saved", ["torch", "old", "pickle", "wrapped"])
def test_a_pickle_with_code_does_nothing(tmp_path, suffix, saved):
    path, trap = tmp_path / f"evil{suffix}", Trap(tmp_path / "sprung")
    content = {"state_dict": {"w": torch.ones(2)}, "x": trap} if saved == "wrapped" else {"w": trap}
    if saved == "pickle":
        path.write_bytes(pickle.dumps(content))
    else:
        torch.save(content, path, _use_new_zipfile_serialization=saved != "old")
    with pytest.raises(InputError, match=r"never does that|no whole|damaged"):
        open_checkpoint(path)
    assert not trap.path.exists()


@pytest.mark.parametrize("content", [b"", b"x", b"hello world" * 9, b"PK\3\4" + b"\0" * 90])
def test_other_files_are_refused(tmp_path, content):
    (tmp_path / "a.pt").write_bytes(content)
    with pytest.raises(InputError, match=r"a\.pt is no whole PyTorch file|holds"):
        open_checkpoint(tmp_path / "a.pt")


@pytest.mark.parametrize("content", [{"a": 1}, [torch.ones(2)], {"optimizer": {"x": torch.ones(1)}}])
def test_a_file_without_a_state_says_what_it_has(tmp_path, content):
    torch.save(content, tmp_path / "a.pt")
    with pytest.raises(InputError, match="holds no state dict"):
        open_checkpoint(tmp_path / "a.pt")


def test_a_missing_file_is_told_with_what_is_there(tmp_path):
    plain(tmp_path, TENSORS)
    with pytest.raises(InputError, match=r"does not exist.*plain\.safetensors"):
        open_checkpoint(tmp_path / "plane.safetensors")


# ---------------------------------------------------------------- shards, folders, archives


def test_shards_come_through_and_old_ones_go(tmp_path):
    tensors = {f"t{i}": torch.full((10,), float(i)) for i in range(7)}
    out = tmp_path / "m.safetensors.index.json"
    write(out, tensors, shard_bytes=100)
    checkpoint = open_checkpoint(out)
    assert checkpoint.kind == "sharded"
    assert len(checkpoint.files) == 4
    same(checkpoint.tensors, tensors)
    write_checkpoint(out, Output(tensors, checkpoint, replace(MADE, seed=1), shard_bytes=200))
    same(open_checkpoint(out).tensors, tensors)
    assert len(list(tmp_path.glob("m-*.safetensors"))) == 2


def test_a_shard_that_is_not_there_is_named(tmp_path):
    out = tmp_path / "m.safetensors.index.json"
    write(out, {"x": torch.ones(9), "y": torch.ones(9)}, shard_bytes=40)
    next(tmp_path.glob("m-*-00002-*")).unlink()
    with pytest.raises(InputError, match=r"files that are not there:\n  - m-.*00002"):
        open_checkpoint(out)


@pytest.mark.parametrize("shard_bytes", [10**9, 300])
def test_a_hugging_face_folder_comes_through(tmp_path, shard_bytes):
    source = tmp_path / "a"
    source.mkdir()
    (source / "config.json").write_text('{"model_type": "none"}')
    safetensors.torch.save_file({"x": torch.ones(50), "y": torch.ones(50)}, source / "model.safetensors")
    checkpoint = open_checkpoint(source)
    for _ in range(2):  # into an empty place, then over the old folder
        write_checkpoint(tmp_path / "b", Output(dict(checkpoint.tensors), checkpoint, MADE, shard_bytes=shard_bytes))
    twin = open_checkpoint(tmp_path / "b")
    assert twin.kind == "huggingface"
    same(twin.tensors, checkpoint.tensors)
    assert (tmp_path / "b" / "config.json").read_text() == '{"model_type": "none"}'
    assert "auto" in (tmp_path / "b" / "README.md").read_text()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a", "b"]


def test_an_export_archive_comes_through_and_still_runs(tmp_path):
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)).eval(), torch.randn(2, 3)
    torch.export.save(torch.export.export(model, (x,)), tmp_path / "a.pt2")
    checkpoint = open_checkpoint(tmp_path / "a.pt2")
    same(checkpoint.tensors, model.state_dict())
    doubled = {name: tensor * 2 for name, tensor in checkpoint.tensors.items()}
    write_checkpoint(tmp_path / "b.pt2", Output(doubled, checkpoint, MADE))
    model.load_state_dict(doubled)
    extra = {"transfuse.json": ""}
    torch.testing.assert_close(torch.export.load(tmp_path / "b.pt2", extra_files=extra).module()(x), model(x))
    assert json.loads(extra["transfuse.json"])["method"] == "auto"
    with pytest.raises(InputError, match=r"made for 0\.weight of shape"):
        write_checkpoint(tmp_path / "c.pt2", Output({**doubled, "0.weight": torch.ones(5, 3)}, checkpoint, MADE))
    assert not (tmp_path / "c.pt2").exists()


# ---------------------------------------------------------------- before and after writing


def test_what_cannot_be_written_is_refused_before_work(tmp_path, monkeypatch):
    like = plain(tmp_path, TENSORS)
    (tmp_path / "there.pt").touch()
    (tmp_path / "file").touch()
    refused = {
        tmp_path / "there.pt": "exists; pass --force",
        tmp_path / "no" / "a.pt": "does not exist; create it first",
        tmp_path / "file" / "a.pt": "does not exist; create it first",
        tmp_path / "a.onnx": "the ending says the format",
        tmp_path / "folder": "the ending says the format",
        tmp_path / "a.pt2": "only be written when the first input is one",
    }
    for path, message in refused.items():
        with pytest.raises(InputError, match=message):
            check_writable(path, like, 10)
    check_writable(tmp_path / "there.pt", like, 10, force=True)
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": 9})())
    with pytest.raises(InputError, match=r"needs 10 bytes, but .* has only 9 bytes free; make room"):
        check_writable(tmp_path / "a.pt", like, 10)


def test_a_card_never_replaces_somebody_elses_readme(tmp_path):
    out = tmp_path / "fused.safetensors"
    assert card_path(out).name == "README.md"
    write(out, TENSORS)
    assert card_path(out).name == "README.md"
    assert card_path(tmp_path / "other.safetensors").name == "other.safetensors.README.md"
    (tmp_path / "README.md").write_text("mine")
    write(out, TENSORS)
    assert (tmp_path / "README.md").read_text() == "mine"
    assert "`auto`" in (tmp_path / "fused.safetensors.README.md").read_text()


def test_the_same_work_writes_the_same_bytes(tmp_path):
    first, second = (write(tmp_path / name, TENSORS)[0].read_bytes() for name in ("a.safetensors", "b.safetensors"))
    assert first == second
