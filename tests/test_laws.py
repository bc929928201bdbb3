"""Laws of fusing: for networks of the zoo and copies, weights and orders that hypothesis draws.

By default a law is tried on some networks; the marked run goes over all of them.
"""

from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils import _pytree as pytree

import transfuse
from transfuse import Permutation, Rotation
from transfuse.layout import Framed, random_elements
from transfuse.lazy import as_lazy
from zoo import ZOO, call
from zoo_problems import another, assert_same_function, moved_twin, sample, states_of, with_weights

NAMES = [row.name for row in ZOO]
SYMMETRIC = ("auto", "rebasin", "c2m3")  # their models are all alike; the others have a first one

METHODS = [name for name in transfuse.METHODS if name != "activation"]  # which needs data

networks = st.sampled_from(NAMES)
seeds = st.integers(0, 10**6)
methods = st.sampled_from(METHODS)
some = settings(max_examples=10)


def law(check, *candidates):
    """Two tests of a law `check(name, seed, method)`: one that draws, and a long one over all networks and methods."""

    @some
    @given(name=networks, seed=seeds, method=st.sampled_from(candidates))
    def drawn(name, seed, method):
        check(name, seed, method)

    @pytest.mark.long
    @pytest.mark.parametrize("method", candidates)
    @pytest.mark.parametrize("name", NAMES)
    def all_of_the_zoo(name, method):
        check(name, 0, method)

    return drawn, all_of_the_zoo


def fused(states, layout, **options):
    return transfuse.fuse_states(states, layout, **options)


def a_moved_negated_scaled_copy_changes_nothing(name, seed, method):
    model, layout, inputs = sample(name)
    twin = moved_twin(model, layout, seed)
    assert_same_function(model, transfuse.fuse([model, twin], layout=layout, method=method).model, inputs)


test_copies, test_copies_everywhere = law(a_moved_negated_scaled_copy_changes_nothing, "auto")


def aligned_networks_are_their_inputs(name, seed, method):
    model, layout, inputs = sample(name)
    other = another(name, seed)
    fusion = transfuse.fuse([model, other], layout=layout, method=method)
    for parent, aligned in zip((model, other), fusion.aligned, strict=True):
        assert_same_function(parent, aligned, inputs)
    for couplings in fusion.couplings:
        for space, matrix in couplings.items():
            identity = torch.eye(len(matrix), dtype=matrix.dtype)
            torch.testing.assert_close(matrix @ matrix.T, identity)
            if not layout[space].rotations:
                torch.testing.assert_close(matrix.abs().sum(1), identity.sum(1))


test_aligned, test_aligned_everywhere = law(aligned_networks_are_their_inputs, *METHODS)


def the_objective_never_rises(name, seed, method):
    layout = sample(name)[1]
    states = [another(name, seed + number).state_dict() for number in range(2 + seed % 2)]
    found = fused(states, layout, method=method, seed=seed)
    objectives = [step.objective for step in found.history]
    assert all(after <= before * (1 + 1e-9) + 1e-12 for before, after in pairwise(objectives))
    assert found.status == "converged"


test_objective, test_objective_everywhere = law(the_objective_never_rises, "auto", "rebasin")


def the_last_objective_is_that_of_the_result(name, seed, method):
    layout = sample(name)[1]
    states = [another(name, seed + number).state_dict() for number in range(2 + seed % 2)]
    found = fused(states, layout, method=method, seed=seed)
    moving = [name for name, axes in layout.tensors.items() if any(axis.spaces for axis in axes)]
    apart = sum(
        weight * float((found.state[name] - aligned[name]).double().square().sum())
        for weight, aligned in zip(found.weights, found.aligned, strict=True)
        for name in moving
        if aligned[name].is_floating_point()
    )
    assert found.history[-1].objective == pytest.approx(apart, rel=1e-5, abs=1e-10)


test_last, test_last_everywhere = law(the_last_objective_is_that_of_the_result, "ot", "wb")


def the_order_of_the_models_does_not_matter(name, seed, method):
    model, layout, inputs = sample(name)
    states = [another(name, seed + number).state_dict() for number in range(2 + seed % 2)]
    order = np.random.default_rng(seed).permutation(len(states))[::-1]
    shares = 1 + np.random.default_rng(seed).random(len(states))
    one = fused(states, layout, method=method, weights=shares)
    other = fused([states[i] for i in order], layout, method=method, weights=shares[order])
    assert other.history[-1].objective == pytest.approx(one.history[-1].objective, rel=1e-9)
    assert_same_function(with_weights(model, one.state), with_weights(model, other.state), inputs)


