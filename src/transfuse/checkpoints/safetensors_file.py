"""The safetensors format: eight bytes with the length of a header, the header in JSON, the numbers.

In: a path. Out: tensors that are mapped into memory when asked for and let go with them; and the way back, one tensor
after another, never all at once. https://huggingface.co/docs/safetensors describes the format.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError
from ..lazy import Entry, LazyState

DTYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
    "I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8,
    "U64": torch.uint64, "U32": torch.uint32, "U16": torch.uint16, "U8": torch.uint8, "BOOL": torch.bool,
    "F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2, "C64": torch.complex64,
}  # fmt: skip
NAMES = {dtype: name for name, dtype in DTYPES.items()}
_LONGEST = 100_000_000  # bytes of a header, as in the reference implementation


def read(path: Path) -> tuple[LazyState, dict[str, str]]:
    """The tensors and the metadata of a file.

    Raises:
        InputError: the file is no safetensors file, or not all of it is there.
    """
    try:
        header, start = _header(path)
        metadata = {str(key): str(value) for key, value in (header.pop("__metadata__", None) or {}).items()}
        places = {name: _place(name, spec, start) for name, spec in header.items()}
        _check_tiling(places, path.stat().st_size, start)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path} is no whole safetensors file ({error}); save or download it again") from error
    entries = [entry for entry, _, _ in places.values()]
    return LazyState(entries, lambda entry: _mapped(path, entry, places[entry.name][1])), metadata


def _header(path: Path) -> tuple[dict[str, Any], int]:
    """The header and where the numbers start."""
    size = path.stat().st_size
    with path.open("rb") as file:
        first = file.read(8)
        if len(first) < 8:
            raise ValueError(f"it has {size} bytes")
        length = struct.unpack("<Q", first)[0]
        if length > min(size - 8, _LONGEST):
            raise ValueError(f"its header would have {length} bytes, of {size} in the file")
        header = json.loads(file.read(length))
    if not isinstance(header, dict):
        raise ValueError("its header is no mapping")
    return header, 8 + length


def _place(name: str, spec: Mapping[str, Any], start: int) -> tuple[Entry, int, int]:
    """What a tensor is, and where in the file it begins and ends."""
    if spec["dtype"] not in DTYPES:
        raise ValueError(f"tensor {name} has the unknown type {spec['dtype']!r}")
    entry = Entry(name, DTYPES[spec["dtype"]], tuple(int(length) for length in spec["shape"]))
    begin, end = spec["data_offsets"]
    if end - begin != entry.bytes or min(begin, *entry.shape, 0) < 0:
        raise ValueError(f"tensor {name} of shape {list(entry.shape)} has {end - begin} bytes")
    return entry, start + begin, start + end


def _check_tiling(places: Mapping[str, tuple[Entry, int, int]], size: int, start: int) -> None:
    """Tensors follow each other without gap or overlap, up to the end of the file."""
    at = start
    for entry, begin, end in sorted(places.values(), key=lambda place: place[1:]):
        if begin != at:
            raise ValueError(f"tensor {entry.name} begins at {begin}, expected {at}")
        at = end
    if at != size:
        raise ValueError(f"its tensors end at {at}, the file has {size} bytes")


def _mapped(path: Path, entry: Entry, begin: int) -> Tensor:
    """A tensor whose pages are read when touched; writing to it would not change the file."""
    if entry.bytes == 0:
        return torch.empty(entry.shape, dtype=entry.dtype)
    buffer = np.memmap(path, np.uint8, "c", offset=begin, shape=(entry.bytes,))
    flat = torch.from_numpy(buffer)
    if begin % entry.dtype.itemsize:  # views need aligned numbers; files of other writers may have others
        flat = flat.clone()
    return flat.view(entry.dtype).view(entry.shape)


def write(file: BinaryIO, entries: Sequence[Entry], tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Write tensors one after another; those of wide types first, so that all are aligned.

    Args:
        file: Open for writing.
        entries: What to write.
        tensors: Where to find it.
        metadata: Texts.
    """
    ordered = sorted(entries, key=lambda entry: (-entry.dtype.itemsize, entry.name))
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    at = 0
    for entry in ordered:
        offsets = [at, at := at + entry.bytes]
        header[entry.name] = {"dtype": NAMES[entry.dtype], "shape": list(entry.shape), "data_offsets": offsets}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    file.write(struct.pack("<Q", len(text)) + text)
    for entry in ordered:
        file.write(raw(tensors[entry.name], entry))


def raw(tensor: Tensor, entry: Entry) -> memoryview:
    """The bytes of a tensor, in the type and shape that were announced."""
    assert tuple(tensor.shape) == entry.shape, f"{entry.name} has shape {tuple(tensor.shape)}, announced {entry.shape}"
    flat = tensor.detach().to("cpu", entry.dtype).contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().data
