"""Grouping: units put into groups of equal size so that the units of a group are alike.

In: similarities [n, n] of the units of one network (inner products). Out: a group for each unit. It is what merging
needs: a coupling could only be found to a target, and the target, the means of the groups, is not there yet.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def grouped(similarity: NDArray[np.float64], count: int, *, passes: int = 200) -> NDArray[np.int64]:
    """The group [n] of each of n units, in `count` groups whose sizes differ by at most one.

    Neighbours start together. Then units are exchanged between groups, best exchanges first, as long as the sum of
    similarities within groups rises. It never falls.

    Example:
        >>> points = np.array([0.0, 5.0, 0.1, 5.1])
        >>> group = grouped(-((points[:, None] - points) ** 2), 2)
        >>> bool(group[0] == group[2] != group[1] == group[3])
        True
    """
    size = len(similarity)
    groups = np.arange(size) * count // size
    for _ in range(passes):
        gains = exchange_gains(similarity, groups, count)
        partners = gains.argmax(1)
        best = gains[np.arange(size), partners]
        touched: set[int] = set()
        for unit in np.argsort(-best):
            pair = {int(groups[unit]), int(groups[partners[unit]])}
            if best[unit] <= 1e-9 * abs(similarity).max() or pair & touched:
                continue
            touched |= pair
            other = partners[unit]
            groups[unit], groups[other] = groups[other], groups[unit]
        if not touched:
            break
    return groups


def exchange_gains(similarity: NDArray[np.float64], groups: NDArray[np.int64], count: int) -> NDArray[np.float64]:
    """How much the similarity within groups rises when two units change places, [n, n]; nothing within a group."""
    member = np.zeros((count, len(groups)))
    member[groups, np.arange(len(groups))] = 1.0
    to_group = member @ similarity  # [count, n]: of each unit to all units of a group
    at_home = to_group[groups, np.arange(len(groups))] - similarity.diagonal()
    abroad = to_group[groups].T  # [i, j]: unit i in the group of j
    gains: NDArray[np.float64] = abroad + abroad.T - 2 * similarity - at_home[:, None] - at_home
    gains[groups[:, None] == groups] = 0.0
    return gains
