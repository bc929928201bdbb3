"""States of modules, and which names are one tensor."""

import pytest
import torch
from torch import nn

from transfuse.errors import InputError
from transfuse.modules import canonical_names, live_tensors, model_state, place_of, state_of, ties_of


class Tied(nn.Module):
    """Two layers with one weight, a buffer that is saved and one that is not."""

    def __init__(self):
        super().__init__()
        self.embed, self.read = nn.Embedding(4, 3), nn.Linear(3, 4)
        self.read.weight = self.embed.weight
        self.register_buffer("saved", torch.ones(2))
        self.register_buffer("unsaved", torch.ones(2), persistent=False)


def test_three_views_of_a_module():
    model = Tied()
    assert list(state_of(model)) == list(model_state(model)) == list(model.state_dict())
    assert set(live_tensors(model)) - set(model_state(model)) == {"unsaved"}
    assert model_state(model)["read.weight"] is model.embed.weight
    assert not state_of(model)["read.weight"].requires_grad
    assert state_of(model)["saved"].data_ptr() == model.saved.data_ptr()


def test_a_state_is_taken_as_it_is_and_anything_else_refused():
    weight = torch.ones(2, requires_grad=True)
    found = state_of({"w": weight, "epoch": 3})
    assert list(found) == ["w"]
    assert not found["w"].requires_grad
    with pytest.raises(InputError, match=r"a network is int; expected a torch\.nn\.Module or a state"):
        state_of(3)


@pytest.mark.parametrize("take", [state_of, model_state, nn.Module.state_dict])
def test_ties_are_found_in_every_view(take):
    state = take(Tied())
    assert ties_of(state) == {"read.weight": "embed.weight"}
    assert canonical_names(state) == {name: "embed.weight" if name == "read.weight" else name for name in state}


def test_what_shares_memory_without_being_the_same_is_no_tie():
    whole = torch.arange(12.0).reshape(3, 4)
    state = {
        "whole": whole, "again": whole.detach(), "part": whole[:2], "turned": whole.T, "flat": whole.flatten(),
        "other type": whole.view(torch.int32), "copy": whole.clone(), "empty": whole[:0], "empty too": whole[:0],
    }  # fmt: skip
    assert ties_of(state) == {"again": "whole"}
    assert place_of(whole[:0]) is None


def test_a_square_matrix_and_its_transpose_are_two():
    square = torch.ones(3, 3)
    assert ties_of({"a": square, "b": square.T}) == {}
