"""Dreams: inputs in which networks see every class, made of noise by moving it.

On noise most networks say the same of every input, and see little of what they were trained for. A few steps of
gradient descent change that: each input is moved until all networks give the class that it was assigned, class after
class. What the layers see then is nearer to what they see on data; labels and data are not needed.

In: networks that are run with gradients, and batches of noise. Out: batches. Not here: what noise is, and what is done
with it. Where there are no classes (what comes out first is no [samples, classes]), no inputs of floats, or no
gradients, there are no dreams.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils import _pytree as pytree

from ..activations.batches import Batches
from ..modules.running import tensors_in
from ..progress import Watch

STEPS, RATE = 20, 0.1  # of Adam; its rate is in root mean squares of the input


def inverted_inputs(
    models: Sequence[nn.Module], noise: Batches, watch: Watch = lambda stage, done, total: None
) -> Batches | None:
    """The same batches, moved until every network sees an assigned class in each sample; nothing if that cannot be.

    Args:
        models: Networks of one architecture, in evaluation mode.
        noise: From `synthetic`: what a batch holds is a tree of tensors, samples along the first axis of the outputs.
        watch: Is told of each batch.
    """
    found = []
    for number, content in enumerate(noise.data):
        try:
            with torch.inference_mode(mode=False), torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
                moved = _moved(models, noise, content, number)
        except Exception:  # whatever the models raise: they cannot be run with gradients
            return None
        if moved is None:
            return None
        found.append(moved)
        watch("moving noise", len(found), noise.count)
    return replace(noise, data=found)


def _moved(models: Sequence[nn.Module], noise: Batches, content: Any, number: int) -> Any:
    """One batch, moved; nothing if there are no classes, or a network gives no numbers."""
    leaves, tree = pytree.tree_flatten(content)
    own = {
        place: leaf.clone().requires_grad_()
        for place, leaf in enumerate(leaves)
        if isinstance(leaf, Tensor) and leaf.is_floating_point()
    }
    if not own:
        return None
    sizes = {place: float(leaf.detach().square().mean().sqrt()) for place, leaf in own.items()}
    adam = torch.optim.Adam([{"params": [leaf], "lr": RATE * sizes[place]} for place, leaf in own.items()])
    for _ in range(STEPS):
        # Copies: a network may write to its inputs.
        given = [own[place].clone() if place in own else leaf for place, leaf in enumerate(leaves)]
        scores = [_scores(noise.forward(model, pytree.tree_unflatten(given, tree))) for model in models]
        if any(each is None for each in scores):
            return None
        loss = torch.stack([_distance(each, number) for each in scores if each is not None]).sum()
        if not bool(loss.isfinite()):
            return None
        slopes = torch.autograd.grad(loss, list(own.values()), allow_unused=True)
        for leaf, slope in zip(own.values(), slopes, strict=True):
            leaf.grad = slope
        adam.step()
    return pytree.tree_unflatten(
        [own[place].detach() if place in own else leaf for place, leaf in enumerate(leaves)], tree
    )


def _scores(outputs: Any) -> Tensor | None:
    """What a network says of each class [samples, classes]: what comes out first, if it has that shape."""
    floats = [each for each in tensors_in(outputs) if each.is_floating_point()]
    return floats[0] if floats and floats[0].dim() == 2 and floats[0].shape[1] > 1 else None


def _distance(scores: Tensor, number: int) -> Tensor:
    """How far scores are from saying one class after another; each batch goes on where the one before it ended."""
    count, classes = scores.shape
    wanted = (number * count + torch.arange(count, device=scores.device)) % classes
    return F.cross_entropy(scores.float(), wanted)
