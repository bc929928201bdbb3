"""A task of a correction: what carries rows, and what is kept of the parents."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from transfuse.activations import Batches
from transfuse.corrections.task import Task


@pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM, nn.GRU])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    "elements",
    [([[1, 0, 0, 0], [0, 0, 0, 0], [0, 0, 2, 0]], [[0, 0], [0, 3], [0, 0]]),
     ([[1, 0, 0, 0.5], [0, 1, 0, 0], [0, 0, 1, 0]], [[1, 0], [1, 1], [0, 1]]),
     ([[0, 0, 0, 0]] * 3, [[1, 0], [0, 1], [1, 0]])],
    ids=["selected", "mixed", "all of one parent"],
)  # fmt: skip
def test_gates_that_are_carried_by_their_weights_are_the_mean_of_those_that_are_carried_themselves(
    kind, bias, elements
):
    torch.manual_seed(0)
    parents = [kind(2, units, bias=bias).double().eval() for units in (4, 2)]
    each = [torch.tensor(element).double() for element in elements]
    gates = [len(parent.weight_hh_l0) // parent.hidden_size for parent in parents]
    carry = [{"weight_hh_l0": torch.block_diag(*[element] * count)} for element, count in zip(each, gates, strict=True)]
    batches = Batches.of([torch.randn(5, 3, 2).double()])
    task = Task(kind(2, 3, bias=bias).double(), parents, [0.25, 0.75], batches, carry=carry)
    with torch.no_grad():
        sights = task.parents_sights(0, next(iter(batches)))
        (found,) = task.means_of(sights)["weight_hh_l0"]
        expected = sum(
            share * torch.cat([part @ element.T for part in seen.pre_activations.split(element.shape[1], -1)], -1)
            for share, element, (seen,) in zip(task.weights, each, sights, strict=True)
        )
    torch.testing.assert_close(found, expected)


class Reusing(nn.Linear):
    """Writes every output to the same memory, and counts how often it is run."""

    def __init__(self):
        super().__init__(3, 2)
        self.memory, self.runs = torch.zeros(10, 2), 0

    def forward(self, x):
        self.runs += 1
        return self.memory[: len(x)].copy_(super().forward(x))


def test_a_parent_is_run_once_on_each_batch_and_its_outputs_are_kept():
    parents = [Reusing(), Reusing()]
    x = torch.randn(50, 3)
    task = Task(nn.Linear(3, 2), parents, [0.5, 0.5], Batches.of(x, size=10))
    first = [outputs for _, outputs in task.parents_outputs()]
    again = [outputs for _, outputs in replace(task, network=nn.Linear(3, 2)).parents_outputs()]
    assert [parent.runs for parent in parents] == [5, 5]
    for one, other, inputs in zip(first, again, x.split(10), strict=True):
        for parent, (left,), (right,) in zip(parents, one, other, strict=True):
            torch.testing.assert_close(left, nn.functional.linear(inputs, parent.weight, parent.bias))
            assert left is right


def test_outputs_that_are_too_much_to_keep_are_computed_again(monkeypatch):
    monkeypatch.setattr("transfuse.corrections.task.MEMORY", 0)
    parent = Reusing()
    task = Task(nn.Linear(3, 2), [parent], [1.0], Batches.of(torch.randn(20, 3), size=10))
    for _ in range(2):
        list(task.parents_outputs())
    assert parent.runs == 2 * task.batches.count
