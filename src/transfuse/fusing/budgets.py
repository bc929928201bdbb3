"""Budgets: how wide each space of the result may be, given how many parameters or operations it may have.

Of all units of all models those that match worst stay apart first, each as one more unit of its space, as long as the
result stays within the budget. One that does not fit is passed over for those behind it, so at the end no unit more
fits: with each unit that stays, every other one costs as much as before or more.

In: what the user allows, what tensors cost, how badly units match. Out: widths by space, and what they cost.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor, nn

from ..activations import observe
from ..arguments import Kind, count, either
from ..errors import InputError
from ..layout import Layout
from ..modules import Arguments, tensors_in, undisturbed

PARAMETERS, OPERATIONS = "parameters", "operations"
FACTORS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}
FORM = re.compile(rf"([0-9]+(?:\.[0-9]+)?)\s*([kMGx]?)\s*({PARAMETERS}|{OPERATIONS})?")
EXPECTED = (
    f"a number of {PARAMETERS}, with a unit ('1.5M', '200k {OPERATIONS}') or as a factor of what the first model has "
    "('1.3x')"
)
BUDGET = either(count(1), Kind(lambda value: isinstance(value, str) and FORM.fullmatch(value) is not None, EXPECTED))


@dataclass(frozen=True)
class Limit:
    """What a result may have at most: so many parameters or operations, or that many times what the first model has."""

    amount: float
    unit: str = PARAMETERS
    relative: bool = False

    @staticmethod
    def of(budget: int | str) -> Limit:
        """The limit that a user writes down, of the kind `BUDGET`.

        Example:
            >>> Limit.of("1.3x operations")
            Limit(amount=1.3, unit='operations', relative=True)
        """
        if isinstance(budget, int):
            return Limit(budget)
        found = FORM.fullmatch(budget)
        assert found is not None, "arguments were checked"
        number, suffix, unit = found.groups()
        return Limit(float(number) * FACTORS.get(suffix, 1), unit or PARAMETERS, suffix == "x")

    def of_cost(self, own: int) -> int:
        """The limit as a whole number, given what the first model has.

        Raises:
            InputError: that is more already.
        """
        limit = int(self.amount * own + 1e-9) if self.relative else int(self.amount)
        if limit < own:
            raise InputError(
                f"budget is {limit:,} {self.unit}, but model 1 has {own:,}: a budget is what a result may have that is "
                f"as wide as the models or wider; for a narrower one pass target, as a factor below 1: target=0.5"
            )
        return limit


@dataclass(frozen=True, eq=False)
class Cost:
    """What a network costs at any widths: products of lengths of axes, each as often as its tensor counts.

    Args:
        layout: Which axes of which tensors move together.
        counts: How often each number of a tensor counts, by name: once for parameters; for operations, how often it is
            multiplied for one sample.
        limit: What it may cost.
    """

    layout: Layout
    counts: Mapping[str, int]
    limit: Limit

    def at(self, widths: Mapping[str, int], tensors: Sequence[str] | None = None) -> int:
        """The cost at some widths, of some tensors or of all."""
        names = self.counts if tensors is None else tensors
        return sum(self.counts[name] * prod(self.layout.shape(name, widths)) for name in names)

    def tensors_of(self, spaces: frozenset[str]) -> list[str]:
        """Names of the tensors whose cost depends on some spaces."""
        return [name for name in self.counts if any(spaces & set(axis.spaces) for axis in self.layout.tensors[name])]


def cost_of(model: nn.Module, layout: Layout, limit: Limit, example: Arguments | None) -> Cost:
    """What a network costs in the unit of a limit: parameters, or multiplications of weights for one sample.

    Raises:
        InputError: operations are counted on an example, and there is none.
    """
    if limit.unit == PARAMETERS:
        names = [name for name, _ in model.named_parameters()]
        return Cost(layout, {name: 1 for name in names if name in layout.tensors}, limit)
    if example is None:
        raise InputError("a budget of operations is counted on example_inputs, and there are none; pass some")
    return Cost(layout, _applications(model, example), limit)


def _applications(model: nn.Module, example: Arguments) -> dict[str, int]:
    """By weight, how often each of its numbers is multiplied for one sample of the example."""
    first = next((tensor for tensor in tensors_in((example.args, dict(example.kwargs))) if tensor.dim()), None)
    samples = len(first) if first is not None else 1
    found: dict[str, int] = {}
    with undisturbed(model):
        for seen in observe(model, lambda each: each(*example.args, **example.kwargs)):
            channels = -1 - len(seen.kernel)
            places = seen.output.numel() // seen.output.shape[channels]
            for name in seen.recurrence.names[:2] if seen.recurrence else (seen.name,):
                found[name] = found.get(name, 0) + places
    return {name: max(places // samples, 1) for name, places in found.items()}


@dataclass(frozen=True)
class Spent:
    """What a result has, of what it may have.

    Args:
        limit: What it may have.
        cost: What it has.
        unit: Of both: parameters, or operations for one sample.
        widths: Units of each space.
        own: What the first model has.
    """

    limit: int
    cost: int
    unit: str
    widths: Mapping[str, int]
    own: int

    def __str__(self) -> str:
        """The cost and the limit, in one line."""
        return f"{self.cost:,} of {self.limit:,} {self.unit}, {self.cost / self.own:.3g} times what model 1 has"


def within(cost: Cost, own: Mapping[str, int], apart: Mapping[str, Tensor]) -> Spent:
    """The widths that a limit allows.

    Args:
        cost: What the result costs at any widths, and may cost.
        own: The widths of the models, by space.
        apart: By space, how badly units match, [models but the first, units].
    """
    widths, used = dict(own), cost.at(own)
    most, started = cost.limit.of_cost(used), used
    groups = {group: cost.tensors_of(group) for group in groups_of(cost.layout, own)}
    for group in _worst_first(list(groups), apart):
        wider = {**widths, **{space: widths[space] + 1 for space in group}}
        more = cost.at(wider, groups[group]) - cost.at(widths, groups[group])
        if used + more <= most:
            widths, used = wider, used + more
    return Spent(most, used, cost.limit.unit, widths, started)


def groups_of(layout: Layout, own: Mapping[str, int]) -> list[frozenset[str]]:
    """Spaces that grow together, since their units stand in turn on some axis; those that cannot grow are left out."""
    groups = [frozenset([name]) for name in own]
    still = {name for name, width in own.items() if layout.growth_objection(name, width, width + 1)}
    for run in layout.runs():
        together = frozenset(slot.space for slot in run.cell)
        joined = together.union(*(group for group in groups if group & together))
        groups = [*(group for group in groups if not group & together), joined]
        still |= together if run.units is not None else frozenset()
    return [group for group in groups if not group & still]


def _worst_first(groups: Sequence[frozenset[str]], apart: Mapping[str, Tensor]) -> Iterator[frozenset[str]]:
    """For each unit that may stay apart, worst first, the spaces that it is a unit of."""
    found: list[tuple[float, int]] = []
    for number, group in enumerate(groups):
        known = [apart[space] for space in sorted(group) if space in apart]
        if known:
            worst: Tensor = torch.stack(known).amax(0)
            found += [(-each, number) for each in worst.flatten().tolist()]
    return (groups[number] for _, number in sorted(found))
