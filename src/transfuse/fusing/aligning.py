"""`align`: a network in the order of another one, which computes what it did before.

In: two modules of the same widths. Out: a copy of one, with its units in the order of the other. The work is done by
`fused_networks`; here the result is held to be a permutation, and brought to the form of the reference.
"""

from __future__ import annotations

from typing import Any, cast

from torch import nn

from ..arguments import NETWORK, SEED, TEXT, check_arguments, optional
from ..barycenter import Plan, in_form_of
from ..corrections import NONE, ChosenCorrection
from ..errors import InputError, listing
from ..layout import LAYOUT, Layout
from ..lazy import in_type, working_state, working_type
from ..methods import Chosen
from ..modules import model_state, unwrapped, with_state
from ..types import State
from .given import Wanted, traced_layout
from .networks import fused_networks
from .results import Network


def align(  # noqa: PLR0913
    model: Network, *, to: nn.Module, example_inputs: Any = None, layout: Layout | None = None,
    method: str = "auto", data: Any = None, seed: int = 0, **options: Any,
) -> Network:  # fmt: skip
    """A copy of a network that computes the same function, with its units in the order of a reference.

    With methods that balance scales, as `auto` does, they get the scale of the reference's units as well. Norms over
    units that were rotated get the gains and biases of the reference.

    Args:
        model: The network; it stays as it is.
        to: The reference.
        example_inputs: For tracing the reference; see `fuse`.
        layout: A layout, instead of tracing.
        method: The row of `transfuse.METHODS` by which units are matched.
        data: Inputs without labels, to match units by their activations as well; see `fuse`.
        seed: For the order of sweeps and for restarts.
        **options: Options of the method.

    Raises:
        InputError: the reference has other widths, in which the network cannot compute the same; or the method mixes
            units instead of matching them one to one.
    """
    check_arguments(
        model=(model, NETWORK), to=(to, NETWORK), layout=(layout, optional(LAYOUT)), method=(method, TEXT),
        seed=(seed, SEED),
    )  # fmt: skip
    chosen = Chosen.of(method, options)  # before the work: wrong ones are refused
    pair = [unwrapped(to), unwrapped(model)]
    layout = layout or traced_layout(pair, example_inputs)
    _check_alignable(layout, *map(model_state, pair))
    wanted = Wanted(example_inputs, ChosenCorrection.of(NONE), layout=layout, weights=[1.0, 1.0], data=data, seed=seed)
    fusion = fused_networks(pair, chosen, wanted)
    if any(isinstance(coupling, Plan) for coupling in fusion.states.couplings[1].couplings.values()):
        raise InputError(
            f"method {method} mixes units here, so the network would compute something else; choose one that matches "
            "them one to one, such as auto, or leave epsilon out"
        )
    to = fusion.parents[0]
    twin = fusion.aligned[1]
    own = model_state(twin)
    kind = working_type([own, model_state(to)])
    reference, turned = working_state(model_state(to), kind), fusion.states.rotated
    moved = in_form_of(reference, working_state(own, kind), fusion.layout, turned, balance=chosen.row.balance)
    done = with_state(twin, {name: in_type(name, tensor, own[name].dtype, own) for name, tensor in moved.items()})
    return cast("Network", done)  # of the model's class, unless it was wrapped


def _check_alignable(layout: Layout, reference: State, state: State) -> None:
    """Refuse to align networks of different widths: units are merged or mixed then, which changes the function."""
    wanted, own = layout.widths(reference), layout.widths(state)
    problems = [
        f"space {name} has {own[name]} units, {width} in the reference"
        for name, width in wanted.items()
        if own[name] != width
    ]
    if problems:
        raise InputError(
            listing("the network cannot be aligned to this reference and compute the same:", problems)
            + "\nAlign to a network of the same widths, or fuse into other widths"
        )
