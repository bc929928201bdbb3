"""The correction at the end of a fusion, by data or by synthetic inputs.

In: a fused network, its parents, inputs. Out: a corrected network and what was done to it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from torch import nn
from torch.linalg import LinAlgError  # type: ignore[attr-defined]

from ..activations import Batches
from ..barycenter import Couplings
from ..corrections import (
    AUTO,
    AUTO_AIM,
    CORRECTIONS,
    NONE,
    Corrected,
    Uncorrected,
    Units,
    best_of,
    candidates,
    norms_of,
)
from ..errors import InputError
from ..layout import Framed, Layout, balanced
from ..layout.transposing import transposed, transposed_element
from ..modules import (
    cause_of,
    is_half,
    model_state,
    numbers_in,
    transposed_weights,
    undisturbed,
    with_linear_layers,
    with_state,
    with_transposed,
)
from ..progress import Progress, watching
from ..synthetic import WITHOUT
from .inputs import Inputs

MERGED = "units were merged, and the aligned networks do not compute what the models do: then only {able} is possible"


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
        raise InputError(
            f"correct is {method!r}, but the models have no batch norm with running statistics; choose another"
        )


@dataclass(frozen=True, eq=False)
class Parents:
    """The networks that were fused.

    Args:
        models: The networks as they were given.
        aligned: The networks in the common order.
        weights: Proportions of the networks, summing to 1.
        layout: Which axes move together.
        couplings: For each network its couplings, by space.
        balance: Whether the models were brought to a canonical scale before they were coupled.
    """

    models: Sequence[nn.Module]
    aligned: Sequence[nn.Module]
    weights: Sequence[float]
    layout: Layout
    couplings: Sequence[Couplings]
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

    def units(self, fused: nn.Module) -> Units:
        """Units of the aligned networks; of the models themselves where these were grown, and have units twice."""
        widths = self.layout.widths(model_state(fused))
        if all(self.layout.widths(model_state(model)) == widths for model in self.models):
            return Units(self.layout, self.aligned)
        return Units(self.layout, self.scaled(), self.couplings)

    def with_linear_layers(self, names: Collection[str]) -> Parents:
        """The same networks with the weights of some linear layers transposed, as `nn.Linear` has them."""
        couplings = [
            {
                space: transposed_element(each, names) if isinstance(each, Framed) else each
                for space, each in own.items()
            }
            for own in self.couplings
        ]
        models, aligned = ([with_linear_layers(each) for each in some] for some in (self.models, self.aligned))
        return replace(self, models=models, aligned=aligned, layout=transposed(self.layout, names), couplings=couplings)

    def scaled(self) -> list[nn.Module]:
        """The models, in the scale in which they were coupled."""
        if not self.balance:
            return list(self.models)
        return [with_state(model, balanced(model.state_dict(), self.layout)) for model in self.models]


def corrected(
    method: str, fused: nn.Module, parents: Parents, inputs: Inputs, progress: Progress = False, *, aim: str = AUTO_AIM
) -> tuple[nn.Module, Corrected]:
    """The fused network, corrected, and what was done to it.

    Args:
        method: A row of `CORRECTIONS`, `auto` or `none`.
        fused: The fused network.
        parents: The networks that were fused.
        inputs: What to correct by: data, else synthetic inputs.
        progress: Who is told how far it is.
        aim: What is aimed at: a row of `AIMS`, or `auto`.
    """
    if method == NONE:
        return fused, Corrected(NONE)
    if is_half(fused):
        return fused, Corrected(NONE, note="corrections are made in float32 and float64 only")
    if inputs.data is None and inputs.synthetic.batches is None:
        return fused, Corrected(NONE, note=inputs.synthetic.why_not)
    if inputs.data is not None:
        return _corrected_upright(method, fused, parents, inputs, progress, aim)
    try:
        result, done = _corrected_upright(method, fused, parents, inputs, progress, aim)
    except (InputError, LinAlgError) as error:  # the fusion itself stands, and says why it was not corrected
        return fused, Corrected(NONE, note=WITHOUT.format(cause=cause_of(error)))
    judged = f"judged by synthetic inputs{f' ({chosen})' if (chosen := inputs.synthetic.chosen) else ''}"
    return result, replace(done, note="; ".join(filter(None, [judged, done.note])))


def _corrected_upright(
    method: str, fused: nn.Module, parents: Parents, inputs: Inputs, progress: Progress, aim: str
) -> tuple[nn.Module, Corrected]:
    """The corrected network, by way of one in which all linear layers have their weights as [outputs, inputs]."""
    names = transposed_weights(fused)
    if not names:
        return _corrected_by(method, fused, parents, inputs, progress, aim)
    result, done = _corrected_by(
        method, with_linear_layers(fused), parents.with_linear_layers(names), inputs, progress, aim
    )
    return with_state(fused, with_transposed(model_state(result), names)), done


def _corrected_by(
    method: str, fused: nn.Module, parents: Parents, inputs: Inputs, progress: Progress, aim: str
) -> tuple[nn.Module, Corrected]:
    """The network with the correction that was asked for, or the best."""
    forced = method in CORRECTIONS
    batches, beside = (inputs.data, inputs.synthetic.batches) if inputs.data else (inputs.synthetic.batches, None)
    assert batches is not None, "without inputs nothing is corrected"
    if parents.keep_their_functions(batches):
        if len(parents.models) == 1:
            return fused, Corrected(NONE, note="one model has no mean to come nearer to")
        rows = [method] if forced else candidates(fused, data=inputs.data is not None)
        units = parents.units(fused)
        start = Uncorrected(fused, parents.aligned, parents.weights, batches, synthetic=beside, units=units)
    else:
        normed = bool(norms_of(fused))
        able = [name for name, row in CORRECTIONS.items() if row.carries and (row.needs_units or not normed)]
        rows = [name for name in able if method == name or (method == AUTO and CORRECTIONS[name].automatic)]
        if not rows:
            return fused, Corrected(NONE, note=MERGED.format(able=" or ".join(able)))
        models = parents.scaled()
        units = Units(parents.layout, models, parents.couplings)
        start = Uncorrected(fused, models, parents.weights, batches, synthetic=beside, units=units, carried=True)
    with watching(progress, "correcting") as watch:
        return best_of(rows, replace(start, aim=aim), watch, forced=forced)
