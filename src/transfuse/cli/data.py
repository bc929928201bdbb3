"""What `--data` and `--example-inputs` stand for: tensors in files."""

from __future__ import annotations

import zipfile
from argparse import Namespace
from pathlib import Path

import torch
from torch import Tensor

from ..checkpoints import open_checkpoint, size_told
from ..errors import InputError
from ..files import check_regular

LARGE = 10**9  # bytes of unpacked arrays that are read however small their file is
PACKED = 100  # times that data become smaller at most when they are packed; pictures and texts do 2 to 10 times


def tensors_in_file(path: str, flag: str) -> dict[str, Tensor]:
    """The tensors of a file by name; the array of an .npy file is called `inputs`."""
    check_regular(path)
    file = Path(path)
    if not file.exists():
        raise InputError(f"{flag} {path}: there is no such file; check the path")
    if file.suffix in (".npz", ".npy"):
        import numpy as np

        try:
            _check_packing(file, flag)
            content = np.load(file, allow_pickle=False)
            arrays = {"inputs": content} if file.suffix == ".npy" else dict(content)
            return {name: torch.from_numpy(array) for name, array in arrays.items()}
        except (ValueError, OSError, TypeError, EOFError, zipfile.BadZipFile) as error:
            raise InputError(f"{flag} {path} cannot be read as arrays ({error}); save it again") from error
    return dict(open_checkpoint(file).tensors)


def _check_packing(file: Path, flag: str) -> None:
    """Refuse arrays that unpack to far more than any data do: a few megabytes of them could take all the memory."""
    if file.suffix != ".npz" or not zipfile.is_zipfile(file):
        return
    with zipfile.ZipFile(file) as archive:
        unpacked = sum(member.file_size for member in archive.infolist())
    if unpacked > max(LARGE, PACKED * file.stat().st_size):
        raise InputError(
            f"{flag} {file}: its {size_told(file.stat().st_size)} would become {size_told(unpacked)} in memory, as no "
            "measured data do; save the arrays again by numpy.savez"
        )


def inputs_and_labels(options: Namespace, flag: str = "--data") -> tuple[Tensor, Tensor | None]:
    """Inputs of the file that a flag names, in the shape that was asked for, and labels if there are any."""
    labels: Tensor | None
    path = getattr(options, flag.lstrip("-"))
    if path == "digits":
        from ..demo import digits

        inputs, labels = digits("test")
    else:
        tensors = tensors_in_file(path, flag)
        if "inputs" not in tensors:
            raise InputError(f"{flag} {path} has {', '.join(tensors)}; expected `inputs` (and `labels`)")
        inputs, labels = tensors["inputs"], tensors.get("labels")
    if options.input_shape:
        try:
            inputs = inputs.reshape(len(inputs), *options.input_shape)
        except RuntimeError as error:
            raise InputError(
                f"{flag} {path}: inputs of shape {list(inputs.shape[1:])} do not fit --input-shape "
                f"{','.join(map(str, options.input_shape))}; change one of them"
            ) from error
    return inputs, labels
