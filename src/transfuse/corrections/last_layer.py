"""A last layer of which the evidence is compared: what it holds for each class shall be what its parents hold.

Its own scores are read as shares of classes by `entmax`, and these shall be the mean of the parents' softened
probabilities. The loss is the one whose slope is the difference of both, a convex function of the scores
(Fenchel-Young: Blondel, Martins and Niculae, 2020, "Learning with Fenchel-Young losses"). Of order 1, a softmax, it is
cross-entropy: a logistic regression. Of order 2 it is least squares, but that scores which overshoot the simplex cost
nothing. Evidence itself by least squares would not do: it is a bent function of scores, and a linear layer would be
spent on the bend.

There is a ridge towards the layer as it is. It is not chosen on held-out batches: from 0.0003 to 0.01 it makes little
difference, and the few inputs of a class that one parent alone knows would decide by chance.

In: what batches show of a site, the aim being evidence. Out: its matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from .aims import scale_of, shares_of
from .pieces import Piece
from .tsallis import entmax, negentropy

RIDGE = 0.01  # in mean squares of a feature, and of what an error of a score costs
STEPS = 100  # of L-BFGS, at most
MEMORY = 10  # of those steps that it remembers
SAME = 1e-12  # a step that changes the loss by less is the last


@dataclass(frozen=True, eq=False)
class Regression:
    """Samples, and the probabilities that classes shall have in them.

    Args:
        features: [samples, features].
        shares: [samples, classes].
        counts: How much each sample counts, [samples], summing to 1.
        temperature: Of the evidence.
        order: Of `entmax`, by which scores are read.
    """

    features: Tensor
    shares: Tensor
    counts: Tensor
    temperature: float
    order: float = 1.0

    @staticmethod
    def of(pieces: Sequence[Piece], temperature: float, order: float = 1.0) -> Regression:
        """The samples of some batches, whose outputs are the evidence that is aimed at."""
        features, evidence = (
            torch.cat([getattr(piece.parts[0], name) for piece in pieces]).double() for name in ("features", "outputs")
        )
        counts = torch.cat([torch.full((len(each.parts[0].outputs),), each.batch.weight) for each in pieces])
        counts = counts.to(features)
        return Regression(features, shares_of(evidence, temperature), counts / counts.sum(), temperature, order)

    @property
    def scale(self) -> float:
        """By what scores are divided before they are read."""
        return scale_of(self.temperature, self.order, self.shares.shape[1])

    def loss(self, matrix: Tensor) -> Tensor:
        """The Fenchel-Young loss of what a matrix [classes, features] makes of the features; of order 1 cross-entropy.

        It is the largest of q'z - Omega(q) over shares q, less p'z, for scores z and shares p that are wanted, Omega
        being `negentropy`. Since q is where that is largest, the slope in z is q - p.
        """
        scores = self.features @ matrix.T / self.scale
        own = entmax(scores.detach(), self.order)
        return self.counts @ (((own - self.shares) * scores).sum(1) - negentropy(own, self.order))

    @property
    def curvature(self) -> float:
        """Half of how much the slope of the loss grows with a score, on average over samples and classes."""
        slopes = self.shares.pow(2 - self.order) * (1 - self.shares)
        return float((self.counts @ slopes).mean()) / (2 * self.scale**2)

    def fitted(self, start: Tensor, *, constant: bool, ridge: float = RIDGE) -> Tensor:
        """The matrix with the smallest loss, with a ridge towards `start`; a constant is free."""
        free = self.features.shape[1] - constant
        mean = (self.counts @ self.features)[:free] if constant else self.features.new_zeros(free)
        centred = self.features - nn.functional.pad(mean, (0, int(constant)))  # else far more steps are needed
        penalty = ridge * float((self.counts @ centred[:, :free].square()).mean()) * self.curvature
        with torch.inference_mode(mode=False), torch.enable_grad():
            own = replace(self, features=centred.clone(), shares=self.shares.clone(), counts=self.counts.clone())
            before = _moved(start.double().clone(), mean)
            matrix = before.clone().requires_grad_()
            optimiser = torch.optim.LBFGS(
                [matrix], max_iter=STEPS, history_size=MEMORY, tolerance_change=SAME, line_search_fn="strong_wolfe"
            )

            def closure() -> float:
                """The loss with its ridge, whose slopes the matrix gets."""
                optimiser.zero_grad()
                total = own.loss(matrix) + penalty * (matrix - before)[:, :free].square().sum()
                total.backward()
                return float(total.detach())

            optimiser.step(closure)
        return _moved(matrix.detach(), -mean)


def _moved(matrix: Tensor, by: Tensor) -> Tensor:
    """A matrix that gives the same of features that are smaller by so much, its last column being for the constant."""
    moved = matrix.clone()
    if matrix.shape[1] > len(by):
        moved[:, -1] += matrix[:, : len(by)] @ by
    return moved
