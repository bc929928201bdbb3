"""Inputs without labels, and what they add to a fusion: activations to match units by.

In: modules, batches of data, synthetic inputs. Out: terms of the objective. Not here: corrections.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from torch import nn

from ..activations import Batches, Terms, activation_terms
from ..errors import InputError
from ..layout import Layout
from ..modules import undisturbed
from ..synthetic import SyntheticInputs

TermsName = Literal["weights", "activations", "both"]


def check_terms(terms: str | None) -> None:
    """Refuse what is no kind of terms, before networks of other depths are compared by it.

    Raises:
        InputError: naming the kinds.
    """
    if terms is not None and terms not in get_args(TermsName):
        raise InputError(f"terms is {terms!r}; expected one of {', '.join(get_args(TermsName))}")


@dataclass(frozen=True, eq=False)
class Inputs:
    """Inputs without labels: data, if there is any, and synthetic inputs in place of it or beside it."""

    data: Batches | None
    synthetic: SyntheticInputs

    @property
    def matching(self) -> Batches | None:
        """The inputs by whose activations units are matched, if there are any."""
        return self.data or self.synthetic.matching

    @property
    def any(self) -> Batches | None:
        """The data, or else the synthetic inputs, if there are any."""
        return self.data or self.synthetic.batches

    def activations(self, models: Sequence[nn.Module], layout: Layout, terms: str | None) -> Terms | None:
        """Activations of models on these inputs, if they count: by default beside the weights, where there are inputs.

        Raises:
            InputError: activations are asked for without inputs.
        """
        batches = self.matching
        terms = terms or ("both" if batches else "weights")
        if terms == "weights":
            return None
        if batches is None:
            raise InputError(f"terms is {terms!r}, but there is no data to see activations on; pass data=")
        if not layout.spaces:
            return None  # nothing moves, so there is nothing to match
        with undisturbed(*models):
            return activation_terms(models, layout, batches, weights=terms == "both")
