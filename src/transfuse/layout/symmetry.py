"""Symmetries: what may be done to the units of a space without changing what the network computes.

A symmetry knows three things: a random element of itself, why an element does not belong to it, and the best element
for a matrix of scores. Every space allows permutations; signs, positive scales and rotations are allowed where all
operations on the space commute with them.

In: numbers of units, scores. Out: elements (`elements`). Not here: how one is applied to tensors (`moving`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import LayoutError
from ..transport import assignment, procrustes
from .elements import Permutation, Rotation

LARGEST_RANDOM_SCALE = np.exp(0.7)  # about 2: far enough from 1 to be seen, near enough not to drown other units
# How far, for each number of a matrix, the product of a rotation with its transpose may be from the identity: what
# rounding to float32 makes of a few thousand units, and less than what any other matrix has.
ORTHOGONAL = 1e-4

FIXING = "rotations fixing the mean"
WORDS = ("signs", "scales", "rotations", FIXING)  # of the notation; the last one is looked for first


@dataclass(frozen=True)
class Symmetry:
    """The group of a space: permutations of its units and, where allowed, signs, positive scales or rotations.

    Args:
        signs: Any unit may be negated (every operation on the space is odd, such as tanh). Rotations include it.
        scales: Any unit may be multiplied by a positive number (every operation is positively homogeneous, such as
            ReLU).
        rotations: Units may be mixed by an orthogonal matrix (every operation is linear, or an RMS norm), once the
            norms of the layout are folded.
        fixing_mean: Only by those that leave the mean of all units as it is (a layer norm takes the mean away).
    """

    signs: bool = False
    scales: bool = False
    rotations: bool = False
    fixing_mean: bool = False

    def __post_init__(self) -> None:
        """Add the signs that rotations include, and refuse what cannot be together.

        Raises:
            LayoutError: the mean is to be fixed without rotations, or rotations are given with scales, or rotations
                that fix the mean with signs.
        """
        if self.fixing_mean and not self.rotations:
            raise LayoutError("Symmetry(fixing_mean=True) says what rotations do; give rotations=True with it")
        if self.rotations and (self.scales or (self.fixing_mean and self.signs)):
            told = "scales" if self.scales else "signs, which move the mean"
            raise LayoutError(f"a symmetry with {self.words[-1]} is given {told}; leave one of them out")
        if self.rotations and not self.fixing_mean:
            object.__setattr__(self, "signs", True)

    @property
    def words(self) -> tuple[str, ...]:
        """What is allowed beyond permutation, in the words of the notation and of reports.

        Example:
            >>> Symmetry(scales=True).words, Symmetry(rotations=True).words
            (('scales',), ('rotations',))
        """
        if self.rotations:
            return (FIXING if self.fixing_mean else "rotations",)
        return tuple(word for word in ("signs", "scales") if getattr(self, word))

    @classmethod
    def of_words(cls, text: str) -> Symmetry | None:
        """The symmetry that words of the notation stand for; none where they cannot be read.

        Example:
            >>> Symmetry.of_words("rotations fixing the mean")
            Symmetry(signs=False, scales=False, rotations=True, fixing_mean=True)
        """
        known = "|".join(reversed(WORDS))
        if not re.fullmatch(rf"((?:{known})(?: (?:{known}))*)?", text):
            return None
        found = re.findall(known, text)
        return cls("signs" in found, "scales" in found, {"rotations", FIXING} & set(found) != set(), FIXING in found)

    @property
    def unrotated(self) -> Symmetry:
        """What is left of it for those who only permute (and negate, or scale) units."""
        return Symmetry(self.signs, self.scales)

    def random_element(self, width: int, rng: np.random.Generator) -> Permutation | Rotation:
        """A random element that is not trivial: where units can be permuted or negated, at least one is."""
        if self.rotations:
            return Rotation(
                procrustes(torch.from_numpy(rng.standard_normal((width, width))), fixing=self._fixed(width))
            )
        factor = np.ones(width)
        if self.signs:
            factor *= rng.choice([-1.0, 1.0], size=width)
            factor[rng.integers(width)] *= -1.0 if (factor > 0).all() else 1.0
        if self.scales:
            most = np.log(LARGEST_RANDOM_SCALE)
            factor *= np.exp(rng.uniform(-most, most, size=width))
        return Permutation(_shuffled(width, rng), factor)

    def _fixed(self, width: int) -> Tensor | None:
        """The direction that rotations leave as it is: that of the mean of all units; none if there is none."""
        return torch.ones(width, dtype=torch.float64) if self.fixing_mean else None

    def objection(self, element: Permutation | Rotation, width: int) -> str:
        """Why an element is not one of this symmetry, in words that end a sentence about it; empty if it is."""
        return (
            self._objection_to_rotation(element.matrix, width)
            if isinstance(element, Rotation)
            else self._objection_to_permutation(element, width)
        )

    def _objection_to_rotation(self, matrix: Tensor, width: int) -> str:
        if not self.rotations:
            return "its units may be permuted but not rotated; give a Permutation"
        if matrix.shape != (width, width) or not matrix.is_floating_point():
            return f"matrix is {matrix.dtype} {list(matrix.shape)}; expected numbers [{width}, {width}]"
        exact = matrix.detach().double()
        identity = torch.eye(width, dtype=torch.float64, device=matrix.device)
        if not bool((exact @ exact.T - identity).abs().max() <= ORTHOGONAL):
            return "matrix is not orthogonal; its rows must have length 1 and be orthogonal to each other"
        if self.fixing_mean and not bool((exact.sum(1) - 1).abs().max() <= ORTHOGONAL):
            return "matrix does not fix the mean; each of its rows must sum to 1"
        return ""

    def _objection_to_permutation(self, element: Permutation, width: int) -> str:
        order, factor = element.order, element.factor
        whole = not (order.is_floating_point() or order.is_complex() or order.dtype is torch.bool)
        if not whole or order.dim() != 1 or sorted(order.tolist()) != list(range(width)):
            return f"order is not a permutation of its {width} units: {order.tolist()!r}"
        if factor.shape != (width,) or not bool(factor.isfinite().all()) or bool((factor == 0).any()):
            return f"factor must be {width} finite numbers other than zero"
        if not self.signs and bool((factor < 0).any()):
            return "its units may not be negated; give positive factors"
        if not self.scales and not element.keeps_norms:
            return "its units may not be scaled; give factors 1 (or -1)"
        return ""

    def best_element(self, scores: Tensor, *, signs: bool = True) -> Permutation | Rotation:
        """The element with the largest total score, for scores [1 or 2, units, units] of odd (and of even) slots.

        Where units may be rotated, the polar factor of the scores of odd slots.
        """
        if self.rotations:
            return Rotation(procrustes(scores[0], fixing=self._fixed(scores.shape[1])))
        return self.best_permutation(scores, signs=signs)

    def best_permutation(self, scores: Tensor, *, signs: bool = True) -> Permutation:
        """The permutation with the largest total score, for scores [1 or 2, units, units].

        The first matrix belongs to odd slots, a second one to even slots. Where units may be negated, and `signs` says
        that they shall be, a pair scores `even + |odd|` and takes the sign of `odd`.
        """
        odd = scores[0]
        order = assignment(pair_scores(scores, signs=self.signs and signs))
        own = odd[torch.arange(len(order), device=odd.device), order]
        negated = self.signs and signs
        return Permutation(order, torch.where(own < 0, -1.0, 1.0).to(odd.dtype) if negated else torch.ones_like(own))


PERMUTATIONS = Symmetry()


def pair_scores(scores: Tensor, *, signs: bool) -> Tensor:
    """What each pair of units scores [units, units], where its sign may be chosen or not."""
    total = scores[0].abs() if signs else scores[0]
    return total + scores[1] if len(scores) == 2 else total


def _shuffled(width: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """A random permutation that moves something, where there is something to move."""
    order = rng.permutation(width)
    while width > 1 and np.array_equal(order, np.arange(width)):
        order = rng.permutation(width)
    return order
