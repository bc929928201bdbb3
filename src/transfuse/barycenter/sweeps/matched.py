"""One-shot matched averaging (FedMA, Wang et al. 2020, arXiv:2002.06440), with the costs of a Beta-Bernoulli process.

Layer by layer, the units of one model after another are assigned to the units of a global model that has seen the
models before it. Units of a model are draws around units of the global model, those are draws from a prior (PFNM,
Yurochkin et al. 2019, arXiv:1905.12022, Section 3):

    v_l ~ N(theta_i, sigma^2),    theta_i ~ N(0, sigma_0^2),    i chosen in proportion to its popularity

The variant is that of Akash, Li and Garcia Trillos (2022): nothing is trained in between, and the global model does
not outgrow the models. With no new units, the rate gamma of the process, at which units are born, has nothing to act
on. More is true: every global unit then has been chosen equally often, so sigma, sigma_0 and the popularity scale the
cost and add constants to its rows and columns. They change no assignment: each model is matched to the running mean of
those before it, and two models are matched as by OT fusion.

FedMA ignores hidden-to-hidden weights (its Section on LSTMs) and moves them along. The weights of the problem enter
only the average. Not here: growth, training between layers, and signs.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ...layout import Permutation
from ...progress import unwatched
from ...transport import assignment
from ...types import Watch
from ..coupling import Coupling
from ..history import Step
from ..objective import objective_of
from ..problem import Problem
from ..scores import features
from .equal_widths import check_equal_widths
from .layered import next_space


def matched_averaging(
    problem: Problem, *, sigma: float = 1.0, sigma0: float = 1.0, rounds: int = 5, watch: Watch = unwatched
) -> tuple[list[dict[str, Coupling]], list[Step]]:
    """Spaces in the order of the layers, the models assigned to the global model one after another.

    Args:
        problem: Models of equal widths.
        sigma: Standard deviation of the units of a model around the global one.
        sigma0: Standard deviation of the global units around zero.
        rounds: How often every model is taken out of the global model and matched to it again, after the first round.
        watch: Is told of each space.

    Returns:
        The couplings; and for each space the objective after it, and how many models moved in its last round.

    Raises:
        InputError: widths differ.
    """
    check_equal_widths(problem)
    count = len(problem.states)
    couplings = [problem.start(model) for model in range(count)]
    done: set[str] = set()
    history: list[Step] = []
    while len(done) < len(problem.layout.spaces):
        space, pairs = next_space(problem, done)
        moved = 0
        if pairs:
            units = [features(problem, model, pairs, couplings[model]) for model in range(count)]
            orders, moved = match(units, sigma=sigma, sigma0=sigma0, rounds=rounds)
            for own, order, rows in zip(couplings, orders, units, strict=True):
                own[space] = Permutation(order, torch.ones_like(order, dtype=rows.dtype))
        done.add(space)
        note = f"space {space}: {moved} models still moved in the last of {rounds} rounds; allow more rounds"
        history.append(Step(objective_of(problem, couplings), moved, note if moved else ""))
        watch(space, len(done), len(problem.layout.spaces))
    return couplings, history


def match(units: Sequence[Tensor], *, sigma: float, sigma0: float, rounds: int) -> tuple[list[Tensor], int]:
    """Match the units [units, weights] of several models in one layer (PFNM, Algorithm 1, without new units).

    Returns:
        For each model which of its units each global unit is, and how many models moved in the last round.
    """
    orders = [torch.arange(len(rows), device=rows.device) for rows in units]
    moved, whole = (
        0,
        units[0].double(),
    )  # the sum of all that are matched: made anew for each it would cost their square
    for number in range(rounds + 1 if len(units) > 1 else 0):
        moved = 0
        for model in range(1 if number == 0 else 0, len(units)):
            others = model if number == 0 else len(units) - 1
            rest = whole if number == 0 else whole - units[model][orders[model]]
            total = rest.to(units[model])
            popularity = torch.full((len(total),), others, device=total.device)
            scores = assignment_scores(total, units[model], popularity, len(units), sigma=sigma, sigma0=sigma0)
            order = assignment(scores)
            moved += not torch.equal(order, orders[model])
            orders[model] = order
            whole = rest + units[model][order]
        if number > 0 and not moved:
            break
    return orders, moved


def assignment_scores(
    total: Tensor, units: Tensor, popularity: Tensor, models: int, *, sigma: float, sigma0: float
) -> Tensor:
    """How likely global unit i is the source of unit l of a model: twice the log-odds, [global units, units].

    The assignment cost of PFNM, Section 3, with its sign changed, for prior mean 0 and units that exist already:

        |v_l / sigma^2 + s_i / sigma^2|^2     |s_i / sigma^2|^2
        --------------------------------- - --------------------- + 2 log(m_i / (J - m_i))
        1/sigma0^2 + (m_i + 1)/sigma^2      1/sigma0^2 + m_i/sigma^2

    Args:
        total: s, the sum of the units matched so far to each global unit [global units, weights].
        units: v, the units of the model [units, weights].
        popularity: m, how many models have a unit matched to each global unit, the present model not counted; from
            1 to J - 1.
        models: J, how many models there are.
        sigma: Standard deviation of units around their global unit.
        sigma0: Standard deviation of global units.
    """
    seen = popularity[:, None].to(total)
    before = 1 / sigma0**2 + seen / sigma**2
    norms = total.square().sum(1, keepdim=True)
    joined = norms + units.square().sum(1) + 2 * total @ units.T
    odds = 2 * torch.log(seen / (models - seen))
    return (joined / (before + 1 / sigma**2) - norms / before) / sigma**4 + odds
