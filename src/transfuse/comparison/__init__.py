"""Comparisons for a paper: methods on groups of networks beside their controls, as tables, curves and planes."""

from .records import Comparison, Line
from .running import compare
from .typesetting import as_csv, as_html, as_latex, as_markdown, as_text

__all__ = ["Comparison", "Line", "as_csv", "as_html", "as_latex", "as_markdown", "as_text", "compare"]
