"""Synthetic inputs for a fusion: which are made, why, and what they are for.

In: networks and example inputs. Out: `Batches`, or why there are none. How noise is drawn stands in `noise`, how it is
inverted in `inversion`, which images are drawn in `choosing`, how language models write texts in `sampling`, how many
there are in `budget`. Not here: the corrections that they serve.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import torch
from torch import nn

from ..activations import Batches
from ..arguments import NETWORKS, SEED, check_arguments, count, optional
from ..errors import InputError
from ..modules import Arguments, can_be_corrected, cause_of, numbers_in, tensors_in, undisturbed, unwrapped
from ..progress import Progress, watching
from .budget import FEWEST, MOST_IMAGES, SAMPLES, Budget, convolves, effort, recurs
from .choosing import LEAVES, ChosenImages, chosen_images
from .classes import told_known
from .images import shows_something
from .inversion import Inverted, inverted_inputs
from .likening import TIMES, likened
from .noise import drawn_inputs
from .sampling import SAMPLED, Language, sampled_inputs

MATCHING = 500  # images by which units are matched; a refit gains from more
ENOUGH = 500  # samples of data beside which noise for recurrent networks need not be inverted, which takes long
BESIDE = 500  # images beside data, at most: with more, they take longer than they are worth

WITHOUT = "no correction by synthetic inputs: {cause}"  # the fusion itself goes on: it does not need them
ONLY_INVERTED = (
    "networks with convolutions are corrected by synthetic inputs only if these are images, or if they see classes in "
    "them, since noise that is merely drawn harms them, and here {why}; pass data=, inputs without labels, or ask for "
    "a correction by its name"
)
BY_MODELS = "texts sampled from the models, since they give a score for each token at each place"
LIKENED = (
    f"channels were moved, and of {TIMES} times as many images those taken, so that these norms see what they remember"
)
BY_EXAMPLE = "the example judges beside them, since neighbouring pixels of it are alike, as those of noise are not"
TOO_LONG = (
    "it would take too long to go by as few as {fewest} samples (more than {effort:.0e} floating-point operations; "
    "data=transfuse.synthetic_inputs(models, example_inputs) takes as long as it takes)"
)


def synthetic_inputs(
    models: Sequence[nn.Module], example_inputs: Any, *, samples: int | None = None, seed: int = 0
) -> Batches:
    """Inputs like the example, made without data, for networks of one architecture: to be passed as `data`.

    For networks whose convolutions read images they are leaves (overlapping shapes) or strokes, by what the example
    looks like and what batch norms remember of data; an example that is no noise is a further batch, which judges and
    from which nothing is learnt. For others they are noise; where the networks tell classes apart,
    it is inverted: moved until the networks see every class in turn (as in DeepInversion, Yin et al. 2020,
    arXiv:1912.08795), however long it takes. Language models, which give a score for each token at each place, write
    texts themselves, token by token and by equal shares.

    Args:
        models: The networks; the covariance of what is drawn comes from their first weights.
        example_inputs: A tensor, a tuple of positional arguments, or a dict of keyword arguments.
        samples: How many; default: 1000 images, 200 texts, 200 of noise for networks with convolutions, 500 for others.
        seed: Seed of the random numbers.

    Example:
        >>> import torch
        >>> net = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
        >>> synthetic_inputs([net], torch.randn(2, 3)).count
        5
    """
    check_arguments(models=(models, NETWORKS), samples=(samples, optional(count(1))), seed=(seed, SEED))
    if not len(models):
        raise InputError("models is empty; expected a list of one or more torch.nn.Module: [a, b]")
    models, example = [unwrapped(model) for model in models], Arguments.of(example_inputs)
    with undisturbed(*models):
        if (language := Language.of(models[0], example)) is not None:
            return sampled_inputs(models, language, samples=samples or SAMPLED, seed=seed)
        chosen = _like_data(models, example, chosen_images(models, example, seed=seed), seed)
        if chosen is not None and chosen.images is not None:
            drawn = drawn_inputs(models, example, samples=samples or MOST_IMAGES, seed=seed, images=chosen.images)
            return _judged(drawn, example) if shows_something(chosen.images.like) else drawn
        drawn = drawn_inputs(models, example, samples=samples or SAMPLES[convolves(models[0], example)], seed=seed)
        return inverted_inputs(models, drawn).batches or drawn


def plain_inputs(models: Sequence[nn.Module], example: Arguments, *, samples: int, seed: int = 0) -> Batches:
    """Inputs like the example that are drawn in no time: images where networks read them, noise else, not inverted.

    Args:
        models: Networks that take the same inputs, of equal or different depths, in evaluation mode.
        example: Inputs on which they run.
        samples: How many.
        seed: Seed of the random numbers.
    """
    chosen = chosen_images(models, example, seed=seed, invertible=False)
    return drawn_inputs(models, example, samples=samples, seed=seed, images=chosen.images if chosen else None)


@dataclass(frozen=True, eq=False)
class SyntheticInputs:
    """Synthetic inputs of a fusion, in place of data or beside it.

    Args:
        batches: The inputs, if there are any.
        why_not: Why there are none, for the user to read.
        matching: Those of them by which units are matched too. That was found to pay for convolutions, and to make no
            difference for other networks.
        chosen: Which images or texts they are, and why; or which classes noise shows to which model, where these know
            different ones.
        drawn: Whether they are images that were drawn.
    """

    batches: Batches | None = None
    why_not: str = ""
    matching: Batches | None = None
    chosen: str = ""
    drawn: bool = False

    @staticmethod
    def of(  # noqa: PLR0913
        models: Sequence[nn.Module], example: Arguments | None, *, plain: bool, data: int, seed: int,
        streams: bool = False, apart: bool = False, progress: Progress = False,
    ) -> SyntheticInputs:  # fmt: skip
        """Synthetic inputs for networks of one architecture, or why there are none.

        Args:
            models: The networks.
            example: What the inputs shall be like; none: there are no such inputs.
            plain: A correction was asked for by name, so that networks with convolutions get inputs that are of less
                use too, if there are no others.
            data: How many samples of data there are.
            seed: Seed of the random numbers.
            streams: Whether the networks have linear residual streams, whose directions take many inputs: images are
                drawn beside data, too. For other networks with convolutions that was not found to help.
            apart: Whether the networks know different classes, so that no input can ask all of them.
            progress: Who is told how far it is.
        """
        if example is None or not can_be_corrected(models[0]):
            return SyntheticInputs()
        with undisturbed(*models):
            try:
                _check_dense(example)
                budget = Budget.of(models[0], example, models=len(models))
                if budget.convolutions and data and not streams:
                    return SyntheticInputs()
                budget = replace(budget, images=min(budget.images, BESIDE)) if data else budget
                if (language := Language.of(models[0], example)) is not None:
                    return _sampled(models, language, budget, seed)
                chosen = chosen_images(models, example, seed=seed, invertible=budget.inverted)
                chosen = chosen if data else _like_data(models, example, chosen, seed)
                drawn = _drawn(models, example, budget, chosen, seed)
            except Exception as error:  # the networks' own code runs here, and may raise anything: it is told
                return SyntheticInputs(why_not=WITHOUT.format(cause=cause_of(error)))
            images = chosen.images if chosen else None
            too_long = "" if budget.inverted else TOO_LONG.format(fewest=FEWEST, effort=effort(models[0]))
            if data >= ENOUGH and images is None and recurs(models[0], example):
                found = SyntheticInputs(drawn)
            elif images is None:
                # Beside data it was not found to matter which classes networks know, and it takes longer.
                found = _inverted(models, drawn, budget, too_long, progress, apart=apart, tell=not data)
            else:
                kept = -(-drawn.count * MATCHING // max(budget.images, MATCHING))
                found = SyntheticInputs(drawn, too_long, matching=_first(drawn, kept), drawn=True)
                if not data and shows_something(images.like):
                    found = replace(found, batches=_judged(drawn, example), chosen=BY_EXAMPLE)
            assert found.batches is not None, "there are inputs, though maybe of less use"
            of_no_use = found.why_not if budget.convolutions and not plain else ""
            # Inputs that were merely drawn are much alike: what networks give on the first batch tells of the others.
            why_not = of_no_use or _unusable(
                models, _first(drawn, 1) if images or found.batches is drawn else found.batches
            )
        told = "; ".join(filter(None, ["" if chosen is None else str(chosen), found.chosen]))
        return SyntheticInputs(why_not=why_not) if why_not else replace(found, why_not="", chosen=told)


def _check_dense(example: Arguments) -> None:
    """Refuse sparse inputs: which of their numbers are there, as the edges of a graph are, cannot be made up.

    Raises:
        InputError: an example input is sparse.
    """
    if any(each.layout is not torch.strided for each in tensors_in([*example.args, dict(example.kwargs)])):
        raise InputError("an example input is sparse, and no others like it can be made up; pass data=")


def _sampled(models: Sequence[nn.Module], language: Language, budget: Budget, seed: int) -> SyntheticInputs:
    """Texts that the networks write; none if that would take too long, for random tokens are of little use."""
    if not budget.inverted:
        return SyntheticInputs(why_not=WITHOUT.format(cause=TOO_LONG.format(fewest=FEWEST, effort=effort(models[0]))))
    texts = sampled_inputs(models, language, samples=min(SAMPLED, budget.samples), seed=seed)
    why_not = _unusable(models, texts)
    return SyntheticInputs(why_not=why_not) if why_not else SyntheticInputs(texts, chosen=BY_MODELS)


def _like_data(
    models: Sequence[nn.Module], example: Arguments, chosen: ChosenImages | None, seed: int
) -> ChosenImages | None:
    """Images that look, to batch norms, like the data that they remember: leaves, and where there are such norms."""
    if chosen is None or chosen.images is None or chosen.kind != LEAVES:
        return chosen
    images = likened(models, example, chosen.images, seed=seed)
    return chosen if images is chosen.images else replace(chosen, images=images, why=f"{chosen.why}; {LIKENED}")


def _drawn(
    models: Sequence[nn.Module], example: Arguments, budget: Budget, chosen: ChosenImages | None, seed: int
) -> Batches:
    """The images that were chosen, as many as can be afforded; or noise."""
    if chosen is None or chosen.images is None:
        return drawn_inputs(models, example, samples=budget.samples, seed=seed)
    return drawn_inputs(models, example, samples=budget.images or budget.samples, seed=seed, images=chosen.images)


def _judged(drawn: Batches, example: Arguments) -> Batches:
    """Images that are drawn, and the example beside them, which judges: that it shows something makes it a real one."""
    return drawn.judged_by((example.args, dict(example.kwargs)))


def _inverted(  # noqa: PLR0913
    models: Sequence[nn.Module], drawn: Batches, budget: Budget, too_long: str, progress: Progress, *, apart: bool,
    tell: bool,
) -> SyntheticInputs:  # fmt: skip
    """Noise, inverted; or noise as it was drawn, and why it could not be inverted."""
    inverted = Inverted(why_not=too_long)
    if budget.inverted:
        with watching(progress, "inputs") as watch:
            inverted = inverted_inputs(models, drawn, watch, apart=apart, tell=tell)
    if inverted.batches is None:
        return SyntheticInputs(drawn, ONLY_INVERTED.format(why=inverted.why_not))
    matching = inverted.batches if budget.convolutions else None
    return SyntheticInputs(inverted.batches, matching=matching, chosen=told_known(inverted.known))


def _first(batches: Batches, count: int) -> Batches:
    """The first batches, so many of them."""
    return replace(batches, data=list(islice(batches.data, count)), count=count)


def _unusable(models: Sequence[nn.Module], batches: Batches) -> str:
    """Why networks give no numbers on inputs; empty if they do."""
    try:
        for batch in batches:
            for model in models:
                numbers_in(batch.run(model))
    except InputError as error:  # whatever a network raises comes as one
        return WITHOUT.format(cause=error)
    return ""
