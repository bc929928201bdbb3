"""Moving along an axis: what is gathered is what a product of matrices gives."""

import pytest
import torch

from transfuse.layout.moving import mixed_along


@pytest.mark.parametrize("axis", [-1, -2, -3, 0, 1])
@pytest.mark.parametrize("rows", [[2, -1, 0], [1, 1, 2]], ids=["one row is zeros", "one row twice"])
def test_rows_that_are_gathered_are_those_of_the_product(axis, rows):
    matrix = torch.zeros(3, 4)
    for row, column in enumerate(rows):
        if column >= 0:
            matrix[row, column] = 0.5 + row
    values = torch.randn(4, 4, 4)
    expected = (values.movedim(axis, -1) @ matrix.T).movedim(-1, axis)
    torch.testing.assert_close(mixed_along(matrix, values, axis), expected)
    mixed = matrix + torch.ones(3, 4)
    expected = (values.movedim(axis, -1) @ mixed.T).movedim(-1, axis)
    torch.testing.assert_close(mixed_along(mixed, values, axis), expected)
