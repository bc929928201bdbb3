"""From arguments to options and back, by the records of the verbs. Nothing here imports torch."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from ..errors import InputError
from ..renamed import told_renamed
from .records import Option, Verb
from .verbs import VERBS

DESCRIPTION = """Several neural networks, trained independently, become one.

Checkpoints: safetensors (one file, or an index of several), .pt/.pth/.ckpt/.bin, Hugging Face folders, export archives.
"""

EXAMPLES = """examples:
  transfuse demo                                          see it work, in about a minute
  transfuse fuse a.safetensors b.safetensors -o ab.safetensors --model mlpnet
  transfuse trace --model nets.py:CNN --input-shape 1,28,28
  transfuse methods

`transfuse VERB --help` has the options and examples of a verb."""

# Told of every argument as it is added: the record and what argparse made of it.
Added = Callable[[Option, argparse.Action], None]


class _Parser(argparse.ArgumentParser):
    """A parser that raises its errors, so that they look like all others."""

    def error(self, message: str) -> NoReturn:
        message = "; ".join([message, *filter(None, map(told_renamed, message.split()))])
        raise InputError(f"{message}; see `{self.prog} --help`")


def build(added: Added = lambda option, action: None) -> argparse.ArgumentParser:
    """The parser of the whole command."""
    parser = _Parser(
        prog="transfuse", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=EXAMPLES, allow_abbrev=False,
    )  # fmt: skip
    parser.add_argument("--version", action="store_true", help="print the version and stop")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", parser_class=_Parser)
    for name, verb in VERBS.items():
        own = verbs.add_parser(
            name, help=verb.summary, description=verb.summary[0].upper() + verb.summary[1:] + ".", allow_abbrev=False,
            epilog=f"examples:{verb.examples}" if verb.examples else None,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )  # fmt: skip
        _add_options(own, verb, added)
    return parser


def _add_options(parser: argparse.ArgumentParser, verb: Verb, added: Added) -> None:
    """The options of a verb, each under the heading of its group."""
    groups: dict[str, Any] = {"": parser}
    for option in verb.options:
        if option.group not in groups:
            groups[option.group] = parser.add_argument_group(option.group)
        added(option, groups[option.group].add_argument(*option.flags, **_settings(option)))


def _settings(option: Option) -> dict[str, Any]:
    """An option as argparse wants it."""
    if option.switch:
        return {"action": "store_true", "help": option.help}
    if option.pairs:
        return {"nargs": "+", "action": "extend", "default": [], "metavar": "KEY=VALUE", "help": option.help}
    settings = {
        "help": option.help, "metavar": option.metavar, "type": option.read, "default": option.default,
        "nargs": option.number, "choices": option.choices or None,
    }  # fmt: skip
    return settings if option.is_positional else {**settings, "required": option.required}


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The options that arguments stand for.

    Raises:
        InputError: they make no sense.
    """
    options = build().parse_args(arguments)
    if options.verb is None and not options.version:
        raise InputError(f"name a verb, one of {', '.join(VERBS)}; see `transfuse --help`")
    return options


def typed(option: Option, value: Any) -> list[str]:
    """The words that one types to give an option a value; none for a switch that is off or a value that is missing."""
    flag = [] if option.is_positional else [option.flags[0]]
    if value is None or value is False or (isinstance(value, list | dict) and not value):
        return []
    if option.switch and value is True:
        return flag
    if isinstance(value, Mapping):
        return [*flag, *(f"{key}={_as_yaml(each)}" for key, each in value.items())]
    if isinstance(value, list | tuple):
        words = list(map(str, value))
        return [*flag, *words] if option.number or option.pairs else [*flag, ",".join(words)]
    return [*flag, str(value)]


def _as_yaml(value: Any) -> str:
    import yaml  # not needed for help

    return str(yaml.safe_dump(value, default_flow_style=True, width=float("inf"))).split("\n", maxsplit=1)[0]
