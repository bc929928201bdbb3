"""Fusion problems on networks of the zoo, in float64, for the tests of barycenters and methods."""

import copy
import functools

import numpy as np
import torch
from torch.utils import _pytree as pytree

import transfuse
from transfuse.barycenter import Plan, Problem
from transfuse.layout import Permutation, random_elements
from transfuse.modules import tensors_in
from zoo import call, named


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


@functools.cache
def sample(name):
    """A network in float64, its layout, its inputs."""
    model = another(name, 1)
    inputs = pytree.tree_map(lambda x: x.double() if x.is_floating_point() else x, named(name).inputs())
    return model, transfuse.trace(model, inputs, proof=False), inputs


def another(name, seed):
    """A network of a row, in float64, with random weights."""
    torch.manual_seed(seed)
    return named(name).build().double()


def outputs(model, inputs):
    """All numbers that a network gives."""
    with torch.no_grad():
        return [tensor for tensor in tensors_in(call(model, inputs)) if tensor.is_floating_point()]


def assert_same_function(one, other, inputs):
    """Two networks give the same numbers, to 1e-5."""
    for a, b in zip(outputs(one, inputs), outputs(other, inputs), strict=True):
        torch.testing.assert_close(b, a, rtol=1e-5, atol=1e-7)


def with_weights(model, state):
    """A copy of a network with another state."""
    twin = copy.deepcopy(model)
    twin.load_state_dict(state)
    return twin


def moved_twin(model, layout, seed, *, symmetries=True):
    """The same function with its units elsewhere, negated and scaled where their spaces allow."""
    elements = random_elements(layout, layout.units, np.random.default_rng(seed), symmetries=symmetries)
    return with_weights(model, transfuse.permute(model.state_dict(), layout, elements))


def random_couplings(problem, seed, *, soft):
    """Random permutations, signed where the space allows it, as indices or as matrices."""
    rng = np.random.default_rng(seed)
    couplings = {}
    for name, width in problem.widths.items():
        sign = torch.from_numpy(rng.choice([-1.0, 1.0], width))
        permuted = Permutation(
            torch.from_numpy(rng.permutation(width)), sign if problem.layout[name].signs else sign.abs()
        )
        couplings[name] = Plan(permuted.matrices) if soft else permuted
    return couplings
