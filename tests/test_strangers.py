"""Networks as strangers write them are traced, aligned, fused and corrected without data."""

import functools

import pytest
import torch
from torch.utils import _pytree as pytree

import transfuse
from strangers import STRANGERS, named, outputs
from zoo_problems import moved_twin

# Edges of a graph are not made up, nor texts of classifiers with convolutions: these are corrected by data only.
NOT_MADE_UP = {"sparse_adjacency": "sparse", "text_convolutions": "pass data="}


def some(every):
    """One network in so many by default, and all of them if what is `long` is run."""
    return pytest.mark.parametrize("name", [
        pytest.param(row.name, marks=[pytest.mark.long] * (number % every > 0)) for number, row in enumerate(STRANGERS)
    ])  # fmt: skip


def network(name, seed):
    torch.manual_seed(seed)
    return named(name).build().double()


def inputs_of(name):
    return pytree.tree_map_only(
        torch.Tensor, lambda x: x.double() if x.is_floating_point() else x, named(name).inputs()
    )


@functools.cache
def layout_of(name):
    """The layout, proved by moving units."""
    return transfuse.trace(network(name, 0), inputs_of(name))


def assert_same_function(name, one, other):
    pairs = zip(*(outputs(named(name), model, inputs_of(name)) for model in (one, other)), strict=True)
    for a, b in pairs:
        torch.testing.assert_close(b, a, rtol=1e-5, atol=1e-7)


def test_there_are_many():
    assert len({row.name for row in STRANGERS}) == len(STRANGERS) >= 25


@some(3)
def test_units_are_found(name):
    model, layout = network(name, 0), layout_of(name)
    assert layout.spaces
    assert layout.movable(model.state_dict()) > 0.3
    assert_same_function(name, model, moved_twin(model, layout, 0))


@some(3)
def test_aligned_networks_compute_what_the_models_do(name):
    models = [network(name, seed) for seed in (1, 2)]
    fusion = transfuse.fuse(models, inputs_of(name), layout=layout_of(name), correct="none")
    for model, aligned in zip(models, fusion.aligned, strict=True):
        assert_same_function(name, model, aligned)


@some(3)
def test_a_permuted_twin_changes_nothing(name):
    model, layout = network(name, 1), layout_of(name)
    models = [model, moved_twin(model, layout, 0)]
    assert_same_function(name, model, transfuse.fuse(models, inputs_of(name), layout=layout, correct="none").model)


@pytest.mark.long
@some(4)  # a correction takes up to a second
def test_a_correction_is_made_without_data(name):
    models = [network(name, seed).float() for seed in (1, 2)]
    fusion = transfuse.fuse(models, named(name).inputs(), layout=layout_of(name))
    if name in NOT_MADE_UP:
        assert NOT_MADE_UP[name] in fusion.correction.note
        return
    assert fusion.correction.disagreement, fusion.correction
    assert "Error" not in str(fusion.correction), "a cause that should not be"
    for tensor in outputs(named(name), fusion.model, named(name).inputs()):
        assert tensor.isfinite().all()


def test_a_fused_network_keeps_its_masks():
    models = [network("masked_layers", seed) for seed in (1, 2)]
    for parameter in (each for model in models for each in model.parameters()):
        parameter.data *= 4  # so that weights count more than masks
    fused = transfuse.fuse(models, inputs_of("masked_layers"), correct="none").model
    assert torch.equal(fused.mask1, models[0].mask1)
    dependence = torch.autograd.functional.jacobian(fused, inputs_of("masked_layers")[0])
    assert not dependence.triu().any()  # each output depends on inputs before it


def test_masks_that_differ_are_refused():
    models = [network("masked_layers", seed) for seed in (1, 2)]
    models[1].mask1 = 1 - models[1].mask1
    with pytest.raises(transfuse.InputError, match="model 2: mask1"):
        transfuse.fuse(models, inputs_of("masked_layers"))


class PassedOn(torch.nn.Module):
    """The recurrent network of a tutorial: its hidden state goes in and comes out."""

    def __init__(self):
        super().__init__()
        self.i2h, self.h2h, self.h2o = torch.nn.Linear(6, 8), torch.nn.Linear(8, 8), torch.nn.Linear(8, 3)

    def forward(self, x, hidden):
        hidden = torch.tanh(self.i2h(x) + self.h2h(hidden))
        return self.h2o(hidden), hidden


def test_that_nothing_can_be_matched_is_told():
    models, inputs = [PassedOn(), PassedOn()], (torch.randn(4, 6), torch.randn(4, 8))
    with pytest.warns(transfuse.TraceWarning, match="no unit of these networks can move(.|\\n)*i2h.weight, axis 0"):
        fusion = transfuse.fuse(models, inputs, correct="none")
    assert "spaces: none: no unit can move" in str(fusion)
    transfuse.fuse(models, inputs, method="vanilla")  # who asks for an average is not warned of one


@pytest.mark.parametrize("name", ["text_convolutions", "tokens_as_channels", "bags_of_words"])
def test_kernels_and_bags_grow(name):
    model, layout = network(name, 1), layout_of(name)
    grown = transfuse.fuse([model], inputs_of(name), layout=layout, target=2.0, correct="none").model
    assert layout.widths(grown.state_dict()) == {space: 2 * units for space, units in layout.units.items()}
    assert_same_function(name, model, grown)
