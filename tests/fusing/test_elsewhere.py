"""States as others send them: whatever their form, the fusion is that of plain states; what cannot be is named."""

import numpy as np
import pytest
import torch
from torch import nn

import transfuse
from transfuse import InputError, LayoutError
from transfuse.fusing.elsewhere import received

STATISTICS = ("running_mean", "running_var")


def network(seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 3))


def states(count=2):
    return [network(seed).state_dict() for seed in range(count)]


LAYOUT = transfuse.trace(network(0), torch.zeros(2, 1, 8, 8))


def arrays(state):
    return {name: tensor.numpy() for name, tensor in state.items()}


def read_only(state):
    frozen = arrays({name: tensor.clone() for name, tensor in state.items()})
    for array in frozen.values():
        array.flags.writeable = False
    return frozen


FORMS = {
    "arrays by name": arrays,
    "read-only arrays": read_only,
    "arrays in another order": lambda state: dict(reversed(arrays(state).items())),
    "foreign byte order": lambda state: {
        name: array.astype(array.dtype.newbyteorder()) for name, array in arrays(state).items()
    },
    "a list of arrays": lambda state: list(arrays(state).values()),
    "a tuple of tensors": lambda state: tuple(state.values()),
    "without counts": lambda state: {name: each for name, each in state.items() if "num_batches" not in name},
    "a list without counts": lambda state: [each for name, each in arrays(state).items() if "num_batches" not in name],
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_every_form_gives_the_same_fusion(form):
    expected = transfuse.fuse_states(states(), LAYOUT)
    found = transfuse.fuse_states([form(state) for state in states()], LAYOUT)
    assert found.state.keys() == expected.state.keys()
    for name, tensor in expected.state.items():
        torch.testing.assert_close(found.state[name], tensor, rtol=0, atol=0)


def test_what_one_lacks_and_may_lack_is_left_out_of_all():
    one, other = states()
    other = {name: tensor for name, tensor in other.items() if not name.endswith(STATISTICS)}
    found = transfuse.fuse_states([one, other], LAYOUT, may_lack=STATISTICS)
    assert set(one) - set(found.state) == {"1.running_mean", "1.running_var"}
    assert not set(found.layout.tensors) & {"1.running_mean", "1.running_var"}
    listed = [array for name, array in arrays(one).items() if not name.endswith(STATISTICS)]
    again = transfuse.fuse_states([listed, other], LAYOUT, may_lack=STATISTICS)
    torch.testing.assert_close(again.state["0.weight"], found.state["0.weight"], rtol=0, atol=0)


def test_what_none_lacks_is_fused_even_if_it_may_be_lacked():
    found = transfuse.fuse_states(states(), LAYOUT, may_lack=STATISTICS)
    torch.testing.assert_close(found.state, transfuse.fuse_states(states(), LAYOUT).state)


def test_a_count_that_some_lack_is_that_of_the_first_who_has_it():
    one, other = states()
    del one["1.num_batches_tracked"]
    other["1.num_batches_tracked"] = torch.tensor(7)
    assert transfuse.fuse_states([one, other], LAYOUT).state["1.num_batches_tracked"] == 7
    del other["1.num_batches_tracked"]
    assert transfuse.fuse_states([one, other], LAYOUT).state["1.num_batches_tracked"] == 0


def test_what_must_not_be_lacked_is_an_error_that_names_it():
    lacking = {name: tensor for name, tensor in states()[1].items() if not name.endswith(STATISTICS)}
    with pytest.raises(LayoutError, match=r"state 2: tensor 1\.running_mean is missing"):
        transfuse.fuse_states([states()[0], lacking], LAYOUT)
    del lacking["0.weight"]
    with pytest.raises(LayoutError, match=r"state 2: tensor 0\.weight is missing"):
        transfuse.fuse_states([states()[0], lacking], LAYOUT, may_lack=STATISTICS)


def test_all_that_is_no_network_is_named_at_once():
    words = {**states()[0], "0.bias": np.array(["a", "b", "c", "d"]), "4.bias": np.array([None] * 3)}
    with pytest.raises(InputError) as error:
        transfuse.fuse_states([words, [np.zeros(3)] * 5], LAYOUT)
    told = str(error.value)
    assert "state 1: tensor 0.bias: it holds <U1; expected numbers; tensor 4.bias: it holds object" in told
    assert "state 2: it is a list of 5 arrays, but the layout has 9 or 8 tensors" in told


def test_nothing_that_was_given_is_changed_or_shared():
    given = [arrays({name: tensor.clone() for name, tensor in state.items()}) for state in states()]
    found = transfuse.fuse_states(given, LAYOUT, method="vanilla", weights=[1, 0])
    for tensor in found.state.values():
        tensor.zero_()
    for state, expected in zip(given, states(), strict=True):
        for name, tensor in expected.items():
            np.testing.assert_array_equal(state[name], tensor.numpy())


def test_tensors_of_a_plain_state_are_passed_on_as_they_are():
    own = states()[0]
    (found,), layout = received([own], LAYOUT)
    assert all(found[name] is tensor for name, tensor in own.items())
    assert layout is LAYOUT
