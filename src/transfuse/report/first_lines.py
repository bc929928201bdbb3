"""What a page says first: one sentence, one large number, and the numbers beside it that a reader compares it with.

In: results. Out: texts. A preview card says the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..landscape.pictures import column_texts
from .contents import ResultRow, Results

WORDS = ("No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine")
BESIDE = {"parent", "average", "ensemble"}  # roles of rows whose values stand beside the large number


@dataclass(frozen=True)
class Opening:
    """The first lines of a page.

    Args:
        sentence: What was done, and what came of it.
        number: The large number with its unit; empty if nothing was measured.
        label: What the number is.
        metric: The metric of the number; empty if nothing was measured.
        unit: The unit of the metric, with the space before it, or nothing.
        beside: Other networks and their values, as texts.
    """

    sentence: str
    number: str = ""
    label: str = ""
    metric: str = ""
    unit: str = ""
    beside: tuple[tuple[str, str], ...] = ()


def opening(results: Results, count: int) -> Opening:
    """The first lines of the page about a fusion of so many networks."""
    became = f"{_counted(count)} became one"
    fused = next((row for row in results.rows if row.role == "fused"), None)
    if fused is None:
        return Opening(f"{became}.")
    metric = main_metric(results)
    unit = unit_of(metric)
    texts = _texts(results.rows, metric, unit)
    average = next((texts[row.name] for row in results.rows if row.role == "average"), None)
    plain = f" Their plain average has {average}." if average else ""
    return Opening(
        sentence=f"{became}, with {article(metric)} {metric} of {texts[fused.name]}.{plain}",
        number=texts[fused.name],
        label=f"{metric} of the fused network",
        metric=metric,
        unit=unit,
        beside=tuple((_short(row.name), texts[row.name]) for row in results.rows if row.role in BESIDE),
    )


def main_metric(results: Results) -> str:
    """The metric that a page shows first: the error, or the first one that was measured."""
    metrics = list(results.rows[0].values)
    return "error" if "error" in metrics else metrics[0]


def unit_of(metric: str) -> str:
    """The unit of a metric after a space that does not break, which only the error of `transfuse.evaluator` has."""
    return "\u00a0%" if metric == "error" else ""


def article(noun: str) -> str:
    """The article before a noun, by its first letter.

    Example:
        >>> article("error"), article("loss")
        ('an', 'a')
    """
    return "an" if noun[:1].lower() in "aeiou" else "a"


def _counted(count: int) -> str:
    """So many networks, in words if they are few."""
    number = WORDS[count] if count < len(WORDS) else str(count)
    return f"{number} network{'s' if count != 1 else ''}"


def _texts(rows: Sequence[ResultRow], metric: str, unit: str) -> dict[str, str]:
    """The value of each row as a text with its unit."""
    values = column_texts([row.values[metric] for row in rows])
    return {row.name: f"{text}{unit}" for row, text in zip(rows, values, strict=True)}


def _short(name: str) -> str:
    """The name of a row without what it says in brackets, and the plain average by these words."""
    return "plain average" if name.startswith("vanilla") else name.partition(" (")[0]
