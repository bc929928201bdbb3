"""`open_transfer`: checkpoints that are opened together, and the place of what becomes of them.

In: paths. Out: a record with everything that is known of both ends. The inputs are read when their tensors are asked
for, and the result is written when the transfer is closed; that it can be is found out when the transfer is opened.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import torch

from ..errors import InputError
from ..files import check_new
from ..modules import ties_of
from ..types import State
from .format import SHARD, Output
from .hugging_face_folder import told_companions
from .opening import fitted, open_checkpoint
from .provenance import Origin, Provenance, origins_of
from .records import Checkpoint
from .writing import check_writable, write_checkpoint

Given = TypeVar("Given")


@dataclass(frozen=True, eq=False)
class Transfer:
    """Checkpoints that were opened together, and the place of what becomes of them.

    Args:
        inputs: The checkpoints; tensors are read when they are asked for.
        out: Where the result goes; none, if nothing is written.
    """

    inputs: tuple[Checkpoint, ...]
    out: Path | None = None

    def fitted(self, names: Collection[str], ties: Mapping[str, str]) -> Transfer:
        """The transfer of checkpoints that have exactly these names, in this order; see `checkpoints.fitted`.

        Raises:
            InputError: naming, of all inputs, every tensor that is missing and every one that is unexpected.
        """
        return replace(self, inputs=_all_of(lambda each: fitted(each, names, ties), self.inputs))

    def fitted_apart(self, states: Sequence[State]) -> Transfer:
        """The transfer of checkpoints each of which has exactly the names of a state of its own, in its order.

        Raises:
            InputError: naming, of all inputs, every tensor that is missing and every one that is unexpected.
        """
        pairs = zip(self.inputs, states, strict=True)
        return replace(self, inputs=_all_of(lambda pair: fitted(pair[0], list(pair[1]), ties_of(pair[1])), pairs))

    def origins(self, weights: Sequence[float]) -> tuple[Origin, ...]:
        """Each input with its share in the result, and the hashes of its files."""
        return origins_of(self.inputs, weights)

    def close(
        self,
        tensors: State,
        provenance: Provenance,
        *,
        like: Checkpoint,
        shard_bytes: int = SHARD,
        sizes: Mapping[tuple[str, ...], Any] | None = None,
    ) -> tuple[list[Path], str]:
        """Write the result, whole or not at all; gives the files written, and what is to be told of them.

        Args:
            tensors: The result, under the names of the model; they are made one after another.
            provenance: What was done to which inputs.
            like: The input in whose manner it is written.
            shard_bytes: Most bytes of one file, in formats that may have several.
            sizes: Values for the configuration of a folder, where the result has other widths or outputs.
        """
        assert self.out is not None, "a transfer without a place is only read"
        written = write_checkpoint(self.out, Output(tensors, like, provenance, shard_bytes, sizes or {}))
        others = [each for each in self.inputs if each is not like]
        return written, told_companions([like, *others], self.out, sizes or {})


def open_transfer(
    paths: Iterable[str | Path], out: Path | None = None, *, kind: torch.dtype | None = None, force: bool = False
) -> Transfer:
    """Open checkpoints, and look at the place of what becomes of them.

    Args:
        paths: Where the inputs are.
        out: Where the result goes, if there is one: like the first input, as far as its ending does not say otherwise.
        kind: The type of its floating-point numbers; default: those of the first input.
        force: What is there may be replaced.

    Raises:
        InputError: with all inputs that cannot be opened; or the result cannot be written there.
    """
    if out is not None:
        check_new(out, force=force)
    inputs = _all_of(open_checkpoint, paths)
    if out is not None:
        check_writable(out, inputs[0], inputs[0].bytes_in(kind), force=force)
    return Transfer(inputs, out)


def _all_of(make: Callable[[Given], Checkpoint], given: Iterable[Given]) -> tuple[Checkpoint, ...]:
    """What `make` makes of each one, or one error with everything that is wrong."""
    results, problems = [], []
    for each in given:
        try:
            results.append(make(each))
        except InputError as error:
            problems.append(str(error))
    if problems:
        raise InputError("\n".join(dict.fromkeys(problems)))
    return tuple(results)
