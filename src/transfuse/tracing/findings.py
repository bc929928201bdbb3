"""What reading finds of rotations: who lost them and why, whose mean is used, norms, and what tensors are used for.

In: what operations do, one after the other, told by `turning`. Out: records that `rotating` makes a layout of.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from .turns import COMPUTED, Norm, Turn, Turned, Use


@dataclass
class Findings:
    """Grows while a network is read.

    Args:
        where: The operation at hand, for reasons.
        lost: Spaces that do not rotate, and why.
        centred: Spaces whose mean is used.
        normed: Spaces that a norm is taken over.
        norms: By gain, the space and the norm.
        uses: By tensor of the state what it is used for, each time anew.
        scales: By vector that multiplies what is written to units, before any norm: the space.
        arrived: By tensor that writes units, and the axis on which it has them: the vectors by which it was multiplied
            wherever it is used; an empty name among them if there is a place where it was not.
    """

    where: str = ""
    lost: dict[str, str] = field(default_factory=dict)
    centred: set[str] = field(default_factory=set)
    normed: set[str] = field(default_factory=set)
    norms: dict[str, tuple[str, Norm]] = field(default_factory=dict)
    uses: dict[str, list[Use]] = field(default_factory=dict)
    scales: dict[str, str] = field(default_factory=dict)
    arrived: dict[tuple[str, int], set[str]] = field(default_factory=dict)

    def lose(self, turns: Iterable[Turn], why: str) -> None:
        """The spaces of some turns do not rotate; the first reason counts."""
        for turn in turns:
            self.lost.setdefault(turn.space, f"{why}, {self.where}" if self.where else why)

    def use(self, tensor: str, kind: str, of: str = "") -> None:
        """A tensor of the state (none, if the name is empty) is used for something."""
        if tensor:
            self.uses.setdefault(tensor, []).append(Use(kind, of))

    def counts(self, values: Iterable[Turned]) -> dict[str, int]:
        """How many uses of the tensors of the state among some values are known."""
        return {value.tensor: len(self.uses.get(value.tensor, ())) for value in values if value.tensor}

    def use_else(self, kind: str, before: dict[str, int]) -> None:
        """A use of this kind of all tensors of which an operation has shown no other."""
        for tensor, count in before.items():
            if len(self.uses.get(tensor, ())) == count:
                self.use(tensor, kind)

    def with_norm(self, turn: Turn, norm: Norm) -> Turn:
        """Units with a gain, and maybe a bias; a gain has one bias wherever it is used."""
        known = self.norms.get(norm.gain)
        if known and known[1].bias and norm.bias and known[1] != norm:
            self.lose([turn], f"has the gain {norm.gain} with more than one bias")
        if not known or norm.bias:
            self.norms[norm.gain] = turn.space, norm
        self.use(norm.gain, "gain")
        self.use(norm.bias, "bias of norm", norm.gain)
        return replace(turn, norm=norm)

    def with_scale(self, turn: Turn, gain: str) -> Turn:
        """Units that are a sum of tensors, times a vector, which can go into all of these."""
        self.scales[gain] = turn.space
        self.use(gain, "scale")
        return replace(turn, terms=frozenset(replace(term, gain=gain) for term in turn.terms))

    def arrive(self, turn: Turn) -> None:
        """Units are used for something else than to be added: the tensors whose sum they are have come this far."""
        for term in turn.terms - {COMPUTED}:
            self.arrived.setdefault((term.tensor, term.axis), set()).add(term.gain)

    def summed(self, turn: Turn, linear: bool) -> None:
        """All units are summed: their squares, or for the mean themselves."""
        self.arrive(turn)
        if turn.squared and linear:
            self.normed.add(turn.space)
        elif linear and not turn.norm:
            self.centred.add(turn.space)
        else:
            gain = f"has the gain {turn.norm.gain} where it " if turn.norm else ""
            self.lose([turn], f"{gain}is put through a function of all units")
