"""What inputs add to a fusion: activations to match units by, and a correction of the result.

In: modules, batches or example inputs. Out: terms of the objective; a corrected network and what was done to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from ..activations import Batches, Terms, activation_terms
from ..barycenter import Coupling, Pair, carried
from ..corrections import AUTO, CORRECTIONS, NONE, Corrected, Uncorrected, best_of, candidates, norms_of
from ..errors import InputError
from ..layout import Layout, balanced
from ..modules import cause_of, is_half, numbers_in, undisturbed, with_state
from ..progress import Progress, watching
from ..synthetic import WITHOUT, SyntheticInputs
from .preparing import working_type

MERGED = (
    "units were merged, and the aligned networks do not compute what the models do: then only {able} is possible, and "
    "only for networks without batch norms"
)
TermsName = Literal["weights", "activations", "both"]


@dataclass(frozen=True, eq=False)
class Activations:
    """Activations to match units by, beside the weights or instead of them."""

    terms: Terms
    weights: bool


def seen_activations(
    models: Sequence[nn.Module], layout: Layout, batches: Batches | None, terms: str
) -> Activations | None:
    """Activations of models on data, if they count.

    Raises:
        InputError: there is no data, or no such kind of terms.
    """
    if terms not in get_args(TermsName):
        raise InputError(f"terms is {terms!r}; expected one of {', '.join(get_args(TermsName))}")
    if terms == "weights":
        return None
    if batches is None:
        raise InputError(f"terms is {terms!r}, but there is no data to see activations on; pass data=")
    with undisturbed(*models):
        return Activations(activation_terms(models, layout, batches), weights=terms == "both")


@dataclass(frozen=True, eq=False)
class Correcting:
    """How a fusion ends.

    Args:
        method: A row of `CORRECTIONS`, `auto` or `none`.
        data: Inputs without labels.
        synthetic: Inputs in place of data, and beside it.
        progress: Who is told how far it is.
    """

    method: str
    data: Batches | None
    synthetic: SyntheticInputs
    progress: Progress = False


def check_correction(method: str, model: nn.Module, *, inputs: bool) -> None:
    """Refuse a correction that does not exist, has no inputs to go by, or is none of this network.

    Raises:
        InputError: in these cases.
    """
    if method not in (AUTO, NONE, *CORRECTIONS):
        raise InputError(f"correct is {method!r}; expected {AUTO}, {NONE}, {', '.join(CORRECTIONS)}")
    if method in CORRECTIONS and not inputs:
        raise InputError(f"correct is {method!r}, but there are no inputs; pass data= or example_inputs")
    if method in CORRECTIONS and CORRECTIONS[method].needs_batch_norm and not norms_of(model):
        raise InputError(f"correct is {method!r}, but the models have no batch norm with running statistics")


@dataclass(frozen=True, eq=False)
class Parents:
    """The networks that were fused.

    Args:
        models: As they were given.
        aligned: In the common order.
        weights: Their proportions.
        layout: Which axes move together.
        couplings: Of each model, by space.
        balance: Whether the models were brought to a canonical scale before they were coupled.
    """

    models: Sequence[nn.Module]
    aligned: Sequence[nn.Module]
    weights: Sequence[float]
    layout: Layout
    couplings: Sequence[Mapping[str, Coupling]]
    balance: bool

    def keep_their_functions(self, batches: Batches) -> bool:
        """Whether the aligned networks compute what the models do: not so where units were merged."""
        batch = next(iter(batches))
        with undisturbed(*self.models, *self.aligned):
            for model, twin in zip(self.models, self.aligned, strict=True):
                one, other = (numbers_in(batch.run(each)) for each in (model, twin))
                if one.shape != other.shape or float((one - other).abs().max()) > 1e-2 * float(one.abs().max()):
                    return False
        return True

    def scaled(self) -> list[nn.Module]:
        """The models, in the scale in which they were coupled."""
        if not self.balance:
            return list(self.models)
        return [with_state(model, balanced(model.state_dict(), self.layout)) for model in self.models]

    def carry(self, fused: nn.Module) -> list[dict[str, Tensor]]:
        """For each model and weight, a matrix that carries what comes out there to the units of the fused network.

        Where units are merged, the mean of what they give.
        """
        target = self.layout.blocks(self.layout.widths(fused.state_dict()))
        found = []
        states = [model.state_dict() for model in self.models]
        kind = working_type(tensor.dtype for state in states for tensor in state.values())
        for state, couplings in zip(states, self.couplings, strict=True):
            pairs: dict[str, list[Pair]] = {}
            for there, here in zip(target, self.layout.blocks(self.layout.widths(state)), strict=True):
                if there.axis == 0 and there.side == "produces":
                    pairs.setdefault(there.tensor, []).append(Pair(there, (here,)))
            weights = {
                name: torch.eye(len(tensor), dtype=kind, device=tensor.device)
                for name, tensor in state.items()
                if tensor.dim() > 1
            }
            found.append(
                {name: carried(rows, {0: pairs.get(name, ())}, 0, couplings) for name, rows in weights.items()}
            )
        return found


def corrected(correcting: Correcting, fused: nn.Module, parents: Parents) -> tuple[nn.Module, Corrected]:
    """The fused network, corrected, and what was done to it."""
    if correcting.method == NONE:
        return fused, Corrected(NONE)
    if is_half(fused):
        return fused, Corrected(NONE, note="corrections are made in float32 and float64 only")
    if correcting.data is not None:
        return _corrected_by(correcting, fused, parents, correcting.data, correcting.synthetic.batches)
    if correcting.synthetic.batches is None:
        return fused, Corrected(NONE, note=correcting.synthetic.why_not)
    try:
        result, done = _corrected_by(correcting, fused, parents, correcting.synthetic.batches)
    except Exception as error:  # the networks' own code runs here, and may raise anything: the fusion itself stands
        return fused, Corrected(NONE, note=WITHOUT.format(cause=cause_of(error)))
    return result, replace(done, note="; ".join(filter(None, ["judged by synthetic inputs", done.note])))


def _corrected_by(
    correcting: Correcting, fused: nn.Module, parents: Parents, batches: Batches, synthetic: Batches | None = None
) -> tuple[nn.Module, Corrected]:
    """The network with the correction that was asked for, or the best."""
    forced = correcting.method in CORRECTIONS
    carrying = [name for name, row in CORRECTIONS.items() if row.carries and correcting.method in (AUTO, name)]
    if parents.keep_their_functions(batches):
        if len(parents.models) == 1:
            return fused, Corrected(NONE, note="one model has no mean to come nearer to")
        rows = [correcting.method] if forced else candidates(fused, data=correcting.data is not None)
        start = Uncorrected(fused, parents.aligned, parents.weights, batches, synthetic=synthetic)
    elif norms_of(fused) or not carrying:
        able = " or ".join(name for name, row in CORRECTIONS.items() if row.carries)
        return fused, Corrected(NONE, note=MERGED.format(able=able))
    else:
        rows = carrying
        carry = parents.carry(fused)
        start = Uncorrected(fused, parents.scaled(), parents.weights, batches, synthetic=synthetic, carry=carry)
    with watching(correcting.progress, "correcting") as watch:
        return best_of(rows, start, watch, forced=forced)
