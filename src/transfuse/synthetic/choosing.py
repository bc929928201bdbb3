"""Which images networks get without data: leaves, strokes, or inverted noise, and why.

The example says what images look like. Where networks have batch norms, these say more: they remember the statistics of
the data, and the generator counts whose images come nearest. Noise is inverted for this only if no images come near.

In: networks, example inputs, how many images can be afforded. Out: images, or that inverted noise is nearer. Not here:
how images are drawn (`leaves`, `strokes`), how noise is inverted (`inversion`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from torch import Tensor, nn
from torch.utils import _pytree as pytree

from ..activations import Batches
from ..modules import Arguments
from .images import Generator, Images, Look, has_spread, image_place
from .inversion import inverted_inputs
from .leaves import dead_leaves
from .noise import drawn_inputs
from .norms import distance_to_norms
from .strokes import pen_strokes

LEAVES, STROKES, NOISE = "leaves", "strokes", "inverted noise"
GENERATORS: Mapping[str, Generator] = {LEAVES: dead_leaves, STROKES: pen_strokes}
TRIAL = 50  # samples of each kind by which batch norms judge
# Images that are so near to what batch norms remember are taken without a look at inverted noise, which came no nearer
# than this on the three trained networks where it was measured, and takes longer than all else here.
NEAR = 0.1

BY_NORMS = "of all kinds it is nearest to what the batch norms of the networks remember of data ({distances})"
NO_SPREAD = (
    "the example has one value only, so images have mean 0 and deviation 1 in every channel: pass an example with "
    "the mean and the deviation of real inputs"
)


@dataclass(frozen=True, eq=False)
class ChosenImages:
    """The kind of synthetic images that networks get.

    Args:
        kind: The name of the generator.
        why: Why it is this one, for the user to read.
        images: Draws such images; nothing if it is inverted noise.
    """

    kind: str
    why: str
    images: Images | None

    def __str__(self) -> str:
        """The kind, and why, in one line."""
        return f"{self.kind}, since {self.why}"


def chosen_images(
    models: Sequence[nn.Module], example: Arguments, *, seed: int = 0, invertible: bool = True
) -> ChosenImages | None:
    """The kind of images that networks get; nothing if they read no images, or too small ones.

    Args:
        models: Networks of one architecture, in evaluation mode.
        example: Inputs on which they run.
        seed: Seed of the random numbers.
        invertible: Whether noise may be inverted, to be compared: that takes longer than all else here.
    """
    place = image_place(models[0], example)
    if place is None:
        return None
    like: Tensor = pytree.tree_leaves((example.args, dict(example.kwargs)))[place]
    kind, why = _by_look(like)
    kinds = {each: Images(place, like, GENERATORS[each]) for each in (kind, *_others(kind, like))}
    drawn = partial(drawn_inputs, models, example, samples=TRIAL, seed=seed)
    far = {each: distance_to_norms(models, drawn(images=images)) for each, images in kinds.items()}
    distances = {each: distance for each, distance in far.items() if distance is not None}
    far_off = bool(distances) and min(distances.values()) > NEAR
    if far_off and invertible and (inverted := _distance_of_inverted(models, drawn())) is not None:
        distances[NOISE] = inverted
    if distances:
        kind = min(distances, key=lambda each: distances[each])
        why = BY_NORMS.format(distances=", ".join(f"{each} {value:.2g}" for each, value in distances.items()))
    return ChosenImages(kind, why if has_spread(like) else f"{why}; {NO_SPREAD}", kinds.get(kind))


def _distance_of_inverted(models: Sequence[nn.Module], noise: Batches) -> float | None:
    """How far noise, once it is inverted, is from what batch norms remember; nothing if it cannot be inverted."""
    inverted = inverted_inputs(models, noise).batches
    return None if inverted is None else distance_to_norms(models, inverted)


def _by_look(like: Tensor) -> tuple[str, str]:
    """The kind of images that an example looks like, and why."""
    look = Look.of(like)
    if look.sparse:
        return STROKES, f"the example is grey and {look.share:.0%} of it is background"
    colour = "grey, and not mostly background" if len(look.mean) == 1 else f"an image of {len(look.mean)} channels"
    return LEAVES, f"the example is {colour}"


def _others(kind: str, like: Tensor) -> list[str]:
    """Further kinds that batch norms may choose: strokes are grey."""
    return [each for each in GENERATORS if each != kind and (each != STROKES or like.shape[1] == 1)]
