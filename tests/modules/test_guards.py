"""Guards: whatever is done in between, modules and random states are as they were."""

import random
import threading
import warnings

import numpy as np
import pytest
import torch
from torch import nn

import transfuse
from transfuse.modules import (
    evaluating,
    private_randomness,
    random_states_kept,
    seed_random_states,
    undisturbed,
    writes,
)


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
    seed_random_states(7)
    expected = drawn()
    seed_random_states(7)
    inside = []
    for _ in range(2):
        with private_randomness(3):
            inside.append(drawn())
    with private_randomness():
        drawn()
    assert inside[0] == inside[1]
    assert drawn() == expected


def test_random_states_go_on_where_they_were():
    seed_random_states(1)
    put_back = random_states_kept()
    first = drawn()
    put_back()
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
    seed_random_states(0)
    expected = drawn()
    seed_random_states(0)
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


def through_an_array(layer):
    layer.weight.detach().numpy()[:] = 0


def through_a_view(layer):
    layer.weight.detach().view(-1)[2:4].zero_()


def as_result(layer):
    torch.add(layer.weight, 1, out=layer.weight.data)


def each_of_several(layer):
    torch._foreach_mul_([layer.bias, layer.weight], 2.0)


def by_an_operation(layer):
    torch.ops.aten.mul_.Tensor(layer.weight, torch.tensor(3.0))


def by_initialising(layer):
    nn.init.normal_(layer.weight)


def through_a_capsule(layer):
    torch.from_dlpack(layer.weight.detach()).zero_()


def through_storage(layer):
    layer.weight.untyped_storage().fill_(0)


def in_statistics(layer):
    torch.batch_norm(torch.ones(3, 3), None, None, layer.weight[0], layer.weight[1], True, 0.1, 1e-5, False)


class _Scaling(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor):
        return tensor.mul_(2)


def inside_a_function(layer):
    _Scaling.apply(layer.weight.data)


WRITES = [
    normalise, clamp_data, other_memory, nothing, through_an_array, through_a_view, as_result, each_of_several,
    by_an_operation, by_initialising, through_a_capsule, through_storage, in_statistics, inside_a_function,
]  # fmt: skip


@pytest.mark.parametrize("briefly", [False, True])
@pytest.mark.parametrize("write", WRITES)
def test_parameters_that_a_forward_pass_writes_to_are_put_back(write, briefly):
    model = Writes(write)
    kept = model.layer.weight.data  # an alias that was made before, and that no operation counts as the parameter
    places = {name: (id(tensor), tensor.data_ptr()) for name, tensor in model.named_parameters()}
    numbers = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with undisturbed(model, briefly=briefly):
        model(torch.arange(4))
        kept.add_(1)
    for name, tensor in model.named_parameters():
        assert (id(tensor), tensor.data_ptr()) == places[name]
        assert torch.equal(tensor, numbers[name])


def test_scripted_code_is_not_watched_so_all_is_copied():
    class Scripted(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(3))

        def forward(self, x):
            return x * self.weight.mul_(2)

    model = nn.Sequential(torch.jit.script(Scripted()))
    with undisturbed(model, briefly=True):
        model(torch.ones(3))
    assert torch.equal(model[0].weight, torch.ones(3))


def test_a_write_that_nobody_could_watch_is_an_error():
    model = nn.Linear(2, 2)

    def write():
        with torch.no_grad():
            model.weight.mul_(2)

    def elsewhere():
        with undisturbed(model, briefly=True):
            thread = threading.Thread(target=write)
            thread.start()
            thread.join()

    with pytest.raises(transfuse.InputError, match=r"shape \[2, 2\], by code that cannot be watched .*check=False"):
        elsewhere()


def test_parameters_that_are_only_read_are_not_copied(monkeypatch):
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(8, 3), nn.LayerNorm(3))
    monkeypatch.setattr(writes._Before, "keep", lambda before: pytest.fail("a tensor was copied"))
    with undisturbed(net, briefly=True):
        net(torch.ones(1, 1, 4, 4))


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
