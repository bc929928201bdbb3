"""States that checkpoints are tried with, and how they are written and compared."""

import safetensors.torch
import torch

from transfuse.checkpoints import (
    Output,
    Provenance,
    open_checkpoint,
    write_checkpoint,
)

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
