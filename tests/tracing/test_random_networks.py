"""Random networks: a layout is right or the trace says that it is not; never silently wrong."""

import pytest
import torch
from hypothesis import HealthCheck, given, seed, settings

import transfuse
from random_networks import networks, random_program
from transfuse.modules import model_state

QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


def check(program, recorder):
    """Trace with the proof on, which raises if the layout is wrong; then the round trip of the notation."""
    layout = transfuse.trace(program, program.example_inputs(), recorder=recorder)
    assert transfuse.parse(str(layout)) == layout
    layout.check(model_state(program))


@pytest.mark.long
# `long` has thousands more.
@pytest.mark.parametrize("half", [0, pytest.param(1, marks=pytest.mark.long)])
def test_layouts_of_random_networks_are_right(half):
    @seed(half)
    @settings(max_examples=25, deadline=None, suppress_health_check=QUIET, database=None)
    @given(networks())
    def each(program):
        check(program, "eager")

    each()


@pytest.mark.long
@pytest.mark.parametrize("part", range(10))
def test_layouts_of_five_thousand_random_networks_are_right(part):
    wrong = []
    for number in range(part * 500, (part + 1) * 500):
        torch.manual_seed(number)
        try:
            check(random_program(10**6 + number), None if number % 2 else "eager")
        except transfuse.FusionError as error:
            wrong.append(f"seed {10**6 + number}: {error}")
    assert wrong == []