test_order, test_order_everywhere = law(the_order_of_the_models_does_not_matter, *SYMMETRIC)


def all_the_weight_on_one_model_returns_it(name, seed, method):
    model, layout, inputs = sample(name)
    other = another(name, seed)
    weights, chosen = (([1, 0], model), ([0, 2], other))[seed % 2]
    fusion = transfuse.fuse([model, other], layout=layout, weights=weights, method=method)
    assert_same_function(chosen, fusion.model, inputs)


test_weight_one, test_weight_one_everywhere = law(all_the_weight_on_one_model_returns_it, *METHODS)


def wb_gwb_and_ot_agree(name, seed, method):
    """GWB without a repeated space is WB; exact WB from a base model of the target's widths is OT fusion, squared."""
    layout = sample(name)[1]
    states = [another(name, seed + number).state_dict() for number in range(2)]
    ot, other = (fused(states, layout, method=each).couplings[1] for each in ("ot", method))
    twice = any(
        sum(space.name in axis.spaces for axis in axes) > 1
        for axes in layout.tensors.values()
        for space in layout.spaces
    )
    for space, matrix in ot.items():
        assert (twice and method == "gwb") or torch.equal(other[space], matrix)


test_wb, test_wb_everywhere = law(wb_gwb_and_ot_agree, "wb", "gwb")

# Layer by layer, a copy is found where what comes in tells all units apart; jointly, where coordinate ascent does not
# end early. Neither is certain, so these are networks on which it was seen to hold.
FOUND_BY_ALL = ("mlp", "mlp_tanh", "lenet", "vgg", "mlp_batch_norm", "densenet", "lstm", "gru")


@some
@given(name=st.sampled_from(FOUND_BY_ALL), seed=seeds, method=methods.filter(lambda m: m != "vanilla"))
def test_every_method_finds_a_permuted_copy_on_plain_networks(name, seed, method):
    model, layout, inputs = sample(name)
    twin = moved_twin(model, layout, seed, symmetries=False)
    assert_same_function(model, transfuse.fuse([model, twin], layout=layout, method=method).model, inputs)


@some
@given(name=networks, seed=seeds, count=st.integers(3, 4))
def test_several_copies_are_one_network(name, seed, count):
    model, layout, inputs = sample(name)
    twins = [moved_twin(model, layout, seed + number) for number in range(count - 1)]
    assert_same_function(model, transfuse.fuse([model, *twins], layout=layout).model, inputs)


def test_several_models_agree_more_after_fusing_than_before():
    layout = sample("mlp_tanh")[1]
    states = states_of("mlp_tanh", 5)
    plain = fused(states, layout, method="vanilla").history[-1].objective
    for method in ("ot", "wb", "fedma", "c2m3", "rebasin", "auto"):
        assert fused(states, layout, method=method).history[-1].objective < plain


def test_the_same_seed_gives_the_same_result():
    layout = sample("lstm")[1]
    first, second = (fused(states_of("lstm", 3), layout, seed=7).state for _ in range(2))
    assert all(torch.equal(first[key], second[key]) for key in first)


# Units that rotate, heads that are shuffled, and what is inside of them mixed by any matrices: found by weights alone,
# and by activations.
ROTATING = ("transformer_pre_norm", "vision_transformer", "llama", "embedding_tied", "cross_attention")


@settings(max_examples=5)
@given(
    name=st.sampled_from(ROTATING), seed=seeds, method=st.sampled_from(["auto", "procrustes"]), by_data=st.booleans()
)
def test_a_rotated_copy_with_its_heads_mixed_inside_is_found(name, seed, method, by_data):
    model, layout, inputs = sample(name)
    assert layout.rotating
    twin = moved_twin(model, layout, seed)
    data = {"data": [inputs], "forward": call} if by_data and method == "auto" else {}
    fusion = transfuse.fuse([model, twin], layout=layout, method=method, correct="none", **data)
    assert_same_function(model, fusion.model, inputs)
    for aligned in fusion.aligned:
        assert_same_function(model, aligned, inputs)
    assert all(bool((fusion.model.state_dict()[fold.gain] == 1).all()) for fold in layout.folds)


