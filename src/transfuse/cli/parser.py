"""What can be typed: verbs, options in groups, examples. Nothing here imports torch."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, NoReturn

from ..errors import InputError
from ..renamed import told_renamed

DESCRIPTION = """Several neural networks, trained independently, become one.

Checkpoints: safetensors (one file, or an index of several), .pt/.pth/.ckpt/.bin, Hugging Face folders, export archives.
"""

EXAMPLES = {
    "": """
  transfuse demo                                          see it work, in about a minute
  transfuse fuse a.safetensors b.safetensors -o ab.safetensors --model mlpnet
  transfuse trace --model nets.py:CNN --input-shape 1,28,28
  transfuse methods
""",
    "fuse": """
  transfuse fuse a.pt b.pt -o ab.pt --model mypackage.nets:CNN --model-args width=64 --input-shape 1,28,28
  transfuse fuse a.safetensors b.safetensors c.safetensors -o abc.safetensors --model vgg11 --weights 2 1 1
  transfuse fuse a.pt b.pt -o ab.pt --layout layout.yaml                  state dicts alone, no code of the network
  transfuse fuse bert-a/ bert-b/ -o bert-ab/ --model bert-a/              Hugging Face folders
  transfuse fuse a.pt b.pt -o ab.pt --model mlpnet --method wb --option epsilon=0.02 --dry-run
""",
    "align": """
  transfuse align b.pt --to a.pt -o b-aligned.pt --model nets.py:CNN --input-shape 1,28,28
""",
    "trace": """
  transfuse trace --model resnet18 > layout.yaml
  transfuse trace --model nets.py:CNN --input-shape 1,28,28 --checkpoint a.pt
  transfuse trace --model nets.py:CNN --input-shape 1,28,28 --layout layout.yaml     prove one written by hand
""",
    "barrier": """
  transfuse barrier a.pt b.pt --model mlpnet --data test.safetensors -o barrier.json --plot barrier.svg
  transfuse barrier a.pt b.pt --model mlpnet --evaluate checks.py:accuracy --align
""",
    "plane": """
  transfuse plane a.pt b.pt b-aligned.pt --model mlpnet --data test.safetensors --plot plane.svg
""",
    "report": """
  transfuse report a.pt b.pt -o report.html --model mlpnet --data test.safetensors
""",
    "inspect": """
  transfuse inspect fused.safetensors
  transfuse inspect bert-a/ --json
""",
    "run": """
  transfuse run merge.yml --dry-run

  merge_method: auto
  model: mlpnet
  models:
    - model: a.safetensors
      parameters: {weight: 0.6}
    - model: b.safetensors
      parameters: {weight: 0.4}
  out_path: ab.safetensors
