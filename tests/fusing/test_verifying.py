"""What models have outside their states is compared by running them: what differs is an error that says what."""

import copy

import pytest
import torch
from torch import nn

import transfuse
from pairs import PAIRS, Caching, Net, Scaled, between, called, drawn
from transfuse import InputError, ProofError
from transfuse.fusing.comparing import differences
from transfuse.fusing.verifying import NOT_RUN
from zoo import ZOO

# A word of the sentence that says what differs, where it can be seen.
SAID = {
    "activation": "1 is ",
    "activation as an attribute": "act is ",
    "heads": "heads is ",
    "heads of attention": "self_attn.num_heads is",
    "buffer that is not saved": "shift, which is not in state_dict",
    "temperature": "temperature is 1.0 in model 1",
    "normalisation": "mean is 0.0 in model 1",
    "normalisation tensor": r"mean is a tensor \(5,\) of norm",
    "stride": "0.stride is ",
    "eps": "1.eps is ",
    "negative slope": "1.negative_slope is ",
    "layer in a list": r"hidden is \[Linear",
    "hook": "forward hooks of 1 is ",
    "tied": "two.weight is the same tensor as one.weight",
    "left out of state_dict": "scale, which is not in state_dict",
    "weights cached": "kept is ",
    "another class": "the network is ",
}


@pytest.mark.parametrize("kind", PAIRS)
def test_a_difference_outside_the_state_is_an_error_that_says_what_differs(kind):
    one, other, inputs = drawn(kind, 1)
    with pytest.raises(InputError, match="model 2") as caught:
        transfuse.fuse([one, other], inputs, restarts=0)
    if kind in SAID:
        caught.match(SAID[kind])


@pytest.mark.long
@pytest.mark.parametrize("kind", PAIRS)
def test_no_pair_that_differs_is_fused_in_silence(kind):
    """Five hundred of them in all kinds."""
    for seed in range(2, 2 + 500 // len(PAIRS) + 1):
        one, other, inputs = drawn(kind, seed)
        with pytest.raises(transfuse.FusionError):
            transfuse.fuse([one, other], inputs, restarts=0, correct="none")


@pytest.mark.long
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("seed", range(3))
def test_networks_that_differ_in_their_states_alone_raise_no_alarm(dtype, seed):
    for row in ZOO[seed::3]:
        models = []
        for number in range(2):
            torch.manual_seed(10 * seed + number)
            models.append(row.build().to(dtype))
        inputs = transfuse.modules.Arguments.of(row.inputs()).map(lambda x: x.to(dtype) if x.is_floating_point() else x)
        try:
            layout = transfuse.trace(models[0], inputs.args or dict(inputs.kwargs))
        except transfuse.FusionError:
            continue  # not a network for this type
        fusion = transfuse.fuse(models, inputs.args or dict(inputs.kwargs), layout=layout, restarts=0, correct="none")
        assert fusion.check.passes >= 3


def test_the_third_of_three_is_found():
    nets = [between(nn.ReLU()), between(nn.ReLU()), between(nn.Tanh())]
    with pytest.raises(InputError, match="model 3 differs from model 1") as caught:
        transfuse.fuse(nets, torch.randn(2, 5))
    caught.match("1 is ReLU in model 1 and Tanh in model 3")


def test_what_is_alike_passes_and_the_cost_is_told():
    torch.manual_seed(0)
    fusion = transfuse.fuse([between(nn.ReLU()), between(nn.ReLU())], torch.randn(2, 5), correct="none")
    assert len(fusion.check.aligned) == 2
    assert max(fusion.check.aligned) < 1e-5
    assert fusion.check.passes
    assert 0 < fusion.check.seconds < 10
    assert "forward passes" in str(fusion)
    assert NOT_RUN not in str(fusion)


@pytest.mark.parametrize(("method", "passes"), [("vanilla", 3), ("wb", 4), ("auto", 5)])
def test_no_network_is_run_without_need(method, passes):
    """Each model, the first with the state of the other, and aligned networks whose state is not their model's."""
    torch.manual_seed(0)
    fusion = transfuse.fuse([between(nn.ReLU()) for _ in range(2)], torch.randn(2, 5), method=method, correct="none")
    assert fusion.check.passes == passes


def test_dropout_of_another_rate_is_no_difference():
    models = [between(nn.ReLU(), nn.Dropout(p)) for p in (0.1, 0.5)]
    fusion = transfuse.fuse(models, torch.randn(2, 5), correct="none")
    assert fusion.check.passes
    assert all(share is not None for share in fusion.check.aligned)


def test_the_check_can_be_left_out_and_aligned_networks_are_copies_of_their_models():
    one, other, inputs = drawn("temperature", 3)
    fusion = transfuse.fuse([one, other], inputs, check=False)
    assert NOT_RUN in str(fusion)
    assert [each.temperature for each in fusion.aligned] == [one.temperature, other.temperature]
    with torch.no_grad():
        torch.testing.assert_close(fusion.aligned[1](inputs), other(inputs), rtol=1e-4, atol=1e-5)


def test_states_alone_say_that_nothing_was_run():
    one, other, inputs = drawn("activation", 0)
    states = transfuse.fuse_states([one.state_dict(), other.state_dict()], transfuse.trace(one, inputs))
    assert NOT_RUN in str(states)


def test_without_example_inputs_it_is_said_and_what_differs_too():
    one, other, inputs = drawn("negative slope", 0)
    fusion = transfuse.fuse([one, other], layout=transfuse.trace(one, inputs))
    assert "no example inputs" in fusion.check.note
    assert "1.negative_slope is" in fusion.check.note
    assert not fusion.check.passes


def test_a_layout_that_is_wrong_for_the_models_is_found_by_their_aligned_networks():
    nets = [between(nn.Tanh()) for _ in range(2)]
    inputs = torch.randn(4, 5)
    wrong = transfuse.parse(str(transfuse.trace(nets[0], inputs)).replace("signs", "scales"))
    with pytest.raises(ProofError, match="model 1 in the common order computes something else"):
        transfuse.fuse(nets, inputs, layout=wrong)


def test_models_of_other_widths_are_compared_too():
    inputs = torch.randn(2, 5)
    narrow = nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3))
    transfuse.fuse([between(nn.ReLU()), narrow], inputs, correct="none")
    with pytest.raises(InputError, match="1 is Tanh in model 1 and ReLU in model 2"):
        transfuse.fuse([between(nn.Tanh()), narrow], inputs, correct="none")


