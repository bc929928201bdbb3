"""Labels: moved by the same call on integers, against a labelling that is spelled out element by element."""

import itertools
import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from transfuse.tracing import labels
from transfuse.tracing.labels import Labels

SHAPES = st.lists(st.integers(1, 4), max_size=3).map(tuple)


def spelled(value: Labels) -> list[tuple[frozenset[int], frozenset[Hashable], bool]]:
    """For each element in order: its units, its tags (with what they vary along), whether it is known to be zero."""

    def every(array: Tensor) -> list[int]:
        return array.expand(value.shape).reshape(-1).tolist()

    units = [every(array) for array in value.units]
    tags = [(labels.support(array), every(array)) for array in value.tags]
    zero = [False] * math.prod(value.shape) if value.zero is None else every(value.zero)
    return [
        (
            frozenset(field[index] for field in units) - {0},
            frozenset((along, tag[index]) for along, tag in tags if tag[index]),
            bool(zero[index]),
        )
        for index in range(len(zero))
    ]


def classes(items: Sequence[Hashable]) -> list[int]:
    """Which items are equal: for each one, where its like was first seen."""
    return [items.index(item) for item in items]


def some(axes: Sequence[int]) -> st.SearchStrategy[frozenset[int]]:
    """Some of the axes."""
    return st.frozensets(st.sampled_from(axes)) if axes else st.just(frozenset())


@st.composite
def arrays(draw: st.DrawFn, shape: tuple[int, ...], axes: Iterable[int], high: int) -> Tensor:
    """Integers below `high` that vary along the axes given, at most."""
    own = [size if axis in axes else 1 for axis, size in enumerate(shape)]
    return torch.randint(high, own, generator=torch.Generator().manual_seed(draw(st.integers(0, 999))))


@st.composite
def valued(draw: st.DrawFn, shape: tuple[int, ...]) -> Labels:
    """Labels of a value: unit fields that share no axis, tidy tags, some zeros."""
    long = [axis for axis, size in enumerate(shape) if size > 1]  # a field that varies along none is a tag
    first = draw(some(long))
    fields = [axes for axes in (first, draw(some(sorted({*long} - first)))) if axes]
    every = range(len(shape))
    tags = [draw(arrays(shape, draw(some(every)), 4)) for _ in range(draw(st.integers(0, 3)))]
    return Labels(
        shape,
        tuple(ids + 10 * field * (ids != 0) for field, ids in enumerate(draw(arrays(shape, a, 9)) for a in fields)),
        labels.tidy([*tags, torch.tensor(7)]),
        draw(arrays(shape, every, 2)).bool() if draw(st.booleans()) else None,
    )


# --- Moving -------------------------------------------------------------------------------------------------------

MOVES: dict[str, tuple[Callable[..., Tensor | Sequence[Tensor]], list[tuple[int, ...]]]] = {
    "permute": (lambda a: a.permute(2, 0, 1), [(2, 3, 4)]),
    "transpose": (lambda a: a.transpose(0, 1), [(4, 4)]),
    "reshape": (lambda a: a.reshape(6, 4), [(2, 3, 4)]),
    "unflatten": (lambda a: a.unflatten(0, (2, 3)), [(6, 2)]),
    "flatten": (lambda a: a.flatten(), [(3, 1, 2)]),
    "select": (lambda a: a[:, 1], [(2, 3)]),
    "slice": (lambda a: a[1::2], [(4, 2)]),
    "expand": (lambda a: a.expand(3, 2, 4), [(2, 1)]),
    "repeat": (lambda a: a.repeat(2, 3), [(2, 2)]),
    "flip": (lambda a: a.flip(0), [(3, 2)]),
    "roll": (lambda a: a.roll(1, -1), [(2, 3)]),
    "pad": (partial(F.pad, pad=(1, 2)), [(2, 3)]),
    "tril": (torch.tril, [(3, 3)]),
    "diagonal": (torch.diagonal, [(3, 3)]),
    "scalar": (lambda a: a.reshape(()), [(1, 1)]),
    "cat": (lambda a, b: torch.cat([a, b], 1), [(2, 3), (2, 1)]),
    "cat of three": (lambda *arrays: torch.cat(arrays), [(2, 2), (1, 2), (3, 2)]),
    "stack": (lambda a, b: torch.stack([a, b], -1), [(2, 3), (2, 3)]),
    "where": (lambda a, b: torch.where(torch.eye(3, dtype=torch.bool), a, b), [(3, 3), (3, 3)]),
    "chunk": (lambda a: a.chunk(2, 1), [(2, 4)]),
    "unbind": (lambda a: a.unbind(0), [(3, 2)]),
}


@pytest.mark.parametrize("name", MOVES)
@settings(max_examples=12)
@given(data=st.data())
def test_labels_move_like_the_elements_they_belong_to(name: str, data: st.DataObject):
    function, shapes = MOVES[name]
    values = [data.draw(valued(shape)) for shape in shapes]
    sources = [(frozenset(), frozenset(), False)] + [entry for value in values for entry in spelled(value)]
    first, numbered = 1, []
    for shape in shapes:  # number all elements; what is not an element is 0
        numbered.append(torch.arange(first, first + math.prod(shape)).reshape(shape))
        first += math.prod(shape)
    places = function(*numbered)
    results = labels.moved(function, values, labels.salted(1))
    for place, result in zip([places] if isinstance(places, Tensor) else places, results, strict=True):
        expected = [sources[index] for index in place.reshape(-1).tolist()]
        found = spelled(result)
        assert result.shape == tuple(place.shape)
        assert [units for units, _, _ in found] == [units for units, _, _ in expected]
        assert [zero for _, _, zero in found] == [zero for _, _, zero in expected]
        assert classes([tags for _, tags, _ in found]) == classes([tags for _, tags, _ in expected])


