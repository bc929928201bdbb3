"""The verb `trace`: from a model to its layout, proved."""

from __future__ import annotations

from argparse import Namespace

from ..checkpoints import fitted, open_checkpoint
from ..errors import InputError
from ..files import check_new, write_whole
from ..modules import ties_of
from ..tracing import prove
from ..tracing import trace as traced
from .architectures import architecture_named, blueprint, example_inputs
from .jobs import hush_warnings
from .records import Outcome
from .values import pairs
from .working import loaded, read_layout


def trace(options: Namespace) -> Outcome:
    """The layout of a model, or the proof of a layout that is given."""
    hush_warnings(options)
    named = architecture_named(options, [options.checkpoint] if options.checkpoint else [])
    if named is None:
        raise InputError("name the network: pass --model SPEC")
    if options.out:
        check_new(options.out, force=options.force)
    plan = blueprint(named, pairs(options.model_args, "--model-args"))
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
    spaces = {
        each.name: {"units": each.units, "signs": each.signs, "scales": each.scales, "rotations": each.rotations}
        for each in layout.spaces
    }
    data = {
        "spaces": spaces, "movable": layout.movable(state), "proved": bool(options.layout or not options.no_proof),
        "layout": str(layout), "fixed": {name: dict(axes) for name, axes in layout.fixed.items()},
    }  # fmt: skip
    told = f"proved: {options.layout}" if options.layout else str(layout)
    return Outcome(data, f"wrote {options.out}" if options.out else told, asked=not options.out)
