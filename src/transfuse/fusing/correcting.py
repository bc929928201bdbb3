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
from ..corrections import NONE, ChosenCorrection, Corrected, Uncorrected, Units
from ..errors import InputError
from ..layout import Framed, Layout, balanced
from ..layout.transposing import transposed, transposed_element
from ..modules import (
    can_be_corrected,
    cause_of,
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
        apart: Names of tensors that do not count in that scale.
    """

    models: Sequence[nn.Module]
    aligned: Sequence[nn.Module]
    weights: Sequence[float]
    layout: Layout
    couplings: Sequence[Couplings]
    balance: bool
    apart: frozenset[str] = frozenset()

    def keep_their_functions(self, batches: Batches) -> bool:
        """Whether the aligned networks compute what the models do: not so where units were merged.

        They do where units are only moved. Where some are repeated, or layers were grown, it is seen on inputs.
        """
        if not self.apart and all(each.reversible for own in self.couplings for each in own.values()):
            return True
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
        return [with_state(model, balanced(model.state_dict(), self.layout, apart=self.apart)) for model in self.models]


def corrected(
    chosen: ChosenCorrection, fused: nn.Module, parents: Parents, inputs: Inputs, progress: Progress = False
) -> tuple[nn.Module, Corrected]:
    """The fused network, corrected, and what was done to it.

    Args:
        chosen: The correction that was asked for.
        fused: The fused network.
        parents: The networks that were fused.
        inputs: What to correct by: data, else synthetic inputs.
        progress: Who is told how far it is.
    """
    if not chosen.wanted:
        return fused, Corrected(NONE)
    if not can_be_corrected(fused):
        return fused, Corrected(NONE, note="corrections are made in float32 and float64 only")
    if inputs.data is None and inputs.synthetic.batches is None:
        return fused, Corrected(NONE, note=inputs.synthetic.why_not)
    if inputs.data is not None:
        return _corrected_upright(chosen, fused, parents, inputs, progress)
    try:
        result, done = _corrected_upright(chosen, fused, parents, inputs, progress)
    except (InputError, LinAlgError) as error:  # the fusion itself stands, and says why it was not corrected
        return fused, Corrected(NONE, note=WITHOUT.format(cause=cause_of(error)))
    kind = f" ({inputs.synthetic.chosen})" if inputs.synthetic.chosen else ""
    judged = f"judged by synthetic inputs{kind}" if done.disagreement else ""
    return result, replace(done, note="; ".join(filter(None, [judged, done.note])))


def _corrected_upright(
    chosen: ChosenCorrection, fused: nn.Module, parents: Parents, inputs: Inputs, progress: Progress
) -> tuple[nn.Module, Corrected]:
    """The corrected network, by way of one in which all linear layers have their weights as [outputs, inputs]."""
    names = transposed_weights(fused)
    if not names:
        return _corrected_by(chosen, fused, parents, inputs, progress)
    result, done = _corrected_by(chosen, with_linear_layers(fused), parents.with_linear_layers(names), inputs, progress)
    return with_state(fused, with_transposed(model_state(result), names)), done


def _corrected_by(
    chosen: ChosenCorrection, fused: nn.Module, parents: Parents, inputs: Inputs, progress: Progress
) -> tuple[nn.Module, Corrected]:
    """The network with the correction that was asked for, or the best."""
    batches, beside = (inputs.data, inputs.synthetic.batches) if inputs.data else (inputs.synthetic.batches, None)
    assert batches is not None, "without inputs nothing is corrected"
    carried = not parents.keep_their_functions(batches)
    if not carried and len(parents.models) == 1:
        return fused, Corrected(NONE, note="one model has no mean to come nearer to")
    models = parents.scaled() if carried else parents.aligned
    units = Units(parents.layout, models, parents.couplings) if carried else parents.units(fused)
    drawn = inputs.data is None and inputs.synthetic.drawn
    start = Uncorrected(
        fused, models, parents.weights, batches, synthetic=beside, units=units, carried=carried, drawn=drawn
    )
    with watching(progress, "correcting") as watch:
        return chosen.made(start, watch, data=inputs.data is not None)
