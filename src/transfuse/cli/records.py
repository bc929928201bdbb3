"""What the command is made of: options, verbs, and what a verb has to say. Nothing here imports torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class Option:
    """One argument of a verb, said once: parser, YAML keys, provenance and the command in it are made from this.

    Args:
        flags: How it is typed, the long form last (`("-o", "--out")`); a name without dashes is positional.
        help: What it does, for the help of the verb.
        group: The heading under which the help lists it.
        metavar: What stands for its value in the help.
        read: Makes the value of a text.
        default: Its value if it is not given.
        choices: The values that it may have; empty: any.
        number: How many texts it takes: a number of them, one or more (`+`), or at most one (`?`); none: exactly one.
        switch: It takes no text; giving it turns it on.
        pairs: It takes texts KEY=VALUE, and may be given more than once.
        required: It must be given.
        is_path: Its value may be a path: a shell completes it, and the command in the provenance has its last part.
        writes: Its value is a path that is written to, never read as an input.
        told: The provenance names it among the options.
        again: The command in the provenance repeats it.
    """

    flags: tuple[str, ...]
    help: str = ""
    group: str = ""
    metavar: str | None = None
    read: Callable[[str], Any] = str
    default: Any = None
    choices: tuple[str, ...] = ()
    number: int | Literal["+", "?"] | None = None
    switch: bool = False
    pairs: bool = False
    required: bool = False
    is_path: bool = False
    writes: bool = False
    told: bool = False
    again: bool = False

    @property
    def is_positional(self) -> bool:
        """Whether its place, and not a flag, says what a text is."""
        return not self.flags[-1].startswith("-")

    @property
    def name(self) -> str:
        """Its name among the options that were parsed, and its key in a YAML file."""
        return self.flags[-1].lstrip("-").replace("-", "_")


@dataclass(frozen=True)
class Outcome:
    """What a verb has to say.

    Args:
        data: The result for machines, printed with --json.
        text: The result for people.
        asked: The text is what was asked for: printed also with --quiet.
        failed: A check failed: exit code 1.
    """

    data: dict[str, Any] = field(default_factory=dict)
    text: str = ""
    asked: bool = False
    failed: bool = False


@dataclass(frozen=True)
class Verb:
    """A verb of the command: a row of the table of verbs.

    Args:
        summary: What it does, as the end of a sentence.
        options: Its arguments, in the order of its help.
        examples: Lines for its help.
    """

    summary: str
    options: tuple[Option, ...]
    examples: str = ""
