"""Inverted inputs: networks see the classes in them that were assigned, and are left as they were."""

import pytest
import torch
from torch import nn

from transfuse.modules import Arguments, undisturbed
from transfuse.synthetic import drawn_inputs, inverted_inputs
from zoo import named


def classifier(seed, inputs=6):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(inputs, 20), nn.Tanh(), nn.Linear(20, 4)).eval()


def noise_for(models, example, **options):
    return drawn_inputs(models, Arguments.of(example), samples=50, **options)


def assigned(batches):
    """The class of each sample, batch after batch."""
    count = len(batches.data[0][0][0])
    return [(number * count + torch.arange(count)) % 4 for number in range(batches.count)]


def test_every_network_sees_the_assigned_classes():
    models = [classifier(0, inputs=60), classifier(1, inputs=60)]
    noise = noise_for(models, torch.randn(3, 60))
    inverted = inverted_inputs(models, noise).batches

    def right(model, batches):
        seen = [batch.run(model).argmax(1) for batch in batches]
        return float((torch.cat(seen) == torch.cat(assigned(batches))).float().mean())

    assert max(right(model, noise) for model in models) < 0.5
    assert min(right(model, inverted) for model in models) > 0.9
    assert [batch.judges for batch in inverted] == [batch.judges for batch in noise]


def test_networks_with_other_outputs_are_asked_one_at_a_time():
    models = [classifier(0, inputs=60), classifier(1, inputs=60)]
    noise = noise_for(models, torch.randn(3, 60))
    inverted = inverted_inputs(models, noise, apart=True).batches
    assert inverted.count == 2 * noise.count
    for number, model in enumerate(models):
        right = torch.cat([batch.run(model).argmax(1) for batch in inverted]) == torch.arange(100) % 50 % 4
        mine = torch.arange(100) // 50 == number
        assert float(right[mine].float().mean()) > 0.9
        assert float(right[~mine].float().mean()) < 0.6


def test_recurrent_and_convolutional_networks_and_keyword_arguments():
    for name in ("lenet", "lstm", "named_inputs"):
        row = named(name)
        torch.manual_seed(0)
        model = row.build().eval()
        example = row.inputs()
        noise = noise_for([model], example)
        first = next(iter(noise)).run(model)
        inverted = inverted_inputs([model], noise).batches
        if not isinstance(first, torch.Tensor) or first.dim() != 2:
            assert inverted is None
            continue
        wanted = torch.arange(10) % first.shape[1]
        before, after = (
            float(nn.functional.cross_entropy(next(iter(each)).run(model).detach(), wanted))
            for each in (noise, inverted)
        )
        assert after < before


def test_networks_noise_and_random_states_are_left_alone():
    models = [classifier(0), classifier(1)]
    noise = noise_for(models, torch.randn(3, 6))
    before = [tensor.clone() for model in models for tensor in model.state_dict().values()]
    drawn = [args[0].clone() for args, _ in noise.data]
    random = torch.get_rng_state()
    first = inverted_inputs(models, noise).batches
    assert all(
        torch.equal(a, b) for a, b in zip(before, (x for m in models for x in m.state_dict().values()), strict=True)
    )
    assert all(parameter.grad is None and parameter.requires_grad for m in models for parameter in m.parameters())
    assert all(torch.equal(a, args[0]) for a, (args, _) in zip(drawn, noise.data, strict=True))
    assert torch.equal(random, torch.get_rng_state())
    again = inverted_inputs(models, noise).batches
    assert all(torch.equal(a[0][0], b[0][0]) for a, b in zip(first.data, again.data, strict=True))
    assert not any(args[0].requires_grad for args, _ in first.data)


def test_networks_that_write_to_their_inputs_and_weights_that_want_no_gradient():
    model = classifier(0)
    model.requires_grad_(requires_grad=False)
    written = nn.Sequential(nn.ReLU(inplace=True), model)
    found = inverted_inputs([written], noise_for([written], torch.randn(3, 6)))
    assert found.batches is not None
    assert found.why_not == ""


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_gradients_are_found_whatever_the_mode(mode):
    models = [classifier(0)]
    noise = noise_for(models, torch.randn(3, 6))
    with mode():
        assert inverted_inputs(models, noise).batches is not None


class Detached(nn.Module):
    def __init__(self):
        super().__init__()
        self.read = nn.Linear(6, 4)

    def forward(self, x):
        return self.read(x.detach())


class Overflows(Detached):
    def forward(self, x):
        return self.read(x) / 0


class Raises(Detached):
    def forward(self, x):
        if x.requires_grad:
            raise KeyError("gradients")
        return self.read(x)


@pytest.mark.parametrize(
    ("model", "example", "why"),
    [
        (nn.Linear(6, 1), torch.randn(3, 6), "no classes to see: what they give is of shape [10, 1], not"),
        (nn.RNN(6, 4), torch.randn(5, 2, 6), "no classes to see: what they give is of shape [5, 10, 4], not"),
        (nn.Sequential(nn.Embedding(9, 6), nn.Flatten(), nn.Linear(18, 4)), torch.tensor([[3, 1, 2]]),
         "no input holds floating-point numbers"),
        (Detached().requires_grad_(requires_grad=False), torch.randn(3, 6),
         "they cannot be run with gradients (RuntimeError: element 0 of tensors does not require grad"),
        (Raises(), torch.randn(3, 6), "they cannot be run with gradients (KeyError: 'gradients')"),
        (Overflows(), torch.randn(3, 6), "they give NaN or infinity"),
    ],
)  # fmt: skip
def test_where_nothing_can_be_inverted_the_cause_is_told(model, example, why):
    with undisturbed(model):
        found = inverted_inputs([model], noise_for([model], example))
    assert found.batches is None
    assert why in found.why_not
