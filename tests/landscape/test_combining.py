"""Combinations of networks: exact at the networks, equal to a plain sum elsewhere, and nothing is touched."""

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from transfuse import InputError
from transfuse.landscape.combining import Family, combined

numbers = st.floats(-2, 2, allow_nan=False)


def draw(count, dtype=torch.float64):
    return [torch.randn(3, 4, generator=torch.Generator().manual_seed(seed)).to(dtype) for seed in range(count)]


@given(st.lists(numbers, min_size=1, max_size=4))
def test_a_combination_is_the_plain_sum(shares):
    shares = (*shares, 1 - sum(shares))
    tensors = draw(len(shares))
    expected = sum(share * tensor for share, tensor in zip(shares, tensors, strict=True))
    torch.testing.assert_close(combined(tensors, shares), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_it_is_exact_at_each_network_and_where_all_are_equal(dtype):
    tensors = draw(3, dtype)
    for number, tensor in enumerate(tensors):
        vertex = tuple(float(number == each) for each in range(3))
        assert torch.equal(combined(tensors, vertex).to(dtype), tensor)
    assert torch.equal(combined([tensors[0]] * 3, (0.1, 0.2, 0.7)).to(dtype), tensors[0])


def test_types_constants_and_variances_survive():
    first = {"w": torch.ones(2, dtype=torch.bfloat16), "running_var": torch.tensor([1.0]), "steps": torch.tensor(3)}
    second = {"w": torch.zeros(2, dtype=torch.bfloat16), "running_var": torch.tensor([3.0]), "steps": torch.tensor(3)}
    found = Family.of({"a": first, "b": second}).at((2.0, -1.0))
    assert found["w"].dtype == torch.bfloat16
    assert found["w"].tolist() == [2.0, 2.0]
    assert found["running_var"].tolist() == [0.0]  # not -1
    assert found["steps"] == 3


def test_the_networks_are_not_touched():
    one, other = (nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)).train() for _ in range(2))
    before = [copy.deepcopy(each.state_dict()) for each in (one, other)]
    found = Family.of({"a": one, "b": other}).at((0.5, 0.5))
    assert found is not one
    assert not found.training
    assert one.training
    for saved, network in zip(before, (one, other), strict=True):
        assert all(torch.equal(saved[name], tensor) for name, tensor in network.state_dict().items())


def test_all_differences_are_told_at_once():
    one = {"a": torch.ones(2), "b": torch.ones(3), "c": torch.tensor([1, 2])}
    two = {"a": torch.ones(4), "c": torch.tensor([2, 1]), "d": torch.ones(1)}
    with pytest.raises(InputError) as caught:
        Family.of({"one": one, "two": two})
    message = str(caught.value)
    for part in ("one has b", "two has d", "a is [2] in one and [4] in two", "c (torch.int64) holds other constants"):
        assert part in message


@pytest.mark.parametrize("networks", [{"a": 3}, {"a": nn.Linear(1, 1), "b": nn.Linear(1, 1).state_dict()}])
def test_what_is_no_network_or_of_two_kinds_is_refused(networks):
    with pytest.raises(InputError, match=r"expected a torch\.nn\.Module|all of them as one kind"):
        Family.of(networks)
