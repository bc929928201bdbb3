"""Signs and scales of a unit: a small linear system of degrees, solved over GF(2) or over the rationals.

Multiply a unit by `s`: each id of it is multiplied by `s` to the power of its degree. The equations of the registry
must hold, and what consumes the unit must divide by `s`. For signs degrees count modulo 2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction

Row = dict[int, Fraction]  # id -> coefficient; id 0 is the constant; the row sums to zero


def solve(rows: Iterable[Row], *, modulo_two: bool) -> dict[int, Fraction] | None:
    """Degrees that satisfy all rows, later ids zero where there is a choice; None if there are none.

    Example:
        >>> product = {3: Fraction(1), 1: Fraction(-1), 2: Fraction(-1)}
        >>> degrees = solve([product, {3: Fraction(1), 0: Fraction(-1)}], modulo_two=False)
        >>> {key: int(value) for key, value in sorted(degrees.items())}
        {1: 1, 2: 0, 3: 1}
    """
    pivots: dict[int, Row] = {}
    for row in rows:
        reduced = _reduced(_normal(row, modulo_two), pivots, modulo_two)
        ids = [key for key in reduced if key]
        if ids:
            pivots[min(ids)] = reduced
        elif reduced:
            return None
    return _substituted(pivots, modulo_two)


def _normal(row: Row, modulo_two: bool) -> Row:
    kept = {key: value % 2 if modulo_two else value for key, value in row.items()}
    return {key: value for key, value in kept.items() if value}


def _reduced(row: Row, pivots: Mapping[int, Row], modulo_two: bool) -> Row:
    """Eliminate from a row every id that is a pivot, the smallest first."""
    while True:
        pivot = min((key for key in row if key), default=0)
        if pivot not in pivots:
            return row
        factor = row[pivot] / pivots[pivot][pivot]
        merged = dict(row)
        for key, value in pivots[pivot].items():
            merged[key] = merged.get(key, Fraction(0)) - factor * value
        row = _normal(merged, modulo_two)


def _substituted(pivots: Mapping[int, Row], modulo_two: bool) -> dict[int, Fraction]:
    """Back-substitution, from the last id to the first; free ids are zero."""
    free = sorted({key for row in pivots.values() for key in row if key and key not in pivots})
    values: dict[int, Fraction] = {key: Fraction(0) for key in free} | {0: Fraction(1)}
    for pivot in sorted(pivots, reverse=True):
        row = pivots[pivot]
        total = sum((value * values[key] for key, value in row.items() if key != pivot), Fraction(0))
        values[pivot] = -total / row[pivot] % 2 if modulo_two else -total / row[pivot]
    return {key: value for key, value in values.items() if key}
