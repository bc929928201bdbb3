"""The table of verbs. A new one is a function in a file beside this, and a row here."""

from __future__ import annotations

from argparse import Namespace

from .options import (
    ARCHITECTURE,
    BARRIER,
    CORRECTIONS,
    DRY_RUN,
    FIGURES,
    FORCE,
    LABELED,
    LAYOUT,
    MESSAGES,
    METHOD,
    PLANE,
    RESULT,
    TARGET,
    TRACE,
    UNLABELED,
    WEIGHTS,
    checkpoints,
)
from .records import Option, Outcome, Verb

# Handlers import what they need when they are called: help and completion do without torch.


def _fuse(options: Namespace) -> Outcome:
    from .fusing import fuse

    return fuse(options)


def _align(options: Namespace) -> Outcome:
    from .fusing import align

    return align(options)


def _run(options: Namespace) -> Outcome:
    from .fusing import fuse_as_file_says

    return fuse_as_file_says(options)


def _trace(options: Namespace) -> Outcome:
    from .tracing import trace

    return trace(options)


def _barrier(options: Namespace) -> Outcome:
    from .measuring import barrier

    return barrier(options)


def _plane(options: Namespace) -> Outcome:
    from .measuring import plane

    return plane(options)


def _report(options: Namespace) -> Outcome:
    from .measuring import report

    return report(options)


def _methods(options: Namespace) -> Outcome:
    from .showing import methods

    return methods(options)


def _inspect(options: Namespace) -> Outcome:
    from .showing import inspect

    return inspect(options)


def _demo(options: Namespace) -> Outcome:
    from .showing import demo

    return demo(options)


def _completion(options: Namespace) -> Outcome:
    from .completing import completion

    return completion(options)


VERBS: dict[str, Verb] = {
    "fuse": Verb(
        "fuse checkpoints into one",
        (checkpoints(None, "two or more; one alone with --target"), *RESULT, *ARCHITECTURE, LAYOUT, *METHOD, *TARGET,
         *UNLABELED, *CORRECTIONS, *MESSAGES),
        _fuse,
        """
  transfuse fuse a.pt b.pt -o ab.pt --model mypackage.nets:CNN --model-args width=64 --input-shape 1,28,28
  transfuse fuse a.safetensors b.safetensors c.safetensors -o abc.safetensors --model vgg11 --weights 2 1 1
  transfuse fuse a.pt b.pt -o ab.pt --layout layout.yaml                  state dicts alone, no code of the network
  transfuse fuse bert-a/ bert-b/ -o bert-ab/ --model bert-a/              Hugging Face folders
  transfuse fuse a.pt b.pt -o ab.pt --model mlpnet --method wb --option epsilon=0.02 --dry-run
""",
    ),
    "align": Verb(
        "bring the units of a checkpoint to the order of another",
        (Option(("model_file",), "what to bring to another order", metavar="CHECKPOINT", is_path=True, again=True),
         Option(("--to",), "the reference", "result", "CHECKPOINT", required=True, is_path=True, again=True),
         *RESULT, *ARCHITECTURE, LAYOUT, *METHOD, *MESSAGES),
        _align,
        """
  transfuse align b.pt --to a.pt -o b-aligned.pt --model nets.py:CNN --input-shape 1,28,28
""",
    ),
    "trace": Verb(
        "find which axes of which tensors move together, and prove it",
        (*ARCHITECTURE, LAYOUT, *TRACE, *MESSAGES),
        _trace,
        """
  transfuse trace --model resnet18 > layout.yaml
  transfuse trace --model nets.py:CNN --input-shape 1,28,28 --checkpoint a.pt
  transfuse trace --model nets.py:CNN --input-shape 1,28,28 --layout layout.yaml     prove one written by hand
""",
    ),
    "barrier": Verb(
        "measure the loss on the way from one checkpoint to another",
        (checkpoints(2, "two of one architecture and width"), *FIGURES, *ARCHITECTURE, *METHOD, *LABELED, *BARRIER,
         *MESSAGES),
        _barrier,
        """
  transfuse barrier a.pt b.pt --model mlpnet --data test.safetensors -o barrier.json --plot barrier.svg
  transfuse barrier a.pt b.pt --model mlpnet --evaluate checks.py:accuracy --align
""",
    ),
    "plane": Verb(
        "measure the loss on the plane through three checkpoints",
        (checkpoints(3, "three of one architecture and width"), *FIGURES, *ARCHITECTURE, *LABELED, *PLANE, *MESSAGES),
        _plane,
        """
  transfuse plane a.pt b.pt b-aligned.pt --model mlpnet --data test.safetensors --plot plane.svg
""",
    ),
    "report": Verb(
        "fuse, measure, and write one page about it",
        (checkpoints(None, "two or more"),
         Option(("-o", "--out"), "the page (.html)", "result", "FILE", required=True, is_path=True), FORCE,
         *ARCHITECTURE, *METHOD, WEIGHTS, *LABELED, *MESSAGES),
        _report,
        """
  transfuse report a.pt b.pt -o report.html --model mlpnet --data test.safetensors
""",
    ),
    "run": Verb(
        "fuse as a YAML file says",
        (Option(("config",), "YAML; a key for every option of `transfuse fuse`", metavar="FILE", is_path=True),
         DRY_RUN, FORCE, *MESSAGES),
        _run,
        """
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
    ),
    "methods": Verb(
        "list the methods with their options and citations",
        (Option(("name",), "only this one", metavar="NAME", number="?"), *MESSAGES),
        _methods,
    ),
    "inspect": Verb(
        "show what is in a checkpoint, and where it comes from",
        (Option(("path",), "a file or folder", metavar="CHECKPOINT", is_path=True),
         Option(("--hash",), "also the SHA-256 of its files", switch=True), *MESSAGES),
        _inspect,
        """
  transfuse inspect fused.safetensors
  transfuse inspect bert-a/ --json
""",
    ),
    "demo": Verb(
        "train, fuse and compare small networks on handwritten digits",
        (Option(("--folder",), "where to (default: demo)", metavar="PATH", default="demo", is_path=True),
         Option(("--fresh",), "train again instead of using the networks kept there", switch=True), *MESSAGES),
        _demo,
    ),
    "completion": Verb(
        "print a script for the completion of a shell",
        (Option(("shell",), "the shell", choices=("bash", "zsh", "tcsh")), *MESSAGES),
        _completion,
    ),
}  # fmt: skip
