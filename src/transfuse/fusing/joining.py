"""Modules whose heads are joined: placed, held to the models that they were, and calibrated by inputs without labels.

In: modules, where their outputs are placed, inputs. Out: modules that all have the outputs of the result. Where outputs
are placed is said in `heads`.

Calibration. Where one network answers with the classes of all models, scores of different models compete that never
did in training, and a model with larger numbers would drown out the others. So on the inputs that there are, data or
synthetic ones, the largest score of every model stands equally far above the mean of its scores, on average (a factor),
and the largest scores of all models are equal, on average (an offset, where the last layer has a bias). Neither changes
which of a model's own classes it names. No label enters; it is assumed that the inputs ask all models alike.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ..activations import Batches
from ..errors import InputError
from ..modules import Arguments, are_class_scores, first_line, tensors_in, undisturbed
from .heads import Joined

NEAR = 1e-2  # of the largest output, by which a placed model may differ: other shapes are summed in another order
TINY = 1e-12  # keeps scores that are all the same from being divided by zero


def check_placed(joined: Joined, models: Sequence[nn.Module], placed: Sequence[nn.Module], inputs: Arguments) -> None:
    """Hold placed models to what the models give: at the places of their outputs the same, elsewhere zeros.

    Raises:
        InputError: a model does not run, or something follows its last layer in which outputs meet, as in a softmax.
    """
    with undisturbed(*models, *placed, briefly=True), torch.no_grad():
        for number, pair in enumerate(zip(models, placed, strict=True)):
            try:
                one, other = (tensors_in(each(*inputs.args, **inputs.kwargs)) for each in pair)
            except Exception as error:  # the model's own code runs here, and may raise anything
                raise InputError(
                    f"model {number + 1} does not run on the example inputs, or not with {joined.heads.width} outputs: "
                    f"{first_line(error)}. Joined models take the same inputs, and no number of outputs in their code"
                ) from error
            if not any(_is_placed(joined, number, *both) for both in zip(one, other, strict=False)):
                raise InputError(
                    f"the outputs of model {number + 1} cannot be placed among others: what it returns is not what its "
                    f"last layer ({', '.join(joined.axes)}) gives. Leave out what follows that layer, such as a "
                    "softmax, and apply it to the fused network"
                )


def _is_placed(joined: Joined, model: int, own: Tensor, placed: Tensor) -> bool:
    """Whether a tensor is another one, placed along one of its axes."""
    count, width = len(joined.heads.places[model]), joined.heads.width
    axes = [n for n, sizes in enumerate(zip(own.shape, placed.shape, strict=False)) if sizes == (count, width)]
    return own.dim() == placed.dim() and any(_near(joined.expected(model, own, axis), placed) for axis in axes)


def _near(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and bool((one - other).abs().max() <= NEAR * one.abs().max())


def calibrated(joined: Joined, models: Sequence[nn.Module], batches: Batches) -> Joined:
    """Places at which the models compete on equal terms; as they were where outputs are no class scores.

    Args:
        joined: Where outputs are placed.
        models: The models as they were given, in evaluation mode or not.
        batches: Inputs without labels.
    """
    largest, above = [], []
    with undisturbed(*models), torch.no_grad():
        for model in models:
            found = [tensors_in(batch.run(model)) for batch in batches]
            scores = [each[0] for each in found if len(each) == 1 and are_class_scores(each[0])]
            if len(scores) < len(found):
                return joined
            rows = torch.cat(scores).double()
            largest.append(float(rows.amax(1).mean()))
            above.append(float((rows.amax(1) - rows.mean(1)).mean()))
    factors = [_mean(above) / max(each, TINY) for each in above]
    reached = [factor * each for factor, each in zip(factors, largest, strict=True)]
    offsets = [_mean(reached) - each if joined.has_biases else 0.0 for each in reached]
    return joined.calibrated(factors, offsets)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
