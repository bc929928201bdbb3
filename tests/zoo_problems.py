"""Fusion problems on networks of the zoo, in float64, for the tests of barycenters and methods."""

import functools

import torch

import transfuse
from transfuse.barycenter import Problem
from zoo import named


@functools.cache
def states_of(name, count):
    """States of networks of one row, with different random weights."""
    states = []
    for seed in range(count):
        torch.manual_seed(seed)
        states.append({key: value.double() for key, value in named(name).build().state_dict().items()})
    return tuple(states)


@functools.cache
def layout_of(name):
    """The traced layout of a row."""
    return transfuse.trace(named(name).build(), named(name).inputs(), proof=False)


def problem_of(name, states):
    """These states with equal weights, into a target of their widths."""
    layout = layout_of(name)
    return Problem(states, layout, [1 / len(states)] * len(states), layout.units)