""",
}


class _Parser(argparse.ArgumentParser):
    """Errors are raised, so that they look like all others."""

    def error(self, message: str) -> NoReturn:
        message = "; ".join([message, *filter(None, map(told_renamed, message.split()))])
        raise InputError(f"{message}; see `{self.prog} --help`")


def build() -> argparse.ArgumentParser:
    """The parser of the whole command."""
    parser = _Parser(
        prog="transfuse", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="examples:" + EXAMPLES[""] + "\n`transfuse VERB --help` has the options and examples of a verb.",
        allow_abbrev=False,
    )  # fmt: skip
    parser.add_argument("--version", action="store_true", help="print the version and stop")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", parser_class=_Parser)
    _fuse(_verb(verbs, "fuse", "fuse checkpoints into one"))
    _align(_verb(verbs, "align", "bring the units of a checkpoint to the order of another"))
    _trace(_verb(verbs, "trace", "find which axes of which tensors move together, and prove it"))
    _barrier(_verb(verbs, "barrier", "measure the loss on the way from one checkpoint to another"))
    _plane(_verb(verbs, "plane", "measure the loss on the plane through three checkpoints"))
    _report(_verb(verbs, "report", "fuse, measure, and write one page about it"))
    _run(_verb(verbs, "run", "fuse as a YAML file says"))
    _methods(_verb(verbs, "methods", "list the methods with their options and citations"))
    _inspect(_verb(verbs, "inspect", "show what is in a checkpoint, and where it comes from"))
    _demo(_verb(verbs, "demo", "train, fuse and compare small networks on handwritten digits"))
    _completion(_verb(verbs, "completion", "print a script for the completion of a shell"))
    return parser


def _verb(verbs: Any, name: str, summary: str) -> argparse.ArgumentParser:
    examples = EXAMPLES.get(name)
    parser: argparse.ArgumentParser = verbs.add_parser(
        name, help=summary, description=summary[0].upper() + summary[1:] + ".", allow_abbrev=False,
        epilog=f"examples:{examples}" if examples else None, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    group = parser.add_argument_group("messages")
    group.add_argument("--json", action="store_true", help="print the result as JSON")
    group.add_argument("-q", "--quiet", action="store_true", help="print nothing but errors and what was asked for")
    group.add_argument("-v", "--verbose", action="store_true", help="say more: reasons, history, every tensor")
    group.add_argument("--debug", action="store_true", help="show the traceback of an error")
    return parser


def _architecture(parser: argparse.ArgumentParser, *, layout: bool = True) -> None:
    """How to learn which units there are."""
    group = parser.add_argument_group("architecture")
    group.add_argument(
        "--model", metavar="SPEC",
        help="package.module:factory, file.py:factory, a built-in name (mlpnet, mlpsmall, mlplarge, vgg11, resnet18, "
        "resnet18_plain, resnet20, rnn, lstm), a Hugging Face folder, or an export archive. Its code is run",
    )  # fmt: skip
    _pairs(group, "--model-args", "arguments of the factory")
    if layout:
        group.add_argument("--layout", metavar="FILE", help="a layout, as `transfuse trace` prints it; nothing is run")
    group.add_argument("--input-shape", metavar="N,N,...", type=shape, help="shape of one input, without the batch")
    group.add_argument("--example-inputs", metavar="FILE", help="inputs by name, or one tensor called `inputs`")
    group.add_argument("--no-proof", action="store_true", help="do not check the traced layout by moving units")


def _matching(parser: argparse.ArgumentParser) -> None:
    """How units are matched."""
    group = parser.add_argument_group("method")
    group.add_argument("--method", default="auto", metavar="NAME", help="see `transfuse methods` (default: auto)")
    _pairs(group, "--option", "options of the method")
    group.add_argument("--seed", type=int, default=0, metavar="N", help="of everything random (default: 0)")


def _data(parser: argparse.ArgumentParser, *, needed: str) -> None:
    group = parser.add_argument_group("data")
    group.add_argument(
        "--data", metavar="FILE",
        help=f"{needed}: .safetensors, .npz or .pt with `inputs` and `labels`, or `digits` (shipped with transfuse)",
    )  # fmt: skip
    group.add_argument("--batch-size", type=count, default=500, metavar="N", help="inputs at a time (default: 500)")
    if needed != "unlabeled inputs":
        group.add_argument(
            "--evaluate", metavar="SPEC", help="instead: module:function or file.py:function, model -> number or dict"
        )
        group.add_argument(
            "--reset-batchnorm", action="store_true",
            help="compute statistics of batch norm anew, from the inputs of --data, wherever networks are averaged",
        )  # fmt: skip


def _output(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    group = parser.add_argument_group("result")
    group.add_argument("-o", "--out", metavar="PATH", required=required, help="where to; the ending says the format")
    group.add_argument("--dtype", choices=("float16", "bfloat16", "float32", "float64"), help="default: as the first")
    group.add_argument("--shard-size", metavar="SIZE", type=size, help="most of one file, such as 2GB (default: 5GB)")
    group.add_argument("--force", action="store_true", help="replace what is there")
    group.add_argument("--dry-run", action="store_true", help="show the plan, with sizes, time and memory; do nothing")
    group.add_argument("--low-memory", action="store_true", help="read tensors again and again instead of keeping them")


def _fuse(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("models", nargs="+", metavar="CHECKPOINT", help="two or more; one alone with --target")
    _output(parser)
    _architecture(parser)
    _matching(parser)
    group = parser.add_argument_group("target")
    group.add_argument("--weights", nargs="+", type=float, metavar="W", help="shares of the inputs (default: equal)")
    group.add_argument("--target", nargs="+", metavar="SPEC", help="a model of other widths, or SPACE=WIDTH ...")
    _pairs(group, "--target-args", "arguments of the target's factory")
    _data(parser, needed="unlabeled inputs")
    group = parser.add_argument_group("corrections")
    group.add_argument("--terms", choices=("weights", "activations", "both"), help="what is matched (needs --data)")
    group.add_argument(
        "--correct", metavar="NAME",
        help="correction at the end: batchnorm, repair, rescale, closed_form, refit, auto or none "
        "(default: what the method does; by --data, or by noise)",
    )  # fmt: skip
    group.add_argument("--no-synthetic", action="store_true", help="without --data, no correction by inputs of noise")
    group.add_argument("--report", metavar="FILE", help="also write a page about it (labels in --data are used)")


def _align(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model_file", metavar="CHECKPOINT", help="what to bring to another order")
    parser.add_argument("--to", required=True, metavar="CHECKPOINT", help="the reference")
    _output(parser)
    _architecture(parser)
    _matching(parser)


def _trace(parser: argparse.ArgumentParser) -> None:
    _architecture(parser)
    group = parser.add_argument_group("trace")
    group.add_argument("--checkpoint", metavar="FILE", help="weights for the proof (default: those of the factory)")
    group.add_argument("--unknown", choices=("fix", "raise"), default="fix", help="operations without a rule")
    group.add_argument("-o", "--out", metavar="FILE", help="write the layout there instead of printing it")
    group.add_argument("--force", action="store_true", help="replace what is there")


def _picture(parser: argparse.ArgumentParser, what: str) -> None:
    group = parser.add_argument_group("result")
    group.add_argument("-o", "--out", metavar="FILE", help=f"write the {what} there (.json or .npz)")
    group.add_argument("--plot", metavar="FILE", help="draw it (.svg, .pdf or .png; needs matplotlib)")
    group.add_argument("--force", action="store_true", help="replace what is there")
    group.add_argument("--cache", metavar="FILE", help="remember evaluations there: a stopped run goes on")


def _barrier(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("models", nargs=2, metavar="CHECKPOINT")
    _picture(parser, "numbers")
    _architecture(parser, layout=False)
    _matching(parser)
    _data(parser, needed="labeled inputs")
    group = parser.add_argument_group("barrier")
    group.add_argument("--points", type=count, default=25, metavar="N", help="points on the way (default: 25)")
    group.add_argument("--align", action="store_true", help="bring the second one to the order of the first before")
    group.add_argument("--at-most", type=float, metavar="X", help="exit with 1 if the first barrier is higher")


def _plane(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("models", nargs=3, metavar="CHECKPOINT", help="three of one architecture and width")
    _picture(parser, "numbers")
    _architecture(parser, layout=False)
    _data(parser, needed="labeled inputs")
    group = parser.add_argument_group("plane")
    group.add_argument("--grid", type=count, default=21, metavar="N", help="points along each side (default: 21)")
    group.add_argument("--margin", type=float, default=0.2, metavar="X", help="around the three (default: 0.2)")
    group.add_argument("--workers", type=int, default=0, metavar="N", help="further processes (default: 0)")


def _report(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("models", nargs="+", metavar="CHECKPOINT", help="two or more")
    group = parser.add_argument_group("result")
    group.add_argument("-o", "--out", metavar="FILE", required=True, help="the page (.html)")
    group.add_argument("--force", action="store_true", help="replace what is there")
    _architecture(parser, layout=False)
    _matching(parser)
    parser.add_argument("--weights", nargs="+", type=float, metavar="W", help="shares of the inputs (default: equal)")
    _data(parser, needed="labeled inputs")


def _run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("config", metavar="FILE", help="YAML; a key for every option of `transfuse fuse`")
    parser.add_argument("--dry-run", action="store_true", help="show the plan; do nothing")
    parser.add_argument("--force", action="store_true", help="replace what is there")


def _methods(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="only this one")


def _inspect(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="CHECKPOINT")
    parser.add_argument("--hash", action="store_true", help="also the SHA-256 of its files")


def _demo(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--folder", default="demo", metavar="PATH", help="where to (default: demo)")
    parser.add_argument("--fresh", action="store_true", help="train again instead of using the networks kept there")


def _completion(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "tcsh"))


def _pairs(group: Any, flag: str, summary: str) -> None:
    group.add_argument(flag, nargs="+", action="extend", default=[], metavar="KEY=VALUE", help=summary)


def shape(text: str) -> tuple[int, ...]:
    """`1,28,28` or `1x28x28`."""
    try:
        lengths = tuple(int(part) for part in text.replace("x", ",").split(","))
    except ValueError:
        lengths = ()
    if not lengths or min(lengths) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no shape; expected numbers from 1, such as 1,28,28")
    return lengths


def count(text: str) -> int:
    """A whole number from 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}; expected a whole number from 1")
    return int(text)


def size(text: str) -> int:
    """`5GB`, `300MB`, or bytes."""
    units = {"GB": 10**9, "MB": 10**6, "KB": 10**3, "B": 1, "": 1}
    number = text.rstrip("GMKBgmkb")
    try:
        bytes_ = int(float(number) * units[text[len(number) :].upper()])
    except (ValueError, KeyError):
        bytes_ = 0
    if bytes_ < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no size; expected one such as 5GB or 300MB")
    return bytes_


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Arguments as options.

    Raises:
        InputError: they make no sense.
    """
    parser = build()
    options = parser.parse_args(arguments)
    if options.verb is None and not options.version:
        raise InputError("name a verb: fuse, align, trace, barrier, plane, report, run, methods, inspect or demo; "
                         "see `transfuse --help`")  # fmt: skip
    return options
