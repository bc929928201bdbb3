"""Tensors in outputs: wherever they are, they are found, in the same order each time; or the output is refused."""

import collections
import dataclasses
import types

import numpy as np
import pytest
import torch
from torch import nn
from torch.distributions import Categorical, Independent, MixtureSameFamily, Normal, TransformedDistribution
from torch.distributions.transforms import TanhTransform

import transfuse
from transfuse import InputError
from transfuse.modules import tensors_in

X = torch.linspace(-1, 1, 12).reshape(4, 3)


class Slots:
    __slots__ = ("__weakref__", "itself", "missing", "value")

    def __init__(self, value):
        self.value, self.itself = value, self


class Plain:
    def __init__(self, value):
        self.parts, self.itself = {"value": [value]}, [self]


@dataclasses.dataclass
class Record:
    value: object


class Policy(nn.Module):
    """Scores of four actions and a value; `pack` says how the scores are returned."""

    def __init__(self, pack):
        super().__init__()
        self.up, self.actor, self.critic = nn.Linear(3, 5), nn.Linear(5, 4), nn.Linear(5, 1)
        self.pack = pack

    def forward(self, x):
        hidden = torch.tanh(self.up(x))
        return self.pack(self.actor(hidden)), self.critic(hidden)


OBJECTS = {
    "categorical": lambda a: Categorical(logits=a),
    "normal": lambda a: Normal(a, a.exp()),
    "independent": lambda a: Independent(Normal(a, a.exp()), 1),
    "transformed": lambda a: TransformedDistribution(Normal(a, a.exp()), [TanhTransform(cache_size=1)]),
    "mixture": lambda a: MixtureSameFamily(Categorical(logits=a), Normal(a, a.exp())),
    "namespace": lambda a: types.SimpleNamespace(a=a),
    "slots": Slots,
    "plain object": Plain,
    "dataclass": Record,
    "array": lambda a: a.detach().numpy(),
    "array of objects": lambda a: np.array([None, a, "text"], dtype=object),
    "deque": lambda a: collections.deque([a]),
    "frozen mapping": lambda a: types.MappingProxyType({"a": a}),
    "list of numbers": lambda a: a.tolist(),
}


@pytest.mark.parametrize("pack", OBJECTS.values(), ids=OBJECTS)
def test_what_is_returned_inside_an_object_does_not_move(pack):
    torch.manual_seed(0)
    layout = transfuse.trace(Policy(pack), X)
    assert layout.units == {"up.out": 5}


@pytest.mark.parametrize("output", [None, 3, "text", torch.float32, nn.Linear(2, 2), len, lambda: 0, {1, 2}, object()])
def test_what_holds_no_tensors_is_passed_by(output):
    assert tensors_in([output, {"a": output}]) == []


def test_an_object_that_holds_a_module_or_itself_is_looked_into_once():
    whole = Plain(torch.ones(1))
    whole.module = nn.Linear(2, 2)
    whole.again = whole
    assert len(tensors_in(whole)) == 1
    assert len(tensors_in((whole, whole))) == 2


def test_what_cannot_be_looked_into_is_refused_with_what_to_do():
    with pytest.raises(InputError, match=r"returns generator, in which tensors cannot be seen; .*outputs="):
        transfuse.trace(Policy(lambda a: (row for row in a)), X)
    with pytest.raises(InputError, match="in a set, which has no order"):
        transfuse.trace(Policy(lambda a: {a}), X)


def test_the_user_may_say_what_counts_as_output():
    net = Policy(lambda a: {a})
    assert transfuse.trace(net, X, outputs=lambda result: [*result[0], result[1]]).units == {"up.out": 5}
    alone = transfuse.trace(net, X, outputs=lambda result: result[1])
    assert alone.units == {"up.out": 5}
    assert alone.fixed["actor.bias"] == {0: "has no effect on the outputs"}
    assert not net._forward_hooks
    fused = transfuse.fuse([net, net], X, outputs=lambda result: [*result[0], result[1]], correct="none")
    torch.testing.assert_close(fused.model(X)[1], net(X)[1])
