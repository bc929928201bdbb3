"""The table of verbs: what can be typed. What each does is in `handlers`."""

from __future__ import annotations

from .options import (
    ARCHITECTURE,
    BARRIER,
    COMPARISON,
    CORRECTIONS,
    DRY_RUN,
    FIGURES,
    FORCE,
    LABELED,
    LAYOUT,
    MATCHING,
    MESSAGES,
    METHOD,
    METRIC,
    PLANE,
    RESULT,
    TARGET,
    TERMS,
    TRACE,
    UNLABELED,
    WEIGHTS,
    WORK,
    checkpoints,
)
from .records import Option, Verb

VERBS: dict[str, Verb] = {
    "fuse": Verb(
        "fuse checkpoints into one",
        (checkpoints(None, "two or more; one alone with --target"), *RESULT, *ARCHITECTURE, LAYOUT, *METHOD, *TARGET,
         *UNLABELED, *CORRECTIONS, *WORK, *MESSAGES),
        """
  transfuse fuse a.pt b.pt -o ab.pt --model mypackage.nets:CNN --model-args width=64 --input-shape 1,28,28
  transfuse fuse a.safetensors b.safetensors c.safetensors -o abc.safetensors --model vgg11 --weights 2 1 1
  transfuse fuse a.pt b.pt -o ab.pt --layout layout.yaml                  state dicts alone, no code of the network
  transfuse fuse bert-a/ bert-b/ -o bert-ab/                              Hugging Face folders
  transfuse fuse a.pt b.pt -o ab.pt --model mlpnet --method wb --option epsilon=0.02 --dry-run
""",
    ),
    "align": Verb(
        "bring the units of a checkpoint to the order of another",
        (Option(("model_file",), "what to bring to another order", metavar="CHECKPOINT", is_path=True, again=True),
         Option(("--to",), "the reference", "result", "CHECKPOINT", required=True, is_path=True, again=True),
         *RESULT, *ARCHITECTURE, LAYOUT, *METHOD, *WORK, *MESSAGES),
        """
  transfuse align b.pt --to a.pt -o b-aligned.pt --model nets.py:CNN --input-shape 1,28,28
""",
    ),
    "trace": Verb(
        "find which axes of which tensors move together, and prove it",
        (*ARCHITECTURE, LAYOUT, *TRACE, *MESSAGES),
        """
  transfuse trace --model resnet18 > layout.yaml
  transfuse trace --model nets.py:CNN --input-shape 1,28,28 --checkpoint a.pt
  transfuse trace --model nets.py:CNN --input-shape 1,28,28 --layout layout.yaml     prove one written by hand
""",
    ),
    "barrier": Verb(
        "measure the loss on the way from one checkpoint to another",
        (checkpoints(2, "two of one architecture and width"), *FIGURES, *ARCHITECTURE, *METHOD, TERMS, *LABELED,
         MATCHING, METRIC, *BARRIER, *WORK, *MESSAGES),
        """
  transfuse barrier a.pt b.pt --model mlpnet --data test.safetensors -o barrier.json --plot barrier.svg
  transfuse barrier a.pt b.pt --model mlpnet --data test.safetensors --metric accuracy --align --plot both.svg
  transfuse barrier a.pt b.pt --model mlpnet --data test.safetensors --align --method activation --unlabeled train.npz
  transfuse barrier a.pt b.pt --model mlpnet --evaluate checks.py:accuracy --align
""",
    ),
    "plane": Verb(
        "measure the loss on the plane through three checkpoints",
        (checkpoints(3, "three of one architecture and width"), *FIGURES, *ARCHITECTURE, *LABELED, METRIC, *PLANE,
         *WORK, *MESSAGES),
        """
  transfuse plane a.pt b.pt b-aligned.pt --model mlpnet --data test.safetensors --plot plane.svg
""",
    ),
    "compare": Verb(
        "compare methods on groups of checkpoints, beside their controls",
        (checkpoints(None, "the networks, group after group"), *COMPARISON, FORCE, *ARCHITECTURE, *LABELED[:-1],
         MATCHING, METRIC, *WORK, *MESSAGES),
        """
  transfuse compare a0.pt b0.pt a1.pt b1.pt -o out --model mlpnet --data test.safetensors --unlabeled train.npz
  transfuse compare a.pt b.pt c.pt -o out --group-size 3 --model mlpnet --data test.npz --methods vanilla wb auto
""",
    ),
    "report": Verb(
        "fuse, measure, and write one page about it",
        (checkpoints(None, "two or more"),
         Option(("-o", "--out"), "the page (.html)", "result", "FILE", required=True, is_path=True, writes=True),
         Option(("--url",), "where the page will be: previews of links ask for whole addresses", "result", "URL"),
         FORCE,
         *ARCHITECTURE, *METHOD, WEIGHTS, *LABELED, *WORK, *MESSAGES),
        """
  transfuse report a.pt b.pt -o report.html --model mlpnet --data test.safetensors
""",
    ),
    "run": Verb(
        "fuse as a YAML file says",
        (Option(("config",), "YAML; a key for every option of `transfuse fuse`", metavar="FILE", is_path=True),
         Option(("out",), "where to write the result (default: out_path in the file)", metavar="OUT", number="?",
                is_path=True, writes=True),
         DRY_RUN, FORCE, *MESSAGES),
        """
  transfuse run merge.yml --dry-run
  transfuse run linear.yml merged/            a file of mergekit, and its output folder

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
    ),
    "inspect": Verb(
        "show what is in a checkpoint, and where it comes from",
        (Option(("path",), "a file or folder", metavar="CHECKPOINT", is_path=True),
         Option(("--hash",), "also the SHA-256 of its files", switch=True), *MESSAGES),
        """
  transfuse inspect fused.safetensors
  transfuse inspect bert-a/ --json
""",
    ),
    "demo": Verb(
        "train, fuse and compare small networks on handwritten digits",
        (Option(("--folder",), "where to (default: demo)", metavar="PATH", default="demo", is_path=True),
         Option(("--fresh",), "train again instead of using the networks kept there", switch=True), *MESSAGES),
    ),
    "completion": Verb(
        "print a script for the completion of a shell",
        (Option(("shell",), "the shell", choices=("bash", "zsh", "tcsh")), *MESSAGES),
    ),
}  # fmt: skip
