"""A task of a correction: what carries rows, and what is kept of the parents."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from transfuse.activations import Batches
from transfuse.corrections.task import Task, carried_along


@pytest.mark.parametrize("axis", [-1, -2, -3])
@pytest.mark.parametrize("rows", [[2, -1, 0], [1, 1, 2]], ids=["one row is zeros", "one row twice"])
def test_rows_that_are_gathered_are_those_of_the_product(axis, rows):
    matrix = torch.zeros(3, 4)
    for row, column in enumerate(rows):
        if column >= 0:
            matrix[row, column] = 0.5 + row
    values = torch.randn(4, 4, 4)
    expected = (values.movedim(axis, -1) @ matrix.T).movedim(-1, axis)
    torch.testing.assert_close(carried_along(matrix, values, axis), expected)
    mixed = matrix + torch.ones(3, 4)
    expected = (values.movedim(axis, -1) @ mixed.T).movedim(-1, axis)
    torch.testing.assert_close(carried_along(mixed, values, axis), expected)


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
