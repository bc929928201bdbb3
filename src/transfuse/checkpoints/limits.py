"""What a file may ask for: sizes in it are claims of whoever wrote it, judged before memory is taken for them."""

from __future__ import annotations

import zipfile
from pathlib import Path

import torch

from ..errors import InputError, listing
from ..lazy import entries_of
from ..types import State
from .records import Checkpoint, size_told

# Bytes of a tensor that a file need not hold: one that was expanded is stored as the few numbers which are repeated.
EXPANDED = 10**8


def check_stored(path: Path) -> None:
    """Refuse a zip archive with compressed members: a megabyte of it can become a gigabyte in memory.

    PyTorch never writes such a file, and cannot map it.

    Raises:
        InputError: naming the first member that is compressed.
    """
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
    packed = next((each for each in members if each.compress_type != zipfile.ZIP_STORED), None)
    if packed is not None:
        raise InputError(
            f"{path}: its member {packed.filename} is compressed ({size_told(packed.file_size)} in "
            f"{size_told(packed.compress_size)}), as PyTorch never writes it; save it again by torch.save"
        )


def check_tensors(path: Path, tensors: State) -> None:
    """Refuse tensors without plain numbers: sparse, nested, quantised ones, and those that have none.

    Raises:
        InputError: naming all of them.
    """
    problems = []
    for name, tensor in tensors.items():
        if tensor.is_nested:
            problems.append(f"{name} is a nested tensor: save its parts, or a padded one (to_padded_tensor)")
        elif tensor.layout is not torch.strided:
            problems.append(f"{name} is sparse ({tensor.layout}): make it dense by to_dense() before it is saved")
        elif tensor.is_quantized:
            problems.append(f"{name} is quantised: dequantise() it before it is saved")
        elif tensor.is_meta:
            problems.append(f"{name} has no numbers, for it was saved from the meta device: load the weights first")
    if problems:
        raise InputError(listing(f"{path} holds tensors that cannot be fused as they are:", problems))


def check_claims(checkpoint: Checkpoint) -> Checkpoint:
    """The checkpoint, if none of its tensors claims to be much larger than the files that should hold it.

    Raises:
        InputError: naming the tensors, their shapes and the size of the files.
    """
    held = sum(file.stat().st_size for file in checkpoint.files)
    problems = [
        f"{entry.name} of shape {list(entry.shape)} has {size_told(entry.bytes)}"
        for entry in entries_of(checkpoint.tensors).values()
        if entry.bytes > max(held, EXPANDED)
    ]
    if problems:
        raise InputError(
            listing(f"{checkpoint.path} holds {size_told(held)}, but claims more; it is damaged, or hostile:", problems)
        )
    return checkpoint
