"""What `--data` and `--example-inputs` stand for: tensors in files."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import torch
from torch import Tensor

from ..checkpoints import open_checkpoint
from ..errors import InputError


def tensors_in_file(path: str, flag: str) -> dict[str, Tensor]:
    """The tensors of a file by name; the array of an .npy file is called `inputs`."""
    file = Path(path)
    if not file.exists():
        raise InputError(f"{flag} {path}: there is no such file; check the path")
    if file.suffix in (".npz", ".npy"):
        import numpy as np

        try:
            content = np.load(file, allow_pickle=False)
            arrays = {"inputs": content} if file.suffix == ".npy" else dict(content)
            return {name: torch.from_numpy(array) for name, array in arrays.items()}
        except (ValueError, OSError, TypeError) as error:
            raise InputError(f"{flag} {path} cannot be read as arrays ({error}); save it again") from error
    return dict(open_checkpoint(file).tensors)


def inputs_and_labels(options: Namespace) -> tuple[Tensor, Tensor | None]:
    """Inputs of --data, in the shape that was asked for, and labels if there are any."""
    labels: Tensor | None
    if options.data == "digits":
        from ..demo import digits

        inputs, labels = digits("test")
    else:
        tensors = tensors_in_file(options.data, "--data")
        if "inputs" not in tensors:
            raise InputError(f"--data {options.data} has {', '.join(tensors)}; expected `inputs` (and `labels`)")
        inputs, labels = tensors["inputs"], tensors.get("labels")
    if options.input_shape:
        try:
            inputs = inputs.reshape(len(inputs), *options.input_shape)
        except RuntimeError as error:
            raise InputError(
                f"--data {options.data}: inputs of shape {list(inputs.shape[1:])} do not fit --input-shape "
                f"{','.join(map(str, options.input_shape))}; change one of them"
            ) from error
    return inputs, labels
