"""What a budget allows: units are matched at the widths of the models, to see which of them match badly.

In: models that were checked, what they cost. Out: widths, and what they cost. Not here: how widths follow from how
badly units match (`budgets`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor

from ..activations import Terms
from ..barycenter import Couplings, Problem, mismatches
from ..errors import InputError
from ..methods import Chosen
from ..progress import Progress
from .budgets import Cost, Spent, within
from .checking import Ready
from .pipeline import fused_states


def unmixed(ready: Ready, cost: Cost) -> Ready:
    """Models as they are matched to see which units match badly: none is rotated, for units that are mixed do not.

    Raises:
        InputError: the models have different widths, or cost more than they may.
    """
    own = [ready.layout.widths(state) for state in ready.states]
    if any(each != own[0] for each in own):
        raise InputError(
            f"a budget is for models of the same widths, of which some units stay apart; got {own}; pass target"
        )
    cost.limit.of_cost(cost.at(own[0]))
    return replace(ready, layout=ready.layout.without_rotations())


def allowed_widths(
    cost: Cost, chosen: Chosen, ready: Ready, activations: Terms | None, *, seed: int, progress: Progress
) -> Spent:
    """The widths that a limit allows, given how units match by a method at the widths of the models.

    Args:
        cost: What the result costs at any widths, and may cost.
        chosen: The method and its options.
        ready: The models, of equal widths.
        activations: What units are matched by, beside weights or instead.
        seed: Seed of the order of sweeps and of restarts.
        progress: Show how far it is; see `fuse`.
    """
    apart: dict[str, Tensor] = {}

    def see(problem: Problem, couplings: Sequence[Couplings]) -> None:
        """Note how badly units match."""
        apart.update(mismatches(problem, couplings))

    fused_states(chosen, ready, activations, aligned=False, seed=seed, progress=progress, see=see)
    return within(cost, ready.widths, apart)
