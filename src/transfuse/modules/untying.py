"""Heads with weights of their own: copies of networks whose last layer reads the table of the embedding.

A table that is looked up and also read behind a norm with a vector of gains (GPT-2, T5) keeps the residual stream from
being rotated: the gains would have to go into the one use and not into the other. With two tables they can.

In: a module. Out: a copy that computes the same. Not here: what is done with it.
"""

from __future__ import annotations

from torch import Tensor, nn

from .checks import check_model
from .copying import twin_of


def untied(model: nn.Module) -> nn.Module:
    """A copy of a network in which layers that share the table of an embedding have one of their own.

    It computes the same and has more parameters. Embeddings that share a table go on sharing it, and so do modules that
    are used twice. A configuration of `transformers` is told, so that the copy can be saved and loaded.

    Args:
        model: The network, such as GPT-2 or nanoGPT; it is not changed.

    Raises:
        InputError: it is no module.

    Example:
        >>> net = nn.Sequential(nn.Embedding(5, 3), nn.Linear(3, 5, bias=False))
        >>> net[1].weight = net[0].weight
        >>> [sum(x.numel() for x in each.parameters()) for each in (net, untied(net))]
        [15, 30]
    """
    check_model(model)
    twin = twin_of(model)
    tables = {id(table) for layer in twin.modules() if (table := _table(layer)) is not None}
    own: dict[int, nn.Parameter] = {}
    for layer in (layer for layer in twin.modules() if _table(layer) is None):
        for name, tensor in list(layer.named_parameters(recurse=False)):
            if id(tensor) in tables:
                own.setdefault(id(tensor), nn.Parameter(tensor.detach().clone(), tensor.requires_grad))
                setattr(layer, name, own[id(tensor)])
    if own and hasattr(getattr(twin, "config", None), "tie_word_embeddings"):
        twin.config.tie_word_embeddings = False  # type: ignore[union-attr]
    return twin


def _table(layer: nn.Module) -> Tensor | None:
    """The table of an embedding; none if the layer is no embedding."""
    return layer.weight if isinstance(layer, nn.Embedding | nn.EmbeddingBag) else None
