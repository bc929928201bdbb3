"""A network in the order of another one: it computes the same, and comes nearer."""

import pytest
import torch
from torch import nn

import transfuse
from transfuse import InputError
from zoo_problems import another, assert_same_function, moved_twin, sample


def two_layers():
    return nn.Sequential(nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, 4))


def test_align_gives_the_same_function_closer_to_the_reference():
    model, layout, inputs = sample("lenet")
    other = another("lenet", 3)
    twin = transfuse.align(other, to=model, layout=layout)
    assert_same_function(other, twin, inputs)

    def distance(one, two):
        pairs = zip(one.parameters(), two.parameters(), strict=True)
        return sum(float((a - b).detach().square().sum()) for a, b in pairs)

    balanced = transfuse.fuse([model], layout=layout).model
    assert distance(balanced, twin) < distance(balanced, other)


@pytest.mark.long
@pytest.mark.parametrize("method", [name for name, row in transfuse.METHODS.items() if name != "activation"])
def test_align_finds_a_moved_twin_by_any_method_that_can_and_never_changes_what_it_computes(method):
    torch.manual_seed(0)
    model, inputs = two_layers(), torch.randn(3, 5)
    order = torch.randperm(6)
    twin = two_layers()
    own = model.state_dict()
    twin.load_state_dict({"0.weight": own["0.weight"][order], "0.bias": own["0.bias"][order],
                          "2.weight": own["2.weight"][:, order], "2.bias": own["2.bias"]})  # fmt: skip
    aligned = transfuse.align(twin, to=model, example_inputs=inputs, method=method)
    torch.testing.assert_close(aligned(inputs), twin(inputs))
    if method != "vanilla":
        torch.testing.assert_close(aligned[0].weight, model[0].weight)


def test_align_takes_data_and_refuses_methods_that_mix_units():
    torch.manual_seed(0)
    model, other, inputs = two_layers(), two_layers(), torch.randn(30, 5)
    by_data = transfuse.align(other, to=model, example_inputs=inputs, method="activation", data=inputs)
    torch.testing.assert_close(by_data(inputs), other(inputs))
    with pytest.raises(InputError, match="mixes units here"):
        transfuse.align(other, to=model, example_inputs=inputs, method="wb", epsilon=0.5)


@pytest.mark.parametrize("name", ["lenet", "lstm"])
def test_midway_to_the_aligned_network_is_the_fused_one_whatever_scales_the_reference_has(name):
    model, layout, inputs = sample(name)
    reference, other = moved_twin(model, layout, 4), another(name, 3)
    twin = transfuse.align(other, to=reference, layout=layout)
    own, moved = reference.state_dict(), twin.state_dict()
    middle = {key: (own[key] + moved[key]) / 2 if own[key].is_floating_point() else own[key] for key in own}
    fused = transfuse.fuse([reference, other], layout=layout, correct="none").model
    reference.load_state_dict(middle)
    assert_same_function(fused, reference, inputs)


def test_running_statistics_do_not_decide_which_units_belong_together():
    def network():
        return nn.Sequential(nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.Flatten(), nn.Linear(216, 4)).eval()

    torch.manual_seed(0)
    model, other, images = network(), network(), torch.randn(2, 3, 8, 8)
    before = transfuse.fuse([model, other], images, correct="none", terms="weights").couplings[1]
    for norm, order in ((model[1], 1), (other[1], -1)):
        norm.running_var.copy_(order * torch.linspace(-40, 40, 6) + 50)
    after = transfuse.fuse([model, other], images, correct="none", terms="weights").couplings[1]
    assert all(torch.equal(before[space], after[space]) for space in before)
