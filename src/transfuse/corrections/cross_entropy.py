"""A last layer fitted by cross-entropy: what it holds for each class shall be what its parents hold, on average.

Evidence is a bent function of scores, and a linear layer that had to give it by least squares would be spent on the
bend. So scores are fitted whose own evidence comes near: softened, they shall be the mean of the parents' softened
probabilities. That is a logistic regression, with a ridge towards the layer as it is. The ridge is not chosen on
held-out batches: from 0.001 to 1 it makes little difference, and the few inputs of a class that one parent alone knows
would decide by chance.

In: what batches show of a site, the aim being evidence. Out: its matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .aims import shares_of
from .pieces import Piece

RIDGE = 0.01  # in mean squares of a feature, and of what an error of a score costs
STEPS = 60  # of L-BFGS, at most
MEMORY = 10  # of those steps that it remembers
SAME = 1e-12  # a step that changes the loss by less is the last


@dataclass(frozen=True, eq=False)
class Regression:
    """Samples, and the probabilities that classes shall have in them.

    Args:
        features: [samples, features].
        shares: [samples, classes].
        counts: How much each sample counts, [samples], summing to 1.
        temperature: By which scores are divided before they become probabilities.
    """

    features: Tensor
    shares: Tensor
    counts: Tensor
    temperature: float

    @staticmethod
    def of(pieces: Sequence[Piece], temperature: float) -> Regression:
        """The samples of some batches, whose outputs are the evidence that is aimed at."""
        features, evidence = (
            torch.cat([getattr(piece.parts[0], name) for piece in pieces]).double() for name in ("features", "outputs")
        )
        counts = torch.cat([torch.full((len(each.parts[0].outputs),), each.batch.weight) for each in pieces])
        counts = counts.to(features)
        return Regression(features, shares_of(evidence, temperature), counts / counts.sum(), temperature)

    def loss(self, matrix: Tensor) -> Tensor:
        """The cross-entropy of what a matrix [classes, features] makes of the features."""
        logarithms = (self.features @ matrix.T / self.temperature).log_softmax(1)
        return -(self.counts @ (self.shares * logarithms)).sum()

    @property
    def curvature(self) -> float:
        """Half of how much the slope of the loss grows with a score, on average over samples and classes."""
        return float((self.counts @ (self.shares * (1 - self.shares))).mean()) / (2 * self.temperature**2)

    def fitted(self, start: Tensor, *, constant: bool, ridge: float = RIDGE) -> Tensor:
        """The matrix with the smallest loss, with a ridge towards `start`; a constant is free."""
        free = self.features.shape[1] - constant
        size = float((self.counts @ self.features[:, :free].square()).mean())
        penalty = ridge * size * self.curvature
        with torch.inference_mode(mode=False), torch.enable_grad():
            own = Regression(self.features.clone(), self.shares.clone(), self.counts.clone(), self.temperature)
            before = start.double().clone()
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
        return matrix.detach()