def test_soft_couplings_hide_no_difference():
    one, other, inputs = drawn("activation", 0)
    with pytest.raises(InputError, match="model 2 differs"):
        transfuse.fuse([one, other], inputs, method="wb", epsilon=0.1)


def test_an_offset_or_a_large_column_does_not_hide_a_difference():
    class Offset(Scaled):
        def forward(self, x):
            return super().forward(x) * torch.tensor([1.0, 1.0, 1e6])

    nets = [Offset(mean=0.0, spread=1.0, temperature=t) for t in (1.0, 1.0)]
    nets[1].act = lambda x: torch.relu(x) + 0.01 * (x > 0.3)
    with pytest.raises(InputError, match="act is "):
        transfuse.fuse(nets, torch.randn(8, 5))


def test_a_network_that_caches_weights_is_refused_before_its_first_call_too():
    with pytest.raises(transfuse.FusionError):
        transfuse.fuse([Caching(), Caching()], torch.randn(2, 5))


def test_a_model_that_does_not_run_on_the_example_is_named():
    class Picky(Net):
        def forward(self, x):
            raise ValueError("not on a Tuesday")

    with pytest.raises(InputError, match=r"model 2 \(Picky\) does not run on the example inputs: ValueError: not on"):
        transfuse.fuse([Net(), Picky()], torch.randn(2, 5))


def test_align_is_checked_too():
    one, other, inputs = drawn("eps", 0)
    with pytest.raises(InputError, match=r"1\.eps is"):
        transfuse.align(other, to=one, example_inputs=inputs)


def test_equal_modules_do_not_differ():
    for kind in PAIRS:
        one, _, _ = drawn(kind, 0)
        assert differences(one, copy.deepcopy(one)) == []
    assert called(Net()) is not None
