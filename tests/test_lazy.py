"""Lazy states: a mapping like any other, whose tensors are made when asked for and not before."""

import pytest
import torch

from transfuse.lazy import Entry, LazyState, entries_of, with_names

ENTRIES = [Entry("a", torch.float16, (2, 3)), Entry("b", torch.int64, ())]


def counting():
    """A lazy state, and the names that were read so far."""
    read = []

    def make(entry):
        read.append(entry.name)
        return torch.ones(entry.shape, dtype=entry.dtype)

    return LazyState(ENTRIES, make), read


def test_a_tensor_is_made_at_each_asking_and_not_before():
    state, read = counting()
    assert (list(state), len(state), entries_of(state)["a"].bytes, read) == (["a", "b"], 2, 12, [])
    assert state["a"] is not state["a"]
    assert read == ["a", "a"]
    with pytest.raises(KeyError):
        state["c"]


def test_entries_of_tensors_in_memory_are_those_of_lazy_ones():
    state, _ = counting()
    assert entries_of(dict(state)) == entries_of(state)


def test_one_tensor_may_stand_under_two_new_names():
    state, read = counting()
    twice = with_names(state, {"x": "a", "y": "a"})
    assert [entry.shape for entry in twice.entries.values()] == [(2, 3), (2, 3)]
    assert read == []
    assert torch.equal(twice["x"], twice["y"])
