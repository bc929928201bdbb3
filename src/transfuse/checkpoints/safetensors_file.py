"""The safetensors format: eight bytes with the length of a header, the header in JSON, the numbers.

In: a path. Out: tensors that are mapped into memory when asked for and let go with them; and the way back, one tensor
after another, never all at once. https://huggingface.co/docs/safetensors describes the format.

The header is read and judged by the format's own library, `safetensors.safe_open`. Two things are done here, because
the library does them at the price of memory:

- Numbers are mapped tensor by tensor. As PyTorch tensors, the library maps the whole file privately: Linux refuses that
  where the file is larger than memory and swap, and all pages that were ever touched stay until the file is closed. As
  arrays, the library copies.
- Files are written tensor by tensor: the library's writer wants all tensors in memory.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from ..errors import InputError
from ..files import whole_file
from ..lazy import Entry, LazyState, with_names
from ..types import State
from .format import Format, Opener, Output
from .records import KEY, Checkpoint, Wrapping, wrapper_prefix

ENDING = ".safetensors"
DTYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
    "I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8,
    "U64": torch.uint64, "U32": torch.uint32, "U16": torch.uint16, "U8": torch.uint8, "BOOL": torch.bool,
    "F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2, "C64": torch.complex64,
}  # fmt: skip
NAMES = {dtype: name for name, dtype in DTYPES.items()}


def read(path: Path) -> tuple[LazyState, dict[str, str]]:
    """The tensors and the metadata of a file.

    Raises:
        InputError: the file is no safetensors file, not all of it is there, or a tensor has a type unknown to PyTorch.
    """
    try:
        with safe_open(path, "numpy") as file:  # of the frameworks, the one that maps nothing to be written to
            entries = [_entry(name, file.get_slice(name), path) for name in file.offset_keys()]
            metadata = dict(file.metadata() or {})
    except SafetensorError as error:
        raise InputError(f"{path} is no whole safetensors file ({error}); save or download it again") from error
    places = _places(entries, path.stat().st_size)
    return LazyState(entries, lambda entry: _mapped(path, entry, places[entry.name])), metadata


def _entry(name: str, found: Any, path: Path) -> Entry:
    """What the header says about a tensor."""
    if found.get_dtype() not in DTYPES:
        raise InputError(
            f"{path}: tensor {name} has the unknown type {found.get_dtype()!r}; expected one of {', '.join(DTYPES)}. "
            "Convert it first"
        )
    return Entry(name, DTYPES[found.get_dtype()], tuple(found.get_shape()))


def _places(entries: Sequence[Entry], size: int) -> dict[str, int]:
    """The byte at which each tensor begins: tensors follow each other without gaps, to the end of the file.

    The library has refused every file in which they do not.
    """
    at = size - sum(entry.bytes for entry in entries)
    places = {}
    for entry in entries:
        places[entry.name], at = at, at + entry.bytes
    return places


def _mapped(path: Path, entry: Entry, begin: int) -> Tensor:
    """A tensor whose pages are read when touched; writing to it would not change the file."""
    if entry.bytes == 0:
        return torch.empty(entry.shape, dtype=entry.dtype)
    buffer = np.memmap(path, np.uint8, "c", offset=begin, shape=(entry.bytes,))
    flat = torch.from_numpy(buffer)
    if begin % entry.dtype.itemsize:  # views need aligned numbers; files of other writers may have others
        flat = flat.clone()
    return flat.view(entry.dtype).view(entry.shape)


def write(file: BinaryIO, entries: Sequence[Entry], tensors: State, metadata: Mapping[str, str]) -> None:
    """Write tensors one after another; those of wide types first, so that all are aligned.

    Args:
        file: Open for writing.
        entries: What to write.
        tensors: Where to find it.
        metadata: Texts by name.
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


def with_ties(path: Path, tensors: LazyState, metadata: Mapping[str, str], kind: str) -> Checkpoint:
    """A checkpoint that has a tied tensor under each of its names.

    A file holds it once and names the others in its metadata, as `safetensors.torch.save_model` does.
    """
    ties = {name: kept for name, kept in metadata.items() if name not in tensors and kept in tensors}
    prefix = wrapper_prefix([*tensors, *ties])
    sources = {name.removeprefix(prefix): ties.get(name, name) for name in [*tensors, *ties]}
    return Checkpoint(
        path, kind, with_names(tensors, sources), (path,),
        {name.removeprefix(prefix): kept.removeprefix(prefix) for name, kept in ties.items()},
        {name: text for name, text in metadata.items() if name not in ties}, Wrapping(prefix=prefix),
    )  # fmt: skip


def stored(output: Output) -> tuple[LazyState, dict[str, str]]:
    """What a file holds: tensors under its own names, tied ones once; and its metadata, which name the other ones."""
    like, prefix = output.like, output.like.wrapping.prefix
    sources = {prefix + name: name for name in output.tensors if name not in like.ties}
    ties = {prefix + name: prefix + kept for name, kept in like.ties.items() if name in output.tensors}
    kept = {key: text for key, text in like.metadata.items() if not key.startswith(KEY)}
    metadata = {"format": "pt", **kept, **(ties if like.wrapping.names_ties else {}), KEY: output.provenance.json()}
    return with_names(output.tensors, sources), metadata


def _open(path: Path, opener: Opener) -> Checkpoint:
    tensors, metadata = read(path)
    return with_ties(path, tensors, metadata, FORMAT.name)


def _write(out: Path, output: Output) -> list[Path]:
    tensors, metadata = stored(output)
    with whole_file(out) as temporary, temporary.open("wb") as file:
        write(file, list(tensors.entries.values()), tensors, metadata)
    return [out]


FORMAT = Format("safetensors", "a safetensors file", (ENDING,), lambda path: path.suffix == ENDING, _open, _write)
