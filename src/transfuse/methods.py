"""The methods table: published ways to fuse, as rows over the same problem.

A row says which sweep finds the couplings, and with which options. It is a function of a problem, a random
state, and who is told how far it is.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
from torch import Tensor

from .barycenter import (
    Coupling,
    Distance,
    Found,
    Matching,
    Problem,
    Start,
    Step,
    all_anchored,
    anchored,
    cycle_consistent,
    distilled_target,
    jointly,
    layer_by_layer,
    matched_averaging,
    merge_many,
    merged,
    objective_of,
    packed,
    random_target,
    reversible,
    shuffled,
)
from .errors import InputError, listing
from .progress import unwatched
from .renamed import telling_new_names, told_renamed
from .types import Watch
from .workers import mapped

if TYPE_CHECKING:
    Random = np.random.Generator  # numpy loads `random`, a dozen modules, when it is first asked for


@telling_new_names
@dataclass(frozen=True)
class Method:
    """A method: a row of the table `METHODS`.

    Args:
        summary: What it does, in a sentence.
        citation: Where it was published.
        couple: Finds the couplings of a problem, given a random state, a watcher and the options of the method.
        balance: Average in a canonical scale, where the layout allows scales; models whose scales differ are matched in
            it as well. Running statistics of norms over such units do not count.
        rotations: Rotate units where the layout allows it, after norms are folded; else they are permuted there, too.
        order_free: The order of the models shall not matter: they are worked on in an order of their own.
        terms: What units are matched by: `weights`, `activations` or `both`; default: both if there is data.
        correct: The correction at the end, by data or by synthetic inputs: `auto`, `none` or a row of `CORRECTIONS`.
        lends: Where models of other depths grow blocks, whose inner tensors do not matter to them, these are the other
            models' in the mean; else they are 0.
        passes: How often all spaces are gone through (starts times sweeps), as counted on two trained networks; from
            this the time of a fusion is estimated. A row without it is taken to be as slow as `auto`.
    """

    summary: str
    citation: str
    couple: Callable[..., Found]
    balance: bool = False
    rotations: bool = False
    order_free: bool = False
    terms: str | None = None
    correct: str = "none"
    lends: bool = True
    passes: int = 20

    @property
    def matches(self) -> bool:
        """Whether units are matched at all: what goes through no space needs no layout."""
        return self.passes > 0

    @property
    def options(self) -> dict[str, Any]:
        """Options that the method takes, with their defaults."""
        parameters = inspect.signature(self.couple).parameters.values()
        return {each.name: each.default for each in parameters if each.kind is each.KEYWORD_ONLY}

    def problems(self, options: Mapping[str, Any]) -> list[str]:
        """What is wrong with given options."""
        listed = ", ".join(self.options) or "none"
        unknown = [
            told_renamed(f"{name}=") or f"no option is called {name!r}; the options: {listed}"
            for name in options.keys() - self.options
        ]
        return sorted(unknown) + [
            f"option {name} is {value!r}; expected {expected}"
            for name, value in options.items()
            for valid, expected in [VALUES.get(name, (lambda _: True, ""))]
            if name in self.options and not valid(value)
        ]


def _is_count(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _is_number(value: Any, *, positive: bool) -> bool:
    return isinstance(value, int | float) and np.isfinite(value) and (value > 0 if positive else value >= 0)


def _one_of(kind: Any) -> tuple[Callable[[Any], bool], str]:
    return lambda value: value in get_args(kind), "one of " + ", ".join(get_args(kind))


RESTARTS = 2  # shuffled starts of `auto`, where none are asked for

# What the value of an option may be.
VALUES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "start": _one_of(Start),
    "distance": _one_of(Distance),
    "restarts": (lambda value: value is None or _is_count(value, 0), "None or a whole number, not negative"),
    "updates": (partial(_is_count, least=0), "a whole number, not negative"),
    "sweeps": (partial(_is_count, least=1), "a whole number from 1"),
    "steps": (partial(_is_count, least=1), "a whole number from 1"),
    "alpha": (partial(_is_number, positive=False), "a number, not negative"),
    "sigma": (partial(_is_number, positive=True), "a positive number"),
    "sigma0": (partial(_is_number, positive=True), "a positive number"),
    "epsilon": (lambda value: value is None or _is_number(value, positive=True), "None (exact) or a positive number"),
}


def _within(watch: Watch, stage: str) -> Watch:
    """A watcher for a part of the work, whose name stands before what it is told."""
    return lambda inner, done, total: watch(f"{stage}, {inner}", done, total)


def _unmatched(problem: Problem) -> list[dict[str, Coupling]]:
    """Units stay where they are; in a wider target they are repeated, in a narrower one like ones are merged."""
    return [merged(problem, model) for model in range(len(problem.states))]


def _vanilla(problem: Problem, rng: Random, watch: Watch) -> Found:
    couplings = [problem.start(model) for model in range(len(problem.states))]
    return couplings, [Step(objective_of(problem, couplings), 0)]


def _auto(
    problem: Problem,
    rng: Random,
    watch: Watch,
    *,
    restarts: int | None = None,
    start: Start = "base",
    sweeps: int = 100,
) -> Found:
    """The best, by the objective, of joint sweeps from several starts: unmatched, layer by layer, and shuffled."""
    starts = [[packed(own) for own in each] for each in _auto_starts(problem, rng, restarts, start)]
    # Every start draws from a random state of its own: what it finds is the same, wherever it is sought.
    drawn = list(zip(starts, rng.spawn(len(starts)), strict=True))
    if problem.executor is None:
        told = [_within(watch, f"start {number} of {len(starts)}") for number in range(1, len(starts) + 1)]
        tries = [_tried(problem, sweeps, each, tell) for each, tell in zip(drawn, told, strict=True)]
    else:
        tries = mapped(partial(_tried, replace(problem, executor=None), sweeps), drawn, problem.executor)
    return min(tries, key=lambda found: found[1][-1].objective)


def _tried(
    problem: Problem, sweeps: int, start: tuple[list[dict[str, Coupling]], Random], watch: Watch = unwatched
) -> Found:
    """Joint sweeps from one start, with its own random state."""
    couplings, rng = start
    return jointly(problem, couplings, signs=True, rng=rng, sweeps=sweeps, watch=watch)


def _auto_starts(problem: Problem, rng: Random, restarts: int | None, start: Start) -> list[list[dict[str, Coupling]]]:
    """Couplings to start from. Where no units of the first model are merged, they need not be shuffled.

    Models whose couplings are known are not shuffled either; if all are, there is nothing else to start from. Where
    units rotate, everything else is found by them: if all are anchored, nothing is shuffled. Two models whose
    activations lead to the same couplings from anywhere start layer by layer alone, unless restarts are asked for.
    """
    alone, restarts = restarts is None and problem.one_start, RESTARTS if restarts is None else restarts
    layered = partial(layer_by_layer, quadratic=True, updates=0, matching=Matching(signs=True))
    if start != "base":
        return [layered(problem, start=_target(problem, rng, start, layered))[0] for _ in range(restarts + 1)]
    unmatched = _unmatched(problem)
    known = [problem.known_of(model) is not None for model in range(len(unmatched))]
    if all(known):
        return [unmatched]
    other = anchored(problem, unmatched) if problem.layout.rotating else layered(problem)[0]
    if all_anchored(problem):
        return [unmatched, other]
    if alone and len(unmatched) == 2 and all(map(reversible, unmatched)):
        return [other]
    stays = [reversible(unmatched[0]) or known[0], *known[1:]]
    return [unmatched, other] + [
        [each if still else shuffled(each, rng) for each, still in zip(unmatched, stays, strict=True)]
        for _ in range(restarts)
    ]


def _target(problem: Problem, rng: Random, start: Start, layered: Callable[..., Found]) -> dict[str, Tensor] | None:
    """The target that a layer-by-layer method begins with."""
    if start == "base":
        return None
    if start == "random":
        return random_target(problem, rng)
    return distilled_target(problem, rng, layered)


def _rebasin(problem: Problem, rng: Random, watch: Watch, *, sweeps: int = 100) -> Found:
    if len(problem.states) > 2:
        return merge_many(problem, _unmatched(problem), rng=rng, sweeps=sweeps, watch=watch)
    return jointly(problem, _unmatched(problem), signs=False, rng=rng, sweeps=sweeps, watch=watch)


def _layered(problem: Problem, rng: Random, watch: Watch, start: Start, matching: Matching, **options: Any) -> Found:
    layered: Callable[..., Found] = partial(layer_by_layer, matching=matching, **options)
    return layered(problem, start=_target(problem, rng, start, layered), watch=watch)


def _activation(problem: Problem, rng: Random, watch: Watch, *, sweeps: int = 100) -> Found:
    start = anchored(problem, _unmatched(problem))  # inside of heads weights count, which need streams that are turned
    return jointly(problem, start, signs=True, rng=rng, sweeps=sweeps, watch=watch)


def _procrustes(problem: Problem, rng: Random, watch: Watch, *, sweeps: int = 100) -> Found:
    start = anchored(problem, _unmatched(problem))
    return jointly(problem, start, signs=True, rng=rng, sweeps=sweeps, watch=watch)


def _ot(
    problem: Problem,
    rng: Random,
    watch: Watch,
    *,
    distance: Distance = "squared",
    epsilon: float | None = None,
    start: Start = "base",
) -> Found:
    matching = Matching(epsilon=epsilon, distance=distance)
    return _layered(problem, rng, watch, start, matching, quadratic=False, updates=0)


def _wb(
    problem: Problem,
    rng: Random,
    watch: Watch,
    *,
    updates: int = 20,
    epsilon: float | None = None,
    start: Start = "base",
) -> Found:
    return _layered(problem, rng, watch, start, Matching(epsilon=epsilon), quadratic=False, updates=updates)


def _gwb(  # noqa: PLR0913
    problem: Problem, rng: Random, watch: Watch, *, updates: int = 20, epsilon: float | None = None,
    alpha: float = 5.0, start: Start = "base",
) -> Found:  # fmt: skip
    weighed = replace(problem, importance=_hidden_importance(problem, alpha))
    couplings, history = _layered(
        weighed, rng, watch, start, Matching(epsilon=epsilon), quadratic=True, updates=updates
    )
    return couplings, Step.told(history, lambda: objective_of(weighed, couplings))


def _hidden_importance(problem: Problem, alpha: float) -> dict[str, float]:
    """Weights of the tensors on which a space stands twice, for alpha_H in the paper's normalisation.

    The paper's couplings have total mass 1, so both terms of its objective are means: of squared differences over the
    k_in incoming weights of a unit, and over its k_hidden hidden-to-hidden ones. Here terms are sums: omega = alpha_H
    k_in / k_hidden. Biases are incoming weights (the paper concatenates them).
    """
    importance = {}
    for space, pairs in problem.blocks_of.items():
        names = [pair.target.tensor for pair in pairs]
        counts = {True: 0.0, False: 0.0}
        for pair in pairs:
            if pair.target.side == "produces":
                values = problem.states[0][pair.target.tensor].numel() / pair.models[0].positions.size
                counts[names.count(pair.target.tensor) > 1] += values
        ratio = counts[False] / counts[True] if counts[True] and counts[False] else 1.0
        importance.update({name: alpha * ratio for name in names if problem.is_quadratic(space, [name])})
    return importance


def _fedma(problem: Problem, rng: Random, watch: Watch, *, sigma: float = 1.0, sigma0: float = 1.0) -> Found:
    return matched_averaging(problem, sigma=sigma, sigma0=sigma0, watch=watch)


def _c2m3(problem: Problem, rng: Random, watch: Watch, *, steps: int = 100) -> Found:
    return cycle_consistent(problem, steps=steps, watch=watch)


METHODS: dict[str, Method] = {
    "auto": Method(
        "joint sweeps over incoming and outgoing weights with signs, and rotations where units allow them, to "
        "convergence, in canonical scales where models differ in these; the best of several starts",
        "transfuse; objective of Akash, Li and Garcia Trillos (2022), sweeps of Ainsworth et al. (2023)",
        _auto,
        balance=True,
        rotations=True,
        order_free=True,
        correct="auto",
        passes=20,
    ),
    "gwb": Method(
        "layer by layer by incoming weights, hidden-to-hidden weights included; target updated to the barycenter (for "
        "RNNs give epsilon=0.2: exact couplings end in poor optima)",
        "Akash, Li and Garcia Trillos (2022), Section 3, Algorithm 2; arXiv:2210.06671",
        _gwb,
        passes=6,
    ),
    "wb": Method(
        "layer by layer by incoming weights, hidden-to-hidden weights left out; target updated to the barycenter",
        "Akash, Li and Garcia Trillos (2022), Section 2, Algorithm 1; arXiv:2210.06671",
        _wb,
        passes=2,
    ),
    "ot": Method(
        "layer by layer by incoming weights, once, to the first model; squared or plain distance",
        "Singh and Jaggi (2020), Model Fusion via Optimal Transport; arXiv:1910.05653",
        _ot,
        passes=1,
    ),
    "clafusion": Method(
        "for networks of other depths: layers put beside each other by dynamic programming on their likeness, as every "
        "method does, blocks that are grown wholly 0; then OT, layer by layer, to the first model",
        "Nguyen et al. (2021), On Cross-Layer Alignment for Model Fusion of Heterogeneous Neural Networks; "
        "arXiv:2110.15538",
        _ot,
        lends=False,
        passes=1,
    ),
    "rebasin": Method(
        "weight matching: joint sweeps over incoming and outgoing weights without signs, to convergence; more than two "
        "models: each to the mean of the others, in turn",
        "Ainsworth, Hayase and Srinivasa (2023), Git Re-Basin, Algorithms 1 and 3; arXiv:2209.04836",
        _rebasin,
        order_free=True,
        passes=5,
    ),
    "activation": Method(
        "activation matching: units that answer alike to data, sign included (where they rotate, by Procrustes); each "
        "model to the mean of the others",
        "Li et al. (2016), Convergent Learning, arXiv:1511.07543; Ainsworth et al. (2023), arXiv:2209.04836",
        _activation,
        rotations=True,
        order_free=True,
        terms="activations",
        passes=1,
    ),
    "procrustes": Method(
        "units that rotate turned to those of the first model, by embeddings and positions, then joint sweeps over all "
        "weights to convergence; where nothing rotates, joint sweeps with signs",
        "Schoenemann (1966), A generalized solution of the orthogonal Procrustes problem; Theus et al. (2025), "
        "arXiv:2506.22712",
        _procrustes,
        balance=True,
        rotations=True,
        order_free=True,
        terms="weights",
        passes=10,
    ),
    "fedma": Method(
        "one-shot FedMA: layer by layer, one model after another, costs of a Beta-Bernoulli process, no new units",
        "Wang et al. (2020), Federated Learning with Matched Averaging; arXiv:2002.06440",
        _fedma,
        passes=1,
    ),
    "c2m3": Method(
        "all spaces of all models at once, cycle-consistent, by Frank and Wolfe's method",
        "Crisostomi et al. (2024), Cycle-Consistent Multi-Model Merging; arXiv:2405.17897",
        _c2m3,
        order_free=True,
        passes=30,
    ),
    "vanilla": Method(
        "no matching: the plain weighted average", "McMahan et al. (2017); arXiv:1602.05629", _vanilla, passes=0
    ),
}


def method_key(name: str) -> str:
    """The name of a row in the table of methods, however it was typed: in capitals, with blanks or hyphens.

    Raises:
        InputError: no method is called so; it tells the one that may be meant, and all.

    Example:
        >>> method_key("Auto"), method_key("OT"), method_key("Re-Basin")
        ('auto', 'ot', 'rebasin')
    """
    plain = "".join(each for each in name.lower() if each.isalnum())
    if plain in METHODS:
        return plain
    close = get_close_matches(plain, METHODS, n=1)
    meant = f"did you mean {close[0]}? " if close else ""
    raise InputError(f"no method is called {name!r}; {meant}the methods: {', '.join(METHODS)}")


def method_named(name: str) -> Method:
    """The row of a method, whose name may be typed in any case.

    Raises:
        InputError: no method is called so; it tells the one that may be meant, and all.
    """
    return METHODS[method_key(name)]


@dataclass(frozen=True)
class Chosen:
    """A method, and options that it takes: looked up once, at the beginning, and handed on to where it is used."""

    method: str
    row: Method
    options: Mapping[str, Any]

    @staticmethod
    def of(method: str, options: Mapping[str, Any]) -> Chosen:
        """The row of a method, for options that it takes.

        Raises:
            InputError: there is no such method, or options are wrong.
        """
        method = method_key(method)
        row = METHODS[method]
        if problems := row.problems(options):
            raise InputError(listing(f"method {method} cannot take these options:", problems))
        return Chosen(method, row, options)
