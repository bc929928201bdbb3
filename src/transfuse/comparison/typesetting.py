"""Tables as people hand them on: for a terminal, as Markdown, LaTeX, CSV or HTML.

In: a `Table` of texts. Out: one text. What is best stands out in all of them but CSV, which is for machines.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from html import escape

from ..report import Table

# What LaTeX would take for a command, and how it is written; the sign ± needs the mathematical mode.
_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
        "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
        "|": r"\textbar{}", "±": r"$\pm$", "×": r"$\times$", "…": r"\ldots{}",
    }
)  # fmt: skip


def as_text(table: Table) -> str:
    """A table for a terminal: names to the left, cells to the right, what is best with a star behind it.

    Example:
        >>> print(as_text(Table(["network", "loss"], [["one", "0.5"], ["fused", "0.25"]], best={(1, 1)})))
        network   loss
        ---------------
        one        0.5
        fused     0.25*
    """
    rows = [table.head, *_marked(table, lambda cell: f"{cell}*")]
    padded = [[row[0], *(cell if cell.endswith("*") else f"{cell} " for cell in row[1:])] for row in rows]
    wide = [max(len(row[column]) for row in padded) for column in range(len(table.head))]
    lines = [
        (
            f"{row[0]:<{wide[0]}}" + "".join(f"   {cell:>{w}}" for cell, w in zip(row[1:], wide[1:], strict=True))
        ).rstrip()
        for row in padded
    ]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])


def as_markdown(table: Table) -> str:
    r"""A table in Markdown; what is best is bold.

    Example:
        >>> print(as_markdown(Table(["a|b", "loss"], [["one", "1"]], best={(0, 1)})), end="")
        | a\|b | loss |
        | --- | --- |
        | one | **1** |
    """
    rows = [table.head, ["---"] * len(table.head), *_marked(table, lambda cell: f"**{cell}**")]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |\n" for row in rows)


def as_latex(table: Table, *, caption: str = "") -> str:
    r"""A table in LaTeX, which needs the package `booktabs`; what is best is bold.

    Example:
        >>> print(as_latex(Table(["a_b", "error, %"], [["one", "1 ± 2"]], best={(0, 1)})), end="")
        % \usepackage{booktabs}
        \begin{tabular}{lr}
        \toprule
        a\_b & error, \% \\
        \midrule
        one & \textbf{1 $\pm$ 2} \\
        \bottomrule
        \end{tabular}
    """
    body = _marked(table, lambda cell: f"\\textbf{{{cell}}}", lambda cell: cell.translate(_LATEX))
    head = [cell.translate(_LATEX) for cell in table.head]
    lines = [
        r"% \usepackage{booktabs}",
        f"\\begin{{tabular}}{{l{'r' * (len(head) - 1)}}}",
        r"\toprule",
        _latex_row(head),
        r"\midrule",
        *map(_latex_row, body),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    if caption:
        told = " ".join(caption.split()).translate(_LATEX)
        lines = [lines[0], r"\begin{table}", r"\centering", f"\\caption{{{told}}}", *lines[1:], r"\end{table}"]
    return "\n".join(lines) + "\n"


def as_csv(table: Table) -> str:
    r"""A table as comma-separated values, quoted where that is needed.

    Example:
        >>> as_csv(Table(["network", "error, %"], [["one", "2.5"]]))
        'network,"error, %"\r\none,2.5\r\n'
    """
    written = io.StringIO()
    csv.writer(written).writerows([table.head, *table.rows])
    return written.getvalue()


def as_html(table: Table) -> str:
    """A table for a notebook; what is best is bold."""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in table.head)
    rows = _marked(table, lambda cell: f"<b>{cell}</b>", escape)
    body = "".join(
        f'<tr><th style="text-align: left">{row[0]}</th>' + "".join(f"<td>{cell}</td>" for cell in row[1:]) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _latex_row(cells: list[str]) -> str:
    return " & ".join(cells) + r" \\"


def _marked(
    table: Table, mark: Callable[[str], str], plain: Callable[[str], str] = lambda cell: cell
) -> list[list[str]]:
    """The rows of a table, each cell made plain for a format, and marked if it is best."""
    return [
        [mark(plain(cell)) if (line, column) in table.best else plain(cell) for column, cell in enumerate(row)]
        for line, row in enumerate(table.rows)
    ]
