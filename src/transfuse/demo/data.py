"""Handwritten digits that ship with the package; DIGITS.md says where they come from."""

from __future__ import annotations

from importlib.resources import files
from typing import Literal

import numpy as np
import torch
from torch import Tensor

MEAN, DEVIATION = 4.88, 6.02  # of all pixels of the training images, whose values are 0 to 16


def digits(part: Literal["train", "test"]) -> tuple[Tensor, Tensor]:
    """Images [count, 1, 8, 8], normalised, and labels [count]; every third image is a test image.

    Example:
        >>> [tuple(digits(part)[0].shape) for part in ("train", "test")]
        [(1198, 1, 8, 8), (599, 1, 8, 8)]
    """
    with files(__package__).joinpath("digits.npz").open("rb") as file, np.load(file) as content:
        images, labels = content["images"], content["labels"]
    chosen = (np.arange(len(images)) % 3 == 2) == (part == "test")
    inputs = torch.from_numpy(images[chosen]).float().unsqueeze(1)
    return (inputs - MEAN) / DEVIATION, torch.from_numpy(labels[chosen]).long()