@pytest.mark.parametrize("weights", [(True, True), (True, False), (False, False)])
def test_what_is_moved_is_a_weight_if_all_of_it_was(weights: tuple[bool, bool]):
    values = [Labels((2,), weight=weight) for weight in weights]
    (result,) = labels.moved(lambda a, b: torch.cat([a, b]), values, labels.salted(1))
    assert result.weight is all(weights)


def test_results_of_one_move_are_told_apart():
    first, second = labels.moved(lambda a: a.chunk(2), [Labels((4,))], labels.salted(1))
    assert spelled(first)[0] != spelled(second)[0]


# --- Arrays -------------------------------------------------------------------------------------------------------


@given(SHAPES.flatmap(lambda shape: arrays(shape, range(len(shape)), 2)))
def test_compressing_drops_exactly_the_axes_along_which_nothing_varies(array: Tensor):
    small = labels.compress(array)
    assert torch.equal(small.expand(array.shape), array)
    varying = {axis for axis in range(array.dim()) if not torch.equal(array, array.roll(1, axis))}
    assert labels.support(small) == varying


@given(SHAPES, st.data())
def test_tidy_tags_tell_the_same_elements_apart_and_none_is_held_by_another(
    shape: tuple[int, ...], data: st.DataObject
):
    tags = [data.draw(arrays(shape, data.draw(some(range(len(shape)))), 3)) for _ in range(3)]
    tidied = labels.tidy(tags)
    before, after = (
        zip(*(tag.expand(shape).reshape(-1).tolist() for tag in arrays), strict=True) for arrays in (tags, tidied)
    )
    assert classes(list(after)) == classes(list(before))
    for tag, other in itertools.permutations(tidied, 2):
        assert not labels.support(tag) <= labels.support(other)


@settings(max_examples=50)
@given(SHAPES.flatmap(valued), st.data())
def test_units_that_are_turned_into_tags_still_tell_elements_apart(value: Labels, data: st.DataObject):
    axes = data.draw(some(range(len(value.shape))))
    plain = labels.without_units(value, axes)
    assert labels.overlapping(plain.units, axes) == []
    before, after = ([(units, tags) for units, tags, _ in spelled(each)] for each in (value, plain))
    assert classes(after) == classes(before)


@given(SHAPES, st.data())
def test_indices_tell_positions_apart_along_their_axes_and_no_others(shape: tuple[int, ...], data: st.DataObject):
    axes = data.draw(some(range(len(shape))))
    value = Labels(shape, tags=tuple(labels.indices(shape, sorted(axes), labels.salted(1))))
    places = [tuple(index[axis] for axis in axes) for index in itertools.product(*map(range, shape))]
    assert classes([tags for _, tags, _ in spelled(value)]) == classes(places)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), unique=True))
@example([0, -1])
def test_different_numbers_have_different_hashes(numbers: list[int]):
    assert len(labels.mix(torch.tensor(numbers, dtype=torch.int64)).unique()) == len(numbers)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), unique=True, min_size=1))
def test_different_pairs_have_different_hashes(pairs: list[tuple[int, int]]):
    first, second = torch.tensor(pairs).unbind(1)
    assert len(labels.combine(first, second).unique()) == len(pairs)


# --- Constants ----------------------------------------------------------------------------------------------------


def tags_of(value: Tensor) -> list[frozenset[Hashable]]:
    return [tags for _, tags, _ in spelled(labels.of_constant(value))]


DTYPES = [torch.bool, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64]


@pytest.mark.parametrize("dtype", DTYPES)
@settings(max_examples=25)
@given(st.lists(st.sampled_from([0.0, -0.0, 1.0, -1.0, 0.1, 3.0, 100.0, 1e4]), max_size=12), st.booleans())
def test_elements_of_a_constant_are_told_apart_by_their_values(dtype: torch.dtype, numbers: list[float], square: bool):
    value = torch.tensor(numbers, dtype=torch.float64).to(dtype)
    value = value[:, None].expand(-1, 2) if square else value
    assert classes(tags_of(value)) == classes(value.reshape(-1).tolist())


@pytest.mark.parametrize("dtype", DTYPES)
@settings(max_examples=25)
@given(st.lists(st.sampled_from([0.0, -0.0, 1.0, -2.0, math.inf]), max_size=6))
def test_zeros_of_a_constant_are_known(dtype: torch.dtype, numbers: list[float]):
    value = torch.tensor([x if dtype.is_floating_point else bool(x) for x in numbers], dtype=dtype)
    known = labels.of_constant(value)
    assert [zero for _, _, zero in spelled(known)] == [x == 0 for x in numbers]
    assert (known.zero is None) is (0.0 not in numbers)


@pytest.mark.parametrize(
    "value",
    [
        torch.tensor([1 + 2j, 2 + 1j, 1 + 2j, 3 + 0j]),
        torch.polar(torch.ones(8), torch.arange(8) * torch.pi / 4),  # eight rotations, as in a rotary embedding
        torch.tensor([2**53, 2**53 + 1, 2**53]),
        torch.tensor([math.inf, -math.inf, 1.0, math.inf]),
    ],
    ids=["complex", "rotations", "long", "infinite"],
)
def test_unlike_elements_of_a_constant_are_told_apart(value: Tensor):
    assert classes(tags_of(value)) == classes(value.tolist())


def test_elements_of_two_constants_are_told_apart_by_their_values():
    assert tags_of(torch.tensor([3.0, 4.0]))[0] == tags_of(torch.tensor([5.0, 3.0]))[1]


def test_nothing_is_a_constant_too():
    assert spelled(labels.of_constant(torch.empty(0, 3))) == []
