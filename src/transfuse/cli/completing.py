"""The verb `completion`: a script by which a shell completes verbs, options, methods and files."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from .parser import build
from .records import Option, Outcome


def completion(options: Namespace) -> Outcome:
    """A script that completes verbs, options, methods and files in a shell."""
    try:
        import shtab
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(str(error), name="shtab") from error
    from ..methods import METHODS

    def completed(option: Option, action: Any) -> None:
        if option.name == "method":
            action.choices = list(METHODS)
        if option.is_path:
            action.complete = shtab.FILE

    return Outcome({"shell": options.shell}, shtab.complete(build(completed), options.shell), asked=True)
