"""The one objective: how far the models, carried to a common order, are from their barycenter.

    F = sum_i lambda_i sum_t omega_t (|W_t - T_i(W_i,t)|^2 + |W_i,t|^2 - |T_i(W_i,t)|^2)
    W_t = sum_i lambda_i T_i(W_i,t)

T_i carries every tensor t of model i along every axis by the couplings of the spaces there. What a coupling loses by
mixing units, the last two terms, is nothing where it permutes or repeats them (norms of a model are those of the
model with units repeated to the widths of the target). With W eliminated (the paper's update formula), F falls exactly
as |W|^2 rises; between permutations, as the agreement of each model with the weighted sum of the others. The agreement
is linear in the coupling of a space that stands once on each tensor (the paper's eq. for the l-th layer), and quadratic
where it stands twice (hidden-to-hidden weights: Gromov-Wasserstein, Section 3).

In: states, a layout. Out: carried states, scores for couplings, the objective. Here no solver chooses anything.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import torch
from torch import Tensor

from ..layout.slicing import pieces, slices
from .coupling import Couplings
from .problem import Problem
from .sums import spread_of, squared


def objective_of(problem: Problem, couplings: Sequence[Couplings]) -> float:
    """F for given couplings of every model."""
    return sum(term(problem, name, couplings) for name in problem.terms)


def term(
    problem: Problem,
    tensor: str,
    couplings: Sequence[Couplings],
    parts: Sequence[Tensor] = (),
    *,
    into: Tensor | None = None,
) -> float:
    """The part of one tensor in F, piece by piece: no permuted tensor is there as a whole.

    `parts` are every model's, where they are carried already; the mean is written `into` a tensor.
    """
    rows = {
        model: slices(parts[model] if parts else problem.sliced(model, tensor, couplings[model]), 0)
        for model in problem.counted
    }
    total = 0.0
    for piece in pieces(problem.shape(tensor)):
        moved = (make(piece) for make in rows.values())  # one after the other: one is there at a time
        total += spread_of(problem.shares, moved, None if into is None else into[piece])
    for model, make in rows.items():
        if not all(couplings[model][pair.target.space].keeps_norms for pair in problem.blocks[tensor]):
            kept = sum(squared(make(piece)) for piece in pieces(problem.shape(tensor)))
            total += problem.weights[model] * (_norm_at_target(problem, model, tensor) - kept)
    return problem.importance.get(tensor, 1.0) * total


def mean(problem: Problem, tensor: str, couplings: Sequence[Couplings]) -> Tensor:
    """The weighted mean of a tensor over the carried models: the minimiser of F (the paper's update formula)."""
    return averaged(problem, tensor, couplings)[0]


def averaged(
    problem: Problem, tensor: str, couplings: Sequence[Couplings], parts: Sequence[Tensor] = ()
) -> tuple[Tensor, float]:
    """The mean of a tensor, and its part in F: both are made of the same pieces. What does not move has no part.

    `parts` are every model's, where they are carried already.
    """
    if tensor not in problem.blocks:
        first = problem.states[0][tensor]
        result = torch.empty_like(first)
        spread_of(problem.shares, (problem.states[model][tensor] for model in problem.counted), result)
        if not bool(result.isfinite().all()):  # infinities of a mask, the same in all models, have no difference
            result = torch.where(first.isfinite(), result, first)
        return result, 0.0
    result = problem.states[0][tensor].new_empty(problem.shape(tensor))
    return result, term(problem, tensor, couplings, parts, into=result)


def means(
    problem: Problem, couplings: Sequence[Couplings], tensors: Collection[str] | None = None
) -> dict[str, Tensor]:
    """The means of some tensors (default: of all that hold numbers)."""
    names = [name for name, tensor in problem.states[0].items() if averages(tensor)] if tensors is None else tensors
    return {name: mean(problem, name, couplings) for name in names}


def _norm_at_target(problem: Problem, model: int, tensor: str) -> float:
    """|W|^2 of a tensor of a model whose units are repeated to the widths of the target."""
    values = problem.states[model][tensor]
    for pair in problem.blocks[tensor]:
        target, own = len(pair.target.positions), len(pair.models[model].positions)
        if target != own:
            ratio = target / own if pair.target.side == "produces" else own / target
            scale = values.new_ones(values.shape[pair.target.axis])
            scale[torch.from_numpy(pair.models[model].positions).to(scale.device)] = ratio**0.5
            values = values * scale.view([-1 if axis == pair.target.axis else 1 for axis in range(values.dim())])
    return squared(values)


def averages(tensor: Tensor) -> bool:
    """Whether a tensor holds numbers of which a mean can be made."""
    return tensor.is_floating_point() or tensor.is_complex()
