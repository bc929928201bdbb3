"""All options of all verbs, each said once, in the groups in which help texts list them."""

from __future__ import annotations

from ..names import CORRECTION_NAMES, NETWORK_NAMES
from .records import Option
from .values import count, factor, seed, shape, size

MESSAGES = (
    Option(("--json",), "print the result as JSON", "messages", switch=True),
    Option(("-q", "--quiet"), "print nothing but errors and what was asked for", "messages", switch=True),
    Option(("-v", "--verbose"), "say more: reasons, history, every tensor", "messages", switch=True),
    Option(("--debug",), "show the traceback of an error", "messages", switch=True),
)

FORCE = Option(("--force",), "replace what is there", "result", switch=True)
DRY_RUN = Option(
    ("--dry-run",), "show the plan, with sizes, time and memory; write nothing", "result", switch=True
)  # fmt: skip
RESULT = (
    Option(
        ("-o", "--out"), "where to write the result; the ending says the format", "result", "PATH",
        required=True, is_path=True, writes=True, again=True,
    ),
    Option(
        ("--dtype",), "type of the numbers (default: that of the first input)", "result",
        choices=("float16", "bfloat16", "float32", "float64"), told=True, again=True,
    ),
    Option(("--shard-size",), "most of one file, such as 2GB (default: 5GB)", "result", "SIZE", size),
    FORCE,
    DRY_RUN,
    Option(
        ("--low-memory",), "read tensors again whenever they are needed instead of keeping them", "result",
        switch=True, told=True, again=True,
    ),
)  # fmt: skip

LAYOUT = Option(
    ("--layout",), "a layout, as `transfuse trace` prints it; no code of the network is run", "architecture", "FILE",
    is_path=True, again=True,
)  # fmt: skip
ARCHITECTURE = (
    Option(
        ("--model",),
        f"package.module:factory, file.py:factory, a built-in name ({', '.join(NETWORK_NAMES)}), a Hugging Face "
        "folder, or an export archive. Its code is run",
        "architecture", "SPEC", is_path=True, again=True,
    ),
    Option(("--model-args",), "arguments of the factory", "architecture", pairs=True, again=True),
    Option(("--input-shape",), "shape of one input, without the batch", "architecture", "N,N,...", shape, again=True),
    Option(
        ("--example-inputs",), "a file with inputs by name, or with one tensor called `inputs`", "architecture", "FILE",
        is_path=True, again=True,
    ),
    Option(("--no-proof",), "do not check the traced layout by moving units", "architecture", switch=True),
)  # fmt: skip

METHOD = (
    Option(("--method",), "see `transfuse methods` (default: auto)", "method", "NAME", default="auto", again=True),
    Option(("--option",), "options of the method", "method", pairs=True, again=True),
    Option(("--seed",), "seed of everything random (default: 0)", "method", "N", seed, default=0, again=True),
)

WEIGHTS = Option(
    ("--weights",), "shares of the inputs in the result (default: equal ones)", "target", "W", float, number="+",
    again=True,
)  # fmt: skip
TARGET = (
    WEIGHTS,
    Option(
        ("--target",), "a model of other widths, or SPACE=WIDTH ..., in units or as a factor: 'conv*=1.5'", "target",
        "SPEC", number="+", is_path=True, told=True, again=True,
    ),
    Option(
        ("--width",), "how many times as wide as the first model the result is, such as 1.25", "target", "FACTOR",
        factor, told=True, again=True,
    ),
    Option(
        ("--budget",), "parameters that the result may have, or operations: 1.5M, 1.3x, '1.3x operations'", "target",
        "AMOUNT", told=True, again=True,
    ),
    Option(("--target-args",), "arguments of the target's factory", "target", pairs=True, again=True),
    Option(
        ("--heads",), "join: the result has the outputs of all inputs, which have other classes", "target",
        choices=("join",), told=True, again=True,
    ),
    Option(
        ("--classes",),
        "with --heads, for each input the classes of its outputs: names or numbers with commas between them, or a file "
        "with one on each line", "target", "CLASSES", number="+", is_path=True, told=True, again=True,
    ),
)  # fmt: skip

BATCH_SIZE = Option(("--batch-size",), "inputs at a time (default: 500)", "data", "N", count, default=500)
_DATA = ".safetensors, .npz or .pt with `inputs` and `labels`, or `digits` (shipped with transfuse)"
UNLABELED = (
    Option(("--data",), f"unlabeled inputs: {_DATA}", "data", "FILE", is_path=True, again=True),
    BATCH_SIZE,
)
LABELED = (
    Option(("--data",), f"labeled inputs: {_DATA}", "data", "FILE", is_path=True, again=True),
    BATCH_SIZE,
    Option(
        ("--evaluate",), "instead of --data: module:function or file.py:function, from a model to a number or a dict",
        "data", "SPEC", is_path=True, again=True,
    ),
    Option(
        ("--reset-batchnorm",),
        "compute statistics of batch norm anew, from the inputs of --data, wherever networks are averaged", "data",
        switch=True,
    ),
)  # fmt: skip

