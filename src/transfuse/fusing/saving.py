"""A fusion as a file: the fused network with what is known of where it comes from.

In: a fusion and a path. Out: the file or folder, written by `checkpoints` as the command writes one; of models that
were given as modules no files are known, so they are told by their number.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from torch import nn

from ..corrections import NONE
from ..methods import METHODS
from ..modules import state_of

if TYPE_CHECKING:
    from .results import Fusion


def saved(fusion: Fusion, path: str | os.PathLike[str]) -> Path:
    """Write the network of a fusion.

    Raises:
        InputError: the ending of the path is unknown, its folder does not exist, or it is a folder of others.
    """
    from ..checkpoints import Origin, Provenance, save_module  # a door upwards: `DOORS` in tests/test_rooms.py says why

    states = fusion.states
    sources = tuple(
        Origin(f"model {number} ({type(parent).__name__})", {}, _bytes(parent), weight)
        for number, (parent, weight) in enumerate(zip(fusion.parents, states.weights, strict=True), start=1)
    )
    done = fusion.correction.method
    heads = states.heads.asked if states.heads else {}
    options = {**states.options, **({} if done == NONE else {"correct": done}), **heads}
    given = "".join(f", {key}={value!r}" for key, value in {"seed": states.seed, **options}.items())
    provenance = Provenance(
        sources, "fuse", states.method, METHODS[states.method].citation, options, states.seed, states.status,
        states.history[-1].objective, f"transfuse.fuse(models, inputs, method={states.method!r}{given})",
        rotated=states.rotated,
    )  # fmt: skip
    return save_module(Path(path), fusion.model, provenance)


def _bytes(model: nn.Module) -> int:
    """Size of all tensors of a network."""
    return sum(tensor.nbytes for tensor in state_of(model).values())
