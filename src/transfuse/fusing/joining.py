"""Modules whose heads are joined: placed, held to the models that they were, and calibrated by inputs without labels.

In: modules, where their outputs are placed, inputs. Out: modules that all have the outputs of the result. Where outputs
are placed is said in `heads`.

Calibration. Where one network answers with the classes of all models, scores of different models compete that never
did in training, and a model with larger numbers would drown out the others. So each input, of data or synthetic, counts
as one that asks the model whose largest score stands highest above its mean score; and a factor for each model has
these heights be the same for all models, in the median over the inputs that ask it. Both are repeated until nothing
changes. That takes from a model which is surer by right, for its classes are easier. So there is a second rule: the
height of a model is the middle between its medians over the inputs that ask each of the models. Of both rules the
one counts whose heights are more nearly in proportion to how high each model stands where it is surest of all inputs.

Where the last layer has a bias, the mean score of each model becomes zero besides, in the median. None of this changes
which of its own classes a model names. No label enters, and it need not be known how many inputs ask which model.
Synthetic inputs tell all this but roughly: models that seem nearly alike by them are left as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..activations import Batches
from ..errors import InputError
from ..modules import Arguments, are_class_scores, first_line, tensors_in, undisturbed, with_state
from ..types import State
from .heads import Heads, Joined

NEAR = 1e-2  # of the largest output, by which a placed model may differ: other shapes are summed in another order
TINY = 1e-12  # keeps scores that are all the same from being divided by zero
# Of inputs, that are lower than a model's peak: of two rules that differ it told the better one on all of nine pairs of
# MLPNets and nine of ResNet20s (docs/notes/data.md), and it goes little by how many inputs ask which model.
PEAK = 0.9
ROUNDS = 50  # of asking; some five were needed
ROUGH = 1.5  # times by which heights may seem to differ on synthetic inputs: on five pairs on MNIST it was up to 1.3
FEWEST = 5  # inputs that ask a model: of fewer a median says little, and all inputs count


def placed_modules(joined: Joined, models: Sequence[nn.Module], states: Sequence[State]) -> list[nn.Module]:
    """Copies of models with placed states, that is, with the outputs of all.

    Raises:
        InputError: naming the layers that cannot be rebuilt.
    """
    placed = [with_state(model, state) for model, state in zip(models, states, strict=True)]
    labels = label_names(joined.heads, [getattr(model, "config", None) for model in models])
    for model in placed:
        _tell_labels(model, labels)
    return placed


def label_names(heads: Heads, configs: Sequence[Any]) -> list[str]:
    """The names of the outputs of models of transformers whose heads are joined.

    They are the classes if these are given, else what the configurations of the models call them, if no name stands
    there twice; else numbers.
    """
    if heads.classes:
        return list(map(str, heads.classes))
    own = [list(map(str, (getattr(config, "id2label", None) or {}).values())) for config in configs]
    names = [name for each in own for name in each]
    if [len(each) for each in own] == [len(places) for places in heads.places] and len(set(names)) == len(names):
        return names
    return [f"LABEL_{place}" for place in range(heads.width)]


def _tell_labels(model: Any, names: Sequence[str]) -> None:
    """Have a model of transformers know its number of labels, and their names, which its configuration keeps."""
    config: Any = getattr(model, "config", None)
    if hasattr(config, "id2label") and hasattr(model, "num_labels"):
        config.id2label = dict(enumerate(names))
        config.label2id = {name: place for place, name in enumerate(names)}
        model.num_labels = len(names)


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


def calibrated(joined: Joined, models: Sequence[nn.Module], batches: Batches, *, synthetic: bool) -> Joined:
    """Places at which the models compete on equal terms; as they were where outputs are no class scores.

    Args:
        joined: Where outputs are placed.
        models: The models as they were given, in evaluation mode or not.
        batches: Inputs without labels.
        synthetic: Whether they are synthetic, so that models which seem nearly alike are left as they are.
    """
    with undisturbed(*models), torch.no_grad():
        counts = [len(places) for places in joined.heads.places]
        scores = [_scores(model, batches, count) for model, count in zip(models, counts, strict=True)]
    known = [each for each in scores if each is not None]
    if len(known) < len(models):
        return joined
    means = [each.mean(1) for each in known]
    above = torch.stack([each.amax(1) - mean for each, mean in zip(known, means, strict=True)])
    asked, heights = _nearer_to_peaks(above)
    factors = [sum(heights) / len(heights) / max(each, TINY) for each in heights]
    shifts = [-factor * _median(own, asked == number) if joined.has_biases else 0.0
              for number, (factor, own) in enumerate(zip(factors, means, strict=True))]  # fmt: skip
    shifted = max(map(abs, shifts)) > sum(heights) / len(heights) / 2
    if synthetic and not shifted and max(factors) < ROUGH * min(factors):
        return joined
    return joined.calibrated(factors, shifts)


def asked_models(above: Tensor) -> tuple[Tensor, list[float]]:
    """For each input the number of the model that it asks, and the heights of the models: medians where they are asked.

    An input asks the model whose largest score stands highest.

    Args:
        above: How far the largest score of each model stands above its mean score, [models, inputs].

    Example:
        >>> asked_models(torch.tensor([[1.0, 1.1, 0.2, 0.1], [2.0, 2.0, 9.0, 8.0]]))[0]
        tensor([0, 0, 1, 1])
    """
    asked = (above / above.mean(1, keepdim=True).clamp_min(TINY)).argmax(0)
    for _ in range(ROUNDS):
        heights = [_median(own, asked == number) for number, own in enumerate(above)]
        before, asked = asked, (above / above.new_tensor(heights).clamp_min(TINY)[:, None]).argmax(0)
        if torch.equal(before, asked):
            break
    return asked, [_median(own, asked == number) for number, own in enumerate(above)]


def between_models(above: Tensor) -> tuple[Tensor, list[float]]:
    """For each input the number of the model that it asks, and the heights of the models: in the middle of medians.

    These are the medians over the inputs that ask each of the models; the middle is their geometric mean, so that the
    border between inputs lies in the middle between their groups, as with k-means.

    Args:
        above: How far the largest score of each model stands above its mean score, [models, inputs].

    Example:
        >>> between_models(torch.tensor([[1.0, 1.0, 0.25, 0.25], [2.0, 2.0, 8.0, 8.0]]).repeat(1, 3))[1]
        [0.5, 4.0]
    """
    heights = above.clamp_min(TINY).log().mean(1).exp().tolist()
    for _ in range(ROUNDS):
        asked = (above / above.new_tensor(heights).clamp_min(TINY)[:, None]).argmax(0)
        groups = [asked == number for number in range(len(above))]
        medians = above.new_tensor([[_median(own, group) for group in groups] for own in above])
        before, heights = heights, medians.clamp_min(TINY).log().mean(1).exp().tolist()
        if before == heights:
            break
    return asked, heights


def _nearer_to_peaks(above: Tensor) -> tuple[Tensor, list[float]]:
    """What one of both rules says of inputs and models: the one whose heights are nearer to proportional to the peaks.

    So the choice does not depend on how loud a model is.
    """
    peaks = above.quantile(PEAK, 1).clamp_min(TINY)

    def unlike(rule: tuple[Tensor, list[float]]) -> float:
        """How many times as high as another model, in terms of their peaks, one is."""
        relative = above.new_tensor(rule[1]).clamp_min(TINY) / peaks
        return float(relative.max() / relative.min())

    return min(asked_models(above), between_models(above), key=unlike)


def _median(values: Tensor, chosen: Tensor) -> float:
    """The median of some values; of all, where too few are chosen."""
    return float((values[chosen] if int(chosen.sum()) >= FEWEST else values).median())


def _scores(model: nn.Module, batches: Batches, count: int) -> Tensor | None:
    """The scores [samples, classes] of so many classes that a model gives on inputs, alone or beside other tensors.

    Nothing, if it gives none, or several that could be.
    """
    found = [[each for each in tensors_in(batch.run(model)) if are_class_scores(each) and each.shape[1] == count]
             for batch in batches]  # fmt: skip
    return torch.cat([each[0] for each in found]).double() if all(len(each) == 1 for each in found) else None
