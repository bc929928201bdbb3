"""The safetensors format, against the library that owns it; and what hostile files do."""

import json
import os
import struct

import pytest
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from checkpoint_states import TENSORS, plain, same, write
from transfuse import InputError
from transfuse.checkpoints import (
    open_checkpoint,
)
from transfuse.checkpoints.safetensors_file import DTYPES


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
