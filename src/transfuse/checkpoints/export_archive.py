"""Archives of `torch.export.save` (`.pt2`): a zip file with raw weights and a program.

Only the weights are touched, as bytes: loading the whole program with torch could run code that is in the archive.

In: a path. Out: tensors that are mapped when asked for; and a copy of an archive with other weights.
"""

from __future__ import annotations

import json
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError
from ..files import whole_file
from ..lazy import Entry, LazyState
from ..types import State
from .format import Format, Opener, Output
from .limits import check_stored
from .records import KEY, Checkpoint
from .safetensors_file import raw

CONFIG = "data/weights/model_weights_config.json"
ENDING = ".pt2"
DTYPES = {  # by their numbers in the archive: torch._export.serde.schema.ScalarType
    1: torch.uint8, 2: torch.int8, 3: torch.int16, 4: torch.int32, 5: torch.int64, 6: torch.float16, 7: torch.float32,
    8: torch.float64, 10: torch.complex64, 11: torch.complex128, 12: torch.bool, 13: torch.bfloat16,
    28: torch.uint16, 29: torch.float8_e4m3fn, 30: torch.float8_e5m2, 34: torch.uint32, 35: torch.uint64,
}  # fmt: skip


def is_archive(path: Path) -> bool:
    """Whether a file is an exported program (a zip file with a configuration of weights)."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return any(name.endswith(CONFIG) for name in archive.namelist())


def read(path: Path) -> tuple[LazyState, dict[str, str], dict[str, str]]:
    """Tensors, ties and texts of an archive.

    Raises:
        InputError: the archive is damaged, or keeps weights as pickles.
    """
    try:
        check_stored(path)
        with zipfile.ZipFile(path) as archive:
            root, config = _config(archive)
            pickled = sorted(name for name, spec in config.items() if spec["use_pickle"])
            if pickled:
                raise InputError(f"{path} holds pickled weights ({', '.join(pickled)}); save it with a newer PyTorch")
            places = {name: _start(archive, f"{root}data/weights/{spec['path_name']}") for name, spec in config.items()}
            extra = f"{root}extra/"
            texts = {name.removeprefix(extra): archive.read(name).decode() for name in archive.namelist()
                     if name.startswith(extra)}  # fmt: skip
    except (zipfile.BadZipFile, KeyError, ValueError, TypeError, RecursionError, struct.error) as error:
        raise InputError(f"{path} is no whole export archive ({error}); save or download it again") from error
    entries = [_entry(name, spec) for name, spec in config.items()]
    tensors = LazyState(entries, lambda entry: _mapped(path, entry, places[entry.name], config[entry.name]))
    return tensors, _ties(config), texts


def _config(archive: zipfile.ZipFile) -> tuple[str, dict[str, Any]]:
    """The folder in which everything is, and what is known of each tensor."""
    name = next(name for name in archive.namelist() if name.endswith(CONFIG))
    return name.removesuffix(CONFIG), json.loads(archive.read(name))["config"]


def _numbers(values: list[Mapping[str, int]]) -> tuple[int, ...]:
    return tuple(value["as_int"] for value in values)


def _entry(name: str, spec: Mapping[str, Any]) -> Entry:
    meta = spec["tensor_meta"]
    return Entry(name, DTYPES[meta["dtype"]], _numbers(meta["sizes"]))


def _start(archive: zipfile.ZipFile, name: str) -> int:
    """Where in the file the bytes of a member start (it is stored, not compressed)."""
    member = archive.getinfo(name)
    if member.compress_type != zipfile.ZIP_STORED or archive.fp is None:
        raise ValueError(f"{name} is compressed")
    archive.fp.seek(member.header_offset + 26)
    name_length, extra_length = struct.unpack("<HH", archive.fp.read(4))
    return member.header_offset + 30 + int(name_length) + int(extra_length)


def _mapped(path: Path, entry: Entry, start: int, spec: Mapping[str, Any]) -> Tensor:
    """A tensor of an archive, mapped from the file; copied where it is not aligned to its type."""
    meta, size = spec["tensor_meta"], entry.dtype.itemsize
    if entry.bytes == 0:
        return torch.empty(entry.shape, dtype=entry.dtype)
    strides = _numbers(meta["strides"])
    reach = 1 + sum((length - 1) * stride for length, stride in zip(entry.shape, strides, strict=True))
    begin = start + size * meta["storage_offset"]["as_int"]
    flat = torch.from_numpy(np.memmap(path, np.uint8, "c", offset=begin, shape=(reach * size,)))
    flat = flat.clone() if begin % size else flat
    return flat.view(entry.dtype).as_strided(entry.shape, strides)


def _ties(config: Mapping[str, Any]) -> dict[str, str]:
    """Each name that is a further one of some tensor, with the first name of that tensor.

    Told by places in the archive, not in memory (`modules.ties_of`): tensors are not read for it.
    """
    first: dict[str, str] = {}
    seen = {name: json.dumps([spec["path_name"], spec["tensor_meta"]], sort_keys=True) for name, spec in config.items()}
    return {name: first[key] for name, key in seen.items() if first.setdefault(key, name) != name}


def write(path: Path, template: Path, tensors: State, texts: Mapping[str, str]) -> None:
    """A copy of an archive with other weights of the same shapes, and with further texts."""
    with zipfile.ZipFile(template) as old, zipfile.ZipFile(path, "w", zipfile.ZIP_STORED, allowZip64=True) as new:
        root, config = _config(old)
        owners = {f"{root}data/weights/{spec['path_name']}": name for name, spec in reversed(config.items())}
        _check_rewritable(config, tensors)
        replaced = {f"{root}extra/{name}" for name in texts}
        for member in old.infolist():
            if member.filename in replaced:
                continue
            owner = owners.get(member.filename)
            content = old.read(member) if owner is None else raw(tensors[owner], _entry(owner, config[owner]))
            new.writestr(member.filename, content)
        for name, text in texts.items():
            new.writestr(f"{root}extra/{name}", text)


def _check_rewritable(config: Mapping[str, Any], tensors: State) -> None:
    """Only whole, contiguous tensors of the same shapes can take the place of what is there."""
    for name, spec in config.items():
        entry, meta = _entry(name, spec), spec["tensor_meta"]
        plain = torch.empty(entry.shape, device="meta").stride() == _numbers(meta["strides"])
        if not plain or meta["storage_offset"]["as_int"]:
            raise InputError(f"the archive keeps {name} as a view into another tensor; write .safetensors instead")
        if tuple(tensors[name].shape) != entry.shape:
            raise InputError(
                f"the exported program is made for {name} of shape {list(entry.shape)}, the result has "
                f"{list(tensors[name].shape)}; write .safetensors instead"
            )


def _open(path: Path, opener: Opener) -> Checkpoint:
    tensors, ties, texts = read(path)
    return Checkpoint(path, FORMAT.name, tensors, (path,), ties, texts)


def _write(out: Path, output: Output) -> list[Path]:
    texts = {**output.like.metadata, f"{KEY}.json": output.provenance.json()}
    with whole_file(out) as temporary:
        write(temporary, output.like.path, output.tensors, texts)
    return [out]


FORMAT = Format("export", "an export archive", (ENDING,), is_archive, _open, _write, copies_input=True)
