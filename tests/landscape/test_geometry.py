"""A frame is orthonormal, and a projection is the least-squares one."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from transfuse import InputError
from transfuse.landscape import Family, Frame, cosines


def state(seed, scale=1.0):
    generator = torch.Generator().manual_seed(seed)
    draw = [scale * torch.randn(shape, generator=generator, dtype=torch.float64) for shape in ((4, 3), (5,))]
    return {"a": draw[0], "b": draw[1], "norm.running_mean": 100 * draw[1]}


def vector(each):
    return torch.cat([each["a"].flatten(), each["b"]])


@given(st.integers(0, 1000), st.floats(-3, 3), st.floats(-3, 3))
def test_distances_in_the_plane_are_distances_between_networks(seed, x, y):
    three = [state(seed + number) for number in range(3)]
    frame = Frame.through(*three)
    family = Family.of(dict(zip("abc", three, strict=True)))
    point = family.at(frame.coefficients(x, y))
    assert float((vector(point) - vector(three[0])).norm()) == pytest.approx(math.hypot(x, y), abs=1e-9)
    assert frame.project(point) == pytest.approx((x, y, 0.0), abs=1e-9)


@given(st.integers(0, 1000))
def test_a_projection_is_the_nearest_point(seed):
    three, mark = [state(seed + number) for number in range(3)], state(seed + 9)
    frame = Frame.through(*three)
    sides = torch.stack([vector(each) - vector(three[0]) for each in three[1:]], 1)
    target = vector(mark) - vector(three[0])
    best = torch.linalg.lstsq(sides, target[:, None]).solution[:, 0]
    x, y, distance = frame.project(mark)
    assert frame.coefficients(x, y)[1:] == pytest.approx(best.tolist())
    assert distance == pytest.approx(float((target - sides @ best).norm()))


def test_the_three_networks_are_where_the_axes_say():
    three = [state(number) for number in range(3)]
    frame = Frame.through(*three)
    expected = [(0, 0, 0), (frame.along, 0, 0), (frame.shift, frame.height, 0)]
    for each, place in zip(three, expected, strict=True):
        assert frame.project(each) == pytest.approx(place, abs=1e-9)


def test_a_tied_tensor_counts_once():
    three = [state(number) for number in range(3)]
    tied = [{**each, "c": each["a"]} for each in three]
    assert Frame.through(*tied).along == Frame.through(*three).along


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0, -3.0])
def test_networks_on_a_line_span_no_plane(share):
    a, b = state(0), state(1)
    between = {name: a[name] + share * (b[name] - a[name]) for name in a}
    with pytest.raises(InputError, match="one line"):
        Frame.through(a, b, between)
    with pytest.raises(InputError, match="one line"):
        Frame.through(a, a, b)


def test_similarity_is_a_cosine_for_each_tensor():
    one = state(0)
    assert cosines(one, one) == pytest.approx({"a": 1.0, "b": 1.0})
    other = {name: -2 * tensor for name, tensor in one.items()}
    assert cosines(one, other) == pytest.approx({"a": -1.0, "b": -1.0})
    assert math.isnan(cosines({"a": torch.zeros(3)}, {"a": torch.ones(3)})["a"])
