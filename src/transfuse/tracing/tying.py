"""Vectors that tie units together: gains of norms that all heads share.

Such a vector has a number for each direction of a head, the same for all heads. It makes all heads one unit, and one
unit cannot change places with any other. But its own numbers do not move in any case: read as constants, which tell
directions apart and tie nothing, they leave the heads free.

In: what reading found, and the layout that this gave. Out: names of such vectors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..layout import Layout
from .reading import Reading
from .resolving import classes


def tying_vectors(reading: Reading, layout: Layout, shapes: Mapping[str, Sequence[int]]) -> frozenset[str]:
    """Names of vectors that stay where they are, and whose positions are of one unit with those of other tensors."""
    still = [name for name in reading.ids if len(shapes[name]) == 1 and not layout.tensors[name][0].spaces]
    if not still:
        return frozenset()
    _, units = classes(reading.registry)
    own = {name: {axis: units[ids.numpy()] for axis, ids in axes.items()} for name, axes in reading.ids.items()}
    others = np.concatenate([each for axes in own.values() for each in axes.values() if len(axes) > 1] or [[]])
    return frozenset(
        name for name in still if len(np.unique(own[name][0])) < shapes[name][0] and np.isin(own[name][0], others).any()
    )
