"""Folding: gains moved into the weights that read or write units, so that these can rotate.

A norm gives `g x + b` for normed units x. With gains of one a rotation of the units passes it; a vector of gains would
have to be one, too. So the gain goes into the readers, exactly: `W <- W diag(g)`. The bias goes on to theirs, `c <- c +
W b`. Where a reader has none the norm keeps its bias as `b / g`: a vector that rotates like any other. A vector by
which what layers write is multiplied before it is added to a stream (LayerScale) goes into these: `W <- diag(g) W`,
`c <- g c`.

The function of the network does not change, and what is folded stays as it is when it is folded again.

In: a state (plain or lazy), a layout. Out: a state of the same kind, whose norms have gains of one. Undoing it takes
the norms of a state that was not folded: there is nothing in a folded one to know them by.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import torch
from torch import Tensor

from ..errors import LayoutError
from ..lazy import LazyState, transformed
from ..types import State
from .recipe import Layout
from .records import Fold


def folded(state: State, layout: Layout, *, spaces: Collection[str] | None = None) -> State:
    """The state with the gains over some spaces (default: all that rotate) folded into what reads or writes them.

    Tensors that nothing changes are passed on as they are; a lazy state gives a lazy one.

    Raises:
        LayoutError: a gain of zero hides a bias that a reader without bias would need.
    """
    return _changed(state, layout, state, spaces, undo=False)


def unfolded(reference: State, state: State, layout: Layout, *, spaces: Collection[str] | None = None) -> State:
    """A folded state with the gains and biases that the norms of another one have: what `folded` did, undone.

    Raises:
        LayoutError: a gain of the reference is zero, by which nothing can be divided.
    """
    return _changed(state, layout, reference, spaces, undo=True)


def _changed(state: State, layout: Layout, norms: State, spaces: Collection[str] | None, *, undo: bool) -> State:
    """The state with norms folded, or with the norms of another one taken out of what reads them."""
    folds = layout.folds if spaces is None else layout.folds_of(spaces)
    changes: dict[str, list[_Change]] = {}
    # What a norm's bias gives a layer is multiplied by a vector behind the layer, too: norms come first.
    for fold in sorted(folds, key=lambda fold: bool(fold.writers)):
        change = _Change(fold, layout, norms, state, undo)
        for name in fold.tensors:
            changes.setdefault(name, []).append(change)

    def change_of(name: str, tensor: Tensor) -> Tensor:
        """A tensor as it is after the change."""
        for change in changes.get(name, ()):
            tensor = change.of(name, tensor)
        return tensor

    if isinstance(state, LazyState):
        return transformed(state, change_of)
    return {name: change_of(name, tensor) for name, tensor in state.items()}


@dataclass(frozen=True, eq=False)
class _Change:
    """What folding one gain, or undoing it, does to the tensors of a state.

    Args:
        fold: The norm and what reads it, or the vector and what writes to it.
        layout: Where the units stand.
        norms: The state whose gain and bias count.
        state: The state that is changed.
        undo: Whether the norm gets this gain and bias, which are taken out of the readers.
    """

    fold: Fold
    layout: Layout
    norms: State
    state: State
    undo: bool

    def of(self, name: str, tensor: Tensor) -> Tensor:
        """A tensor of the norm, of a reader or of a writer as it is then; the same one where nothing changes."""
        if name == self.fold.gain:
            return self._same(tensor, self._gain(tensor).view_as(tensor) if self.undo else torch.ones_like(tensor))
        if name == self.fold.bias:
            return self._same(tensor, self._bias_of_norm(tensor))
        gain = self._gain(tensor)
        if name in self.fold.writers or any(name == reader.weight for reader in self.fold.readers):
            return tensor if bool((gain == 1).all()) else tensor * self._along(name, 1 / gain if self.undo else gain)
        return self._bias_of_reader(name, tensor)

    @staticmethod
    def _same(tensor: Tensor, new: Tensor) -> Tensor:
        return tensor if torch.equal(tensor, new) else new

    def _gain(self, like: Tensor) -> Tensor:
        """The gain, one number for each unit, which must not be zero where it is divided by."""
        gain = self.norms[self.fold.gain].to(like).reshape(-1)
        if self.undo and bool((gain == 0).any()):
            others = "writers" if self.fold.writers else "readers"
            raise LayoutError(
                f"{self.fold.gain} has gains of zero: it cannot be taken out of its {others}; leave it folded"
            )
        return gain

    def _bias_of_norm(self, tensor: Tensor) -> Tensor:
        """The bias that the norm has then: none, or what a rotation turns with all else."""
        fold = self.fold
        if not fold.keeps_bias:
            return self.norms[fold.bias].to(tensor) if self.undo else torch.zeros_like(tensor)
        gain = self._gain(tensor)
        if self.undo:
            return tensor * gain
        hidden = (gain == 0) & (tensor != 0)
        if bool(hidden.any()):
            without = next(reader.weight for reader in fold.readers if not reader.bias)
            raise LayoutError(
                f"norm {fold.gain} has a gain of zero where its bias {fold.bias} is not, at {int(hidden.sum())} of "
                f"{len(gain)} units, and {without} has no bias that could take it; set this bias to zero, or leave "
                "out the rotations of the space"
            )
        return torch.where(gain == 0, tensor, tensor / torch.where(gain == 0, 1, gain))

    def _bias_of_reader(self, name: str, tensor: Tensor) -> Tensor:
        """The bias of a reader with what the norm's bias gives through its weight."""
        if self.fold.keeps_bias or not self.fold.bias:
            return tensor
        weight = next(reader.weight for reader in self.fold.readers if reader.bias == name)
        own = self.norms[self.fold.bias].to(tensor).reshape(-1)
        if not bool(own.any()):
            return tensor
        if self.undo:  # the weight is folded, and has the gain in it
            own = own / self._gain(tensor)
        given: Tensor = torch.tensordot(self.state[weight].to(tensor), own, dims=([self._axis(weight)], [0]))
        return tensor - given if self.undo else tensor + given

    def _axis(self, weight: str) -> int:
        """The axis along which a weight reads the units, or writes them."""
        space, side = self.layout.space_of(self.fold), "produces" if self.fold.writers else "consumes"
        axes = self.layout.tensors[weight]
        return next(n for n, axis in enumerate(axes) if axis.alone == space and axis.side == side)

    def _along(self, weight: str, gain: Tensor) -> Tensor:
        """The gain in the shape in which it multiplies a weight."""
        axes = range(len(self.layout.tensors[weight]))
        return gain.view([-1 if axis == self._axis(weight) else 1 for axis in axes])