METRIC = Option(
    ("--metric",),
    "what counts: loss, error or accuracy, in percent (default: loss); of --evaluate, one of its names", "data", "NAME",
    again=True,
)  # fmt: skip
MATCHING = Option(
    ("--unlabeled",), f"inputs for matching and corrections, of which no labels are read: {_DATA}", "data", "FILE",
    is_path=True, again=True,
)  # fmt: skip

TERMS = Option(
    ("--terms",), "what units, and layers of other depths, are matched by; activations and both need --data",
    "corrections", choices=("weights", "activations", "both"), told=True, again=True,
)  # fmt: skip
CORRECTIONS = (
    TERMS,
    Option(
        ("--correct",),
        f"the correction at the end: {', '.join(CORRECTION_NAMES)}, auto or none (default: that of the method; it sees "
        "--data, or synthetic inputs if there are none)",
        "corrections", "NAME", told=True, again=True,
    ),
    Option(
        ("--aim",),
        "what a correction aims at: the mean of the models' outputs; evidence, the mean of what they hold for each "
        "class; or auto: evidence where some classes are named by some models only (default: auto)",
        "corrections", choices=("auto", "mean", "evidence"), told=True, again=True,
    ),
    Option(
        ("--no-synthetic",), "without --data, make no correction by synthetic inputs", "corrections", switch=True,
        told=True, again=True,
    ),
    Option(
        ("--report",), "also write a page about the fusion (labels in --data are used)", "corrections", "FILE",
        is_path=True, writes=True,
    ),
)  # fmt: skip

TRACE = (
    Option(
        ("--checkpoint",), "weights for the proof (default: those that the factory gives)", "trace", "FILE",
        is_path=True,
    ),
    Option(
        ("--unknown",), "operations without a rule: fix the axes they touch, or stop (default: fix)", "trace",
        choices=("fix", "raise"), default="fix",
    ),
    Option(
        ("-o", "--out"), "write the layout there instead of printing it", "trace", "FILE", is_path=True, writes=True
    ),
    FORCE,
)  # fmt: skip

FIGURES = (
    Option(
        ("-o", "--out"), "write the numbers there (.json or .npz)", "result", "FILE", is_path=True, writes=True
    ),
    Option(
        ("--plot",), "draw them (.svg, .pdf or .png; needs matplotlib)", "result", "FILE", is_path=True, writes=True
    ),
    FORCE,
    Option(
        ("--cache",), "remember evaluations there, so that a stopped run goes on", "result", "FILE", is_path=True,
        writes=True,
    ),
)  # fmt: skip

WORK = (
    Option(("--workers",), "further processes that couple or measure (default: 0)", "work", "N", int, default=0),
    Option(
        ("--scheduler",), "use the workers of a Dask cluster: the address of its scheduler, tcp://HOST:PORT "
        "(they have transfuse and the code of the network installed)", "work", "ADDRESS",
    ),
)  # fmt: skip

BARRIER = (
    Option(("--points",), "points on the way (default: 25)", "barrier", "N", count, default=25),
    Option(
        ("--align",),
        "also bring both networks to a common order and scale, and measure the way between them then",
        "barrier",
        switch=True,
    ),
    Option(("--at-most",), "exit with 1 if the barrier of the first metric is higher", "barrier", "X", float),
)
PLANE = (
    Option(("--grid",), "points along each side (default: 21)", "plane", "N", count, default=21),
    Option(
        ("--margin",), "space around the three, in parts of their extent (default: 0.2)", "plane", "X", float,
        default=0.2,
    ),
)  # fmt: skip
COMPARISON = (
    Option(
        ("-o", "--out"), "the folder for tables, figures and numbers; a second run goes on there", "result", "FOLDER",
        required=True, is_path=True, writes=True, again=True,
    ),
    Option(("--group-size",), "checkpoints in a group (default: 2)", "comparison", "N", count, default=2, again=True),
    Option(
        ("--methods",), "what is compared, with arguments if wanted: ot wb:epsilon=0.02 auto auto:target=1.5 "
        "auto:data=null (default: vanilla ot wb auto)", "comparison", "NAME", number="+", again=True,
    ),
    Option(("--points",), "points on each barrier (default: 11)", "comparison", "N", count, default=11, again=True),
    Option(
        ("--planes",), "measure a plane for each method, on the first group, with so many points along each side",
        "comparison", "N", count, again=True,
    ),
    Option(("--seed",), "seed of everything random (default: 0)", "comparison", "N", seed, default=0, again=True),
)  # fmt: skip


def checkpoints(number: int | None, help_text: str) -> Option:
    """The checkpoints that a verb works on: a fixed number of them, or one or more."""
    return Option(("models",), help_text, metavar="CHECKPOINT", number=number or "+", is_path=True, again=True)
