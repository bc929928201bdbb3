"""The verbs that show something: `trace`, `methods`, `inspect`, `completion`, `demo`."""

from __future__ import annotations

import json
import warnings
from argparse import Namespace
from pathlib import Path
from typing import Any

from ..errors import InputError
from .parser import build
from .running import Outcome


def trace(options: Namespace) -> Outcome:
    """The layout of a model, or the proof of a layout that is given."""
    from ..checkpoints import fitted, open_checkpoint
    from ..files import write_whole
    from ..modules import ties_of
    from ..tracing import prove
    from ..tracing import trace as traced
    from .jobs import check_new, loaded, read_layout
    from .specs import blueprint, example_inputs, pairs

    if not options.verbose:
        warnings.simplefilter("ignore")
    if options.model is None:
        raise InputError("name the network: pass --model SPEC")
    check_new(options.out, force=options.force)
    plan = blueprint(options.model, pairs(options.model_args, "--model-args"))
    model = plan.build().eval()
    if options.checkpoint:
        own = model.state_dict()
        model = loaded(model, fitted(open_checkpoint(options.checkpoint), list(own), ties_of(own)))
    inputs = example_inputs(options, plan)
    if options.layout:
        layout = read_layout(options.layout)
        prove(model, inputs, layout)
    else:
        layout = traced(model, inputs, unknown=options.unknown, proof=not options.no_proof)
    if options.out:
        write_whole(options.out, f"{layout}\n".encode())
    state = model.state_dict()
    spaces = {each.name: {"units": each.units, "signs": each.signs, "scales": each.scales} for each in layout.spaces}
    data = {
        "spaces": spaces, "movable": layout.movable(state), "proved": bool(options.layout or not options.no_proof),
        "layout": str(layout), "fixed": {name: dict(axes) for name, axes in layout.fixed.items()},
    }  # fmt: skip
    told = f"proved: {options.layout}" if options.layout else str(layout)
    return Outcome(data, f"wrote {options.out}" if options.out else told, asked=not options.out)


def methods(options: Namespace) -> Outcome:
    """The methods table."""
    from ..methods import METHODS

    if options.name is not None and options.name not in METHODS:
        raise InputError(f"no method is called {options.name!r}; the methods: {', '.join(METHODS)}")
    rows = {name: row for name, row in METHODS.items() if options.name in (None, name)}
    data = {
        name: {"summary": row.summary, "citation": row.citation, "options": row.options} for name, row in rows.items()
    }
    blocks = []
    for name, row in rows.items():
        chosen = ", ".join(f"{key}={value}" for key, value in row.options.items()) or "none"
        blocks.append(f"{name}\n  {row.summary}\n  options: {chosen}\n  {row.citation}")
    return Outcome(data, "\n\n".join(blocks), asked=True)


def inspect(options: Namespace) -> Outcome:
    """What is in a checkpoint."""
    from ..checkpoints import KEY, entries_of, open_checkpoint, size_told
    from ..checkpoints.provenance import sha256

    checkpoint = open_checkpoint(options.path)
    entries = entries_of(checkpoint.tensors)
    made = checkpoint.metadata.get(KEY) or checkpoint.metadata.get(f"{KEY}.json")
    provenance = (
        json.loads(made) if made else checkpoint.wrapping.rest.get(KEY) or checkpoint.wrapping.versions.get(KEY)
    )
    kinds = sorted({str(entry.dtype).removeprefix("torch.") for entry in entries.values()})
    data: dict[str, Any] = {
        "path": str(checkpoint.path), "format": checkpoint.kind, "files": [str(file) for file in checkpoint.files],
        "bytes": checkpoint.bytes, "dtypes": kinds, "ties": dict(checkpoint.ties),
        "metadata": {key: text for key, text in checkpoint.metadata.items() if not key.startswith(KEY)},
        "provenance": provenance,
        "tensors": {name: {"dtype": str(entry.dtype).removeprefix("torch."), "shape": list(entry.shape)}
                    for name, entry in entries.items()},
    }  # fmt: skip
    if options.hash:
        data["sha256"] = {file.name: sha256(file) for file in checkpoint.files}
    wide = max(map(len, entries), default=0)
    lines = [
        f"{checkpoint.path}: {checkpoint.kind}, {len(entries)} tensors of {', '.join(kinds)}, "
        f"{size_told(checkpoint.bytes)}",
        *(f"  {name:<{wide}}  {list(entry.shape)}" + (f" = {checkpoint.ties[name]}" if name in checkpoint.ties else "")
          for name, entry in entries.items()),
        *(f"sha256 {name}: {digest}" for name, digest in data.get("sha256", {}).items()),
    ]  # fmt: skip
    if provenance:
        names = ", ".join(f"{each['name']} ({each['weight']:.3g})" for each in provenance["sources"])
        lines.append(f"made by transfuse: {provenance['method']} of {names}; {provenance['command']}")
    return Outcome(data, "\n".join(lines), asked=True)


def completion(options: Namespace) -> Outcome:
    """A script that completes verbs, options and methods in a shell."""
    try:
        import shtab
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(str(error), name="shtab") from error
    from ..methods import METHODS

    whole = build()
    for verb in whole._subparsers._group_actions[0].choices.values():  # type: ignore[union-attr]
        for action in verb._actions:
            if action.dest == "method":
                action.choices = list(METHODS)
            if action.metavar in ("CHECKPOINT", "FILE", "PATH"):
                action.complete = shtab.FILE
    return Outcome({"shell": options.shell}, shtab.complete(whole, options.shell), asked=True)


def demo(options: Namespace) -> Outcome:
    """Train, fuse and compare small networks."""
    from ..demo import run

    data, text = run(Path(options.folder), fresh=options.fresh, quiet=options.quiet or options.json)
    return Outcome(data, text, asked=True)
