"""Couplings to start from: what an earlier fusion found is found again, at once; what does not fit is named."""

import numpy as np
import pytest
import torch

import transfuse
from transfuse import InputError
from transfuse.layout import random_elements
from zoo_problems import layout_of, states_of

NETWORKS = ("mlp_tanh", "lenet", "lstm")


@pytest.mark.parametrize("name", NETWORKS)
def test_a_fusion_from_its_own_couplings_is_that_fusion_without_a_search(name):
    layout, states = layout_of(name), states_of(name, 3)
    first = transfuse.fuse_states(states, layout)
    stages = []
    again = transfuse.fuse_states(
        states, layout, couplings=first.couplings, progress=lambda stage, done, total: stages.append(stage)
    )
    assert all("start 1 of 1" in stage for stage in stages)
    assert again.history[-1].objective <= first.history[-1].objective * (1 + 1e-9)
    for key, tensor in first.state.items():
        torch.testing.assert_close(again.state[key], tensor)


@pytest.mark.parametrize("name", NETWORKS)
def test_vanilla_along_couplings_of_a_twin_gives_the_network_back(name):
    layout, (state, *_) = layout_of(name), states_of(name, 1)
    elements = random_elements(layout, layout.units, np.random.default_rng(0), symmetries=False)
    twin = transfuse.permute(state, layout, elements)
    back = {space: element.inverse().signed for space, element in elements.items()}
    stay = {space: torch.eye(width) for space, width in layout.units.items()}
    found = transfuse.fuse_states([state, twin], layout, method="vanilla", couplings=[stay, back])
    alone = transfuse.fuse_states([twin], layout, method="vanilla", couplings=[back])
    for key, tensor in state.items():
        torch.testing.assert_close(found.state[key], tensor)
        torch.testing.assert_close(alone.state[key], tensor)


def test_matrices_and_records_of_couplings_are_the_same():
    layout, states = layout_of("mlp_tanh"), states_of("mlp_tanh", 2)
    widths = {layout.spaces[0].name: layout.spaces[0].units + 3}
    found = transfuse.fuse_states(states, layout, widths=widths).couplings
    plain = [{space: own[space] for space in own} for own in found]
    one, other = (
        transfuse.fuse_states(states, layout, widths=widths, method="vanilla", couplings=each).state
        for each in (found, plain)
    )
    torch.testing.assert_close(one, other, rtol=0, atol=0)


def test_a_model_without_known_couplings_is_still_searched_for():
    layout, states = layout_of("mlp_tanh"), states_of("mlp_tanh", 3)
    first = transfuse.fuse_states(states, layout)
    elements = random_elements(layout, layout.units, np.random.default_rng(1), symmetries=False)
    moved = transfuse.permute(states[2], layout, elements)
    again = transfuse.fuse_states([*states[:2], moved], layout, couplings=[*first.couplings[:2], None])
    assert again.history[-1].objective <= first.history[-1].objective * 1.001


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda own: own.pop("0.out"), r"model 1: space 0\.out has no coupling"),
        (lambda own: own.update({"0.out": torch.eye(2)}), r"space 0\.out has a matrix of shape \[2, 2\]"),
        (lambda own: own.update({"0.out": 2 * own["0.out"]}), r"space 0\.out has rows that do not sum to 1"),
        (lambda own: own.update({"0.out": -own["0.out"]}), r"space 0\.out has negative entries"),
    ],
)
def test_couplings_that_do_not_fit_are_named(change, message):
    net = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.ReLU(), torch.nn.Linear(5, 2))
    layout = transfuse.trace(net, torch.zeros(1, 3))
    own = {"0.out": torch.eye(5)}
    change(own)
    with pytest.raises(InputError, match=message):
        transfuse.fuse_states([net.state_dict()] * 2, layout, couplings=[own] * 2)
    with pytest.raises(InputError, match="3 couplings for 2 states"):
        transfuse.fuse_states([net.state_dict()] * 2, layout, couplings=[own] * 3)


def test_couplings_with_rotations_cannot_be_started_from():
    layout, states = layout_of("transformer_pre_norm"), states_of("transformer_pre_norm", 2)
    first = transfuse.fuse_states(states, layout)
    assert first.rotated
    with pytest.raises(InputError, match=r"was rotated, or mixed inside of its units; give None for this model"):
        transfuse.fuse_states(states, layout, couplings=first.couplings)
    again = transfuse.fuse_states(states, layout, couplings=[None, None])
    assert again.history[-1].objective == pytest.approx(first.history[-1].objective)
