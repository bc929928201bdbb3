"""Attention patterns: how much each place looks at each other one, head by head.

Whatever is done to the stream and inside of heads, a pattern stays as it is: it tells heads apart that write much the
same. In: a call of attention, or of a softmax. Out: patterns, and numbers [rows, heads] that stand for heads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..layout import Block

ATTENTION = "scaled_dot_product_attention"
NAMES = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")  # that may be given by their places
SOFTMAX = "softmax"
MOST = 2**24  # numbers of the patterns of a batch that are computed; of longer texts fewer are looked at, or none


def pattern_of(func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Tensor | None:
    """The pattern [..., heads, places, places] of a call of attention; nothing where it is too large.

    Attention over values that are unit vectors gives its own weights, whatever its mask, scale and groups are.
    """
    given = {**dict(zip(NAMES, args, strict=False)), **kwargs}
    query, key, mask = given.pop("query"), given.pop("key"), given.pop("attn_mask", None)
    del given["value"]
    size = query.shape[:-1].numel() * key.shape[-2]
    if size > MOST:
        samples = MOST * len(query) // size if query.dim() > 3 else 0
        if not samples:
            return None
        query, key = query[:samples], key[:samples]
        mask = mask[:samples] if mask is not None and mask.dim() == query.dim() and len(mask) > 1 else mask
    eye = torch.eye(key.shape[-2], dtype=key.dtype, device=key.device).expand(*key.shape[:-1], key.shape[-2])
    pattern: Tensor = func(query, key, eye, mask, **given)
    return pattern


def by_head(pattern: Tensor, block: Block, members: int = 1) -> Tensor | None:
    """A pattern as [rows, units and members], in the order of the units of the block that reads what heads write.

    A unit is a head or, of queries that share keys and values, a group of them: its patterns are beside one another if
    they are `members` of it, else below one another. Nothing where the pattern has not the heads of the block, or where
    these do not stand one after another there.
    """
    units, slots = block.positions.shape
    heads = pattern.shape[-3] if pattern.dim() > 2 else 0  # of a batch and its heads in one axis, all of them
    if not heads or heads % units or not np.array_equal(block.positions.ravel(), np.arange(units * slots)):
        return None
    shared = heads // units if pattern.dim() > 3 else 1
    if shared % members:
        return None
    apart = pattern.reshape(-1, units, members, shared // members, *pattern.shape[-2:])
    return apart.movedim((1, 2), (-2, -1)).reshape(-1, units * members)
