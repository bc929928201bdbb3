"""The errors and warnings a user can meet: one root, few leaves, each named after what the user can do about it.

Every message says where it happened, what was found, what was expected, and what to do.
"""

import sys
import warnings


class FusionError(Exception):
    """Root of everything that transfuse raises on purpose."""


class LayoutError(FusionError):
    """A layout is malformed, or tensors do not fit it: change the layout or the tensors."""


class InputError(FusionError):
    """A model, example input or option cannot be used as given: change what is passed in."""


class TraceError(FusionError):
    """The model runs but cannot be traced: change the model, pass a rule, or write the layout by hand."""


class ProofError(FusionError):
    """Moving units by the layout changed what the network computes: the layout is wrong for this network."""


class TraceWarning(UserWarning):
    """Parts of a network were not traced: pass example inputs that reach them, or say what to do with them."""


class WidthWarning(UserWarning):
    """Models compute something else in the widths of the target: choose widths that they can grow to."""


class CollapseWarning(UserWarning):
    """Hardly any unit of a model was kept where units were selected: the result is mostly another model."""


class StatisticsWarning(UserWarning):
    """Running statistics of batch norm were interpolated between networks: pass data, to compute them anew."""


def warn_caller(text: str, kind: type[Warning]) -> None:
    """Warn at the line of the user's that called transfuse, however many of its own functions lie between."""
    frame, level = sys._getframe(1), 2
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] == __package__:
        frame, level = frame.f_back, level + 1
    warnings.warn(text, kind, stacklevel=level)


def listing(headline: str, problems: list[str]) -> str:
    """One message for many problems, each on a line of its own, so that a user sees all of them at once."""
    return headline + "".join(f"\n  - {printable(problem)}" for problem in problems)


def printable(text: str, *, keep: str = "") -> str:
    r"""A text without control characters, which could move a terminal's cursor or begin lines: codes stand for them.

    Args:
        text: Any text; names of tensors and files come from strangers.
        keep: Control characters that may stay, such as the ends of lines of a text that has several.

    Example:
        >>> print(printable("a\r\x1b[31mb"))
        a\r\x1b[31mb
    """
    return "".join(
        each if each.isprintable() or each in keep else each.encode("unicode_escape", "surrogatepass").decode()
        for each in text
    )