def twenty(inputs):
    """Twenty inputs like an example, drawn anew: normal floats, tokens of the range that the example has."""
    rng = torch.Generator().manual_seed(7)

    def drawn(example):
        shape = (20, *example.shape[1:])
        if example.is_floating_point():
            return torch.randn(shape, generator=rng, dtype=example.dtype)
        return torch.randint(int(example.max()) + 1, shape, generator=rng)

    return pytree.tree_map(drawn, inputs)


def rotated_shuffled_and_mixed(model, layout, seed):
    """Copies that compute the same: streams rotated; heads shuffled; heads mixed inside; all of it, and units moved."""
    every = random_elements(layout, layout.units, np.random.default_rng(seed))
    streams = {name: each for name, each in every.items() if isinstance(each, Rotation)}
    heads = {name: each for name, each in every.items() if isinstance(each, Framed)}
    shuffled = {name: each.permutation for name, each in heads.items()}
    mixed = {name: replace(each, permutation=Permutation(range(each.width))) for name, each in heads.items()}
    chosen = [each for each in (streams, shuffled, mixed) if each]
    return [with_weights(model, transfuse.permute(model.state_dict(), layout, each)) for each in (*chosen, every)]


BY = {  # what the copies are found by
    "weights": {"terms": "weights"},
    "20 inputs": {},  # by default weights count beside the activations
    "activations of 20 inputs": {"terms": "activations"},
}
QUICK = {("llama", "none"), ("embedding_tied", "none"), ("embedding_tied", None)}


def copied():
    """Networks, what they are found by, and corrections; None: the default, which takes most of the time."""
    for name, by, correct in product(ROTATING, BY, ("none", None)):
        quick = (name, correct) in QUICK or (name, by, correct) == ("llama", "20 inputs", None)
        yield pytest.param(name, by, correct, marks=() if quick else pytest.mark.long)


@pytest.mark.parametrize(("name", "by", "correct"), list(copied()))
def test_copies_that_are_rotated_shuffled_and_mixed_are_the_network(name, by, correct):
    """To 1e-5 and on inputs that were not given, by weights alone and by 20 inputs, corrected as by default or not."""
    model, layout, inputs = sample(name)
    copies = rotated_shuffled_and_mixed(model, layout, 0)
    data = {} if by == "weights" else {"data": [twenty(inputs)], "forward": call}
    fusion = transfuse.fuse([model, *copies], inputs, layout=layout, correct=correct, **BY[by], **data)
    for each in (fusion.model, *fusion.aligned):
        assert_same_function(model, each, inputs)


@settings(max_examples=3)
@given(name=st.sampled_from(ROTATING), seed=seeds)
def test_an_aligned_network_has_the_norms_the_scale_and_the_directions_of_the_reference(name, seed):
    model, layout, _ = sample(name)
    twin = transfuse.align(moved_twin(model, layout, seed), to=model, layout=layout)
    for key, tensor in model.state_dict().items():
        torch.testing.assert_close(twin.state_dict()[key], tensor, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("method", ["rebasin", "wb", "c2m3", "ot"])
def test_methods_that_do_not_rotate_leave_norms_as_they_are(method):
    model, layout, _ = sample("llama")
    states = [model.state_dict(), another("llama", 3).state_dict()]
    found = fused(states, layout, method=method)
    assert not transfuse.METHODS[method].rotations
    assert found.rotated == ()
    assert all(torch.equal(found.aligned[0][fold.gain], states[0][fold.gain]) for fold in layout.folds)


def test_lazy_states_are_rotated_as_plain_ones_are():
    model, layout, _ = sample("llama")
    states = [model.state_dict(), another("llama", 2).state_dict()]
    plain = fused(states, layout)
    lazy = fused([as_lazy(state) for state in states], layout)
    assert plain.rotated == lazy.rotated == layout.rotating
    for name, tensor in plain.state.items():
        torch.testing.assert_close(lazy.state[name], tensor)


def test_one_model_keeps_its_norms():
    model, layout, _ = sample("transformer_pre_norm")
    found = fused([model.state_dict()], layout)
    assert found.rotated == ()
    assert all(torch.equal(found.state[fold.gain], model.state_dict()[fold.gain]) for fold in layout.folds)
