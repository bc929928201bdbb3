"""Guards: whatever is done in between, modules and random states are as they were."""

import random
import threading
import warnings

import numpy as np
import pytest
import torch
from torch import nn

import transfuse
from transfuse.modules import RandomStates, evaluating, private_randomness, undisturbed


def drawn():
    """One number of each random state."""
    return random.random(), float(np.random.rand()), float(torch.rand(()))


def mixed_modes():
    """A network one part of which is in evaluation mode."""
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout()).train()
    net[1].eval()
    return net


def modes(net):
    return [module.training for module in net.modules()]


def test_evaluation_mode_is_put_back_part_by_part_even_after_an_error():
    nets = [mixed_modes(), mixed_modes().eval()]
    before = [modes(net) for net in nets]
    with evaluating(*nets):
        assert not any(mode for net in nets for mode in modes(net))
    assert [modes(net) for net in nets] == before
    with pytest.raises(ZeroDivisionError), evaluating(*nets):
        _ = 1 / 0
    assert [modes(net) for net in nets] == before


def test_random_states_are_put_back_and_a_seed_gives_the_same_numbers():
    RandomStates.seed(7)
    expected = drawn()
    RandomStates.seed(7)
    inside = []
    for _ in range(2):
        with private_randomness(3):
            inside.append(drawn())
    with private_randomness():
        drawn()
    assert inside[0] == inside[1]
    assert drawn() == expected


def test_random_states_go_on_where_they_were():
    RandomStates.seed(1)
    states = RandomStates.now()
    first = drawn()
    states.put_back()
    assert drawn() == first


class Changes(nn.Module):
    """Changes itself when it is run."""

    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(()))
        self.norm, self.seen, self.kind = nn.BatchNorm1d(3), [], "new"

    def forward(self, x):
        self.count += 1
        self.seen.append(len(x))
        self.kind, self.more = "run", 3
        return self.norm(x) + torch.rand(())


@pytest.mark.parametrize("count", [1, 3])
def test_undisturbed_keeps_buffers_attributes_modes_and_random_states(count):
    models = [Changes().train() for _ in range(count)]
    numbers = [tensor.clone() for model in models for tensor in model.state_dict().values()]
    fast = torch.backends.mha.get_fastpath_enabled()
    RandomStates.seed(0)
    expected = drawn()
    RandomStates.seed(0)
    with undisturbed(*models):
        for model in models:
            assert not model.training
            assert not model(torch.randn(4, 3)).requires_grad
            assert model.kind == "run"
            drawn()
    assert drawn() == expected
    for model in models:
        assert (model.training, model.norm.training, model.seen, model.kind) == (True, True, [], "new")
        assert not hasattr(model, "more")
    after = [tensor for model in models for tensor in model.state_dict().values()]
    assert all(torch.equal(a, b) for a, b in zip(numbers, after, strict=True))
    assert torch.backends.mha.get_fastpath_enabled() == fast


def test_one_model_under_two_names_is_put_back_too():
    model = mixed_modes()
    before = modes(model)
    with undisturbed(model, model, model[1]):
        assert not any(modes(model))
    assert modes(model) == before


class Writes(nn.Module):
    """Writes to its own parameters when it is run."""

    def __init__(self, write):
        super().__init__()
        self.table = nn.Embedding(4, 3, max_norm=0.1)
        self.layer, self.write = nn.Linear(3, 2), write

    def forward(self, x):
        with torch.no_grad():
            self.write(self.layer)
        return self.layer(self.table(x))


def normalise(layer):
    layer.weight.div_(layer.weight.norm(dim=1, keepdim=True))


def clamp_data(layer):
    layer.weight.data.clamp_(-0.01, 0.01)


def other_memory(layer):
    layer.weight.data = layer.weight.data / 2


def nothing(layer):
    pass


@pytest.mark.parametrize("write", [normalise, clamp_data, other_memory, nothing])
def test_parameters_that_a_forward_pass_writes_to_are_put_back(write):
    model = Writes(write)
    places = {name: (id(tensor), tensor.data_ptr()) for name, tensor in model.named_parameters()}
    numbers = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with undisturbed(model):
        model(torch.arange(4))
    for name, tensor in model.named_parameters():
        assert (id(tensor), tensor.data_ptr()) == places[name]
        assert torch.equal(tensor, numbers[name])


@pytest.mark.parametrize("write", [normalise, clamp_data, nothing])
@pytest.mark.parametrize("recorder", [None, "eager"])
def test_tracing_leaves_such_parameters_as_they_were(write, recorder):
    model = Writes(write)
    numbers = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    transfuse.trace(model, torch.arange(4), recorder=recorder)
    assert all(torch.equal(tensor, numbers[name]) for name, tensor in model.state_dict().items())


def test_warnings_of_other_threads_are_heard_meanwhile():
    heard = []

    def other():
        with pytest.raises(UserWarning, match="from another thread"):
            warnings.warn("from another thread", UserWarning, stacklevel=1)
        heard.append(True)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with undisturbed(nn.Linear(2, 2)):
            warnings.warn("not heard, and no error", UserWarning, stacklevel=1)
            thread = threading.Thread(target=other)
            thread.start()
            thread.join()
        assert heard == [True]
        with pytest.raises(UserWarning, match="heard again"):
            warnings.warn("heard again", UserWarning, stacklevel=1)


def test_filters_that_another_thread_changes_meanwhile_stay_changed():
    with warnings.catch_warnings():
        before = list(warnings.filters)
        with undisturbed(nn.Linear(2, 2)):
            thread = threading.Thread(target=lambda: warnings.simplefilter("ignore", ResourceWarning))
            thread.start()
            thread.join()
        assert list(warnings.filters)[1:] == [each for each in before if each != warnings.filters[0]]
        assert warnings.filters[0][::2] == ("ignore", ResourceWarning, 0)
