"""What a verb works on: checkpoints that are held against a layout, and the modules that they become.

In: what `jobs` has found by the options. Out: states, modules, and what a fusion of them is made from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from ..checkpoints import Checkpoint, Transfer
from ..errors import InputError
from ..files import read_text
from ..fusing import Ready, Widths
from ..fusing.heads import Joined
from ..layout import Layout, parse
from ..lazy import as_lazy, entries_of
from ..modules import ties_of, with_state
from ..types import State


@dataclass(frozen=True, eq=False)
class Job:
    """Checkpoints of one architecture.

    Args:
        transfer: The inputs, their tensors under the names of the model, and where the result goes.
        layout: Which axes move together.
        inputs: Example inputs, if there is a model.
        build: Makes a module of the architecture, if there is a model.
        apart: Makes a module for each checkpoint, where these are networks of other depths.
        number: Of the checkpoint that the result is like: the deepest of those, else the first.
        joined: Where the outputs of each checkpoint are placed, if their heads are joined.
    """

    transfer: Transfer
    layout: Layout
    inputs: Any = None
    build: Callable[[], nn.Module] | None = None
    apart: Sequence[Callable[[], nn.Module]] = ()
    number: int = 0
    joined: Joined | None = None

    def widths(self, state: State) -> dict[str, int]:
        """The widths of the spaces in a state, with whatever number of outputs."""
        if self.joined is None:
            return self.layout.widths(entries_of(state))
        return self.joined.layout(self.layout).widths(self.joined.placed_alike(state))

    def ready(self, weights: Sequence[float] | None, widths: Widths) -> Ready:
        """The checkpoints as lazy states that can be fused, with their outputs among those of all if heads are joined.

        Raises:
            InputError: there are other numbers of weights, or the target cannot have these widths.
        """
        states: list[State] = [as_lazy(state) for state in self.states]
        layout = self.layout
        if self.joined is not None:
            states, layout = self.joined.all_placed(states), self.joined.layout(self.layout)
        if self.apart:  # only one of them has the layout before they are brought to one depth, which takes modules
            states, weights = [states[self.number]], None
        return Ready.of(states, layout, weights=weights, widths=widths)

    @property
    def checkpoints(self) -> tuple[Checkpoint, ...]:
        """The inputs."""
        return self.transfer.inputs

    @property
    def like(self) -> Checkpoint:
        """The input in whose manner the result is written."""
        return self.checkpoints[self.number]

    @property
    def states(self) -> list[State]:
        """The tensors of each checkpoint."""
        return [checkpoint.tensors for checkpoint in self.checkpoints]

    def modules(self) -> list[nn.Module]:
        """Each checkpoint as a module; networks of other depths are not brought to one depth."""
        if self.apart:
            return [loaded(build(), each) for build, each in zip(self.apart, self.checkpoints, strict=True)]
        if self.build is None:
            raise InputError("this needs the network itself: pass --model SPEC")
        return [loaded(self.build(), checkpoint) for checkpoint in self.checkpoints]


def loaded(model: nn.Module, checkpoint: Checkpoint) -> nn.Module:
    """A module with the weights of a checkpoint: mapped from the file where types and shapes allow, else copied."""
    own = model.state_dict()
    found = entries_of(checkpoint.tensors)
    if any(found[name].shape != tuple(tensor.shape) for name, tensor in own.items()):
        return with_state(model, dict(checkpoint.tensors)).eval()
    same = all(found[name].dtype == tensor.dtype for name, tensor in own.items())
    model.load_state_dict(dict(checkpoint.tensors), assign=same and not ties_of(own))
    return model.eval()


def read_layout(path: str) -> Layout:
    """The layout in a file, in the notation that `transfuse trace` prints."""
    return parse(read_text(path))
