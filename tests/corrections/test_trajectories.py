"""Recurrent layers fitted by what they run through by themselves."""

import copy
from dataclasses import replace

import pytest
import torch
from torch import nn

from transfuse.activations import Batches, observe
from transfuse.corrections import refit, trajectories
from transfuse.corrections.affine import matrices, written
from transfuse.corrections.least_squares import Equations
from transfuse.corrections.refit import refit_sites
from transfuse.corrections.task import Sample, Task
from transfuse.corrections.trajectories import Course, _change, _flat, _joined
from transfuse.modules import model_state

KINDS = {
    "lstm": nn.LSTM,
    "gru": nn.GRU,
    "rnn_tanh": nn.RNN,
    "rnn_relu": lambda *sizes, **options: nn.RNN(*sizes, nonlinearity="relu", **options),
}


def layer(kind, *, bias, units=4, seed=0):
    torch.manual_seed(seed)
    return KINDS[kind](3, units, bias=bias).double().eval()


def first_batch(x):
    return next(iter(Batches.of([x])))


def course_of(net, parent, x):
    """The course of a layer beside a parent's, and its matrices."""
    batch = first_batch(x)
    own, theirs = (observe(each, batch.run)[0] for each in (net, parent))
    start = [matrix.detach() for matrix in matrices(own, model_state(net))]
    return Course.of(Sample(own, theirs.pre_activations.detach(), batch), start), start


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bias", [True, False])
def test_changes_of_states_are_differences_and_their_transpose_is_one(kind, bias):
    net, parent = layer(kind, bias=bias), layer(kind, bias=bias, seed=1)
    x = torch.randn(5, 2, 3).double()
    course, start = course_of(net, parent, x)
    torch.testing.assert_close(course.missing, (parent(x)[0] - net(x)[0]).detach())
    change, tiny = [torch.randn_like(matrix) for matrix in start], 1e-6
    moved, new = copy.deepcopy(net), [m + tiny * each for m, each in zip(start, change, strict=True)]
    moved.load_state_dict({**net.state_dict(), **written(course.site, model_state(net), new)})
    ahead = course.ahead(change)
    torch.testing.assert_close(ahead, (moved(x)[0] - net(x)[0]).detach() / tiny, rtol=1e-3, atol=1e-4)
    states = torch.randn_like(ahead)
    gained = sum(float((one * other).sum()) for one, other in zip(course.back(states), change, strict=True))
    assert gained == pytest.approx(float((states * ahead).sum()))


@pytest.mark.parametrize("kind", ["lstm", "gru", "rnn_tanh"])
def test_the_change_is_the_one_of_dense_equations(kind, monkeypatch):
    """The slow twin: every column of the change of states, and one large system."""
    monkeypatch.setattr(trajectories, "LEAST", 0.0)
    net, parent = layer(kind, bias=True, units=2), layer(kind, bias=True, units=2, seed=1)
    course, start = course_of(net, parent, torch.randn(4, 30, 3).double())
    fit = [Equations.of(each, each[:, :1]) for each in (features.flatten(0, 1) for features in course.features)]
    ridge = 1.0
    found = _change([course], fit, ridge=ridge, constant=True)
    sizes = [matrix.numel() for matrix in start]

    def column(number):
        pieces = torch.eye(sum(sizes), dtype=torch.float64)[number].split(sizes)
        return course.ahead([piece.view_as(matrix) for piece, matrix in zip(pieces, start, strict=True)]).flatten()

    columns = torch.stack([column(number) for number in range(sum(sizes))], 1)
    slopes = (
        torch.cat([gates.square().flatten(0, 1) for gates, _ in course.slopes]).sum() / course.missing[..., 0].numel()
    )
    mean = float(slopes) / course.slopes[0][0].shape[-1]
    penalties = [mean * each.penalty(ridge, constant=True) for each in fit]
    penalty = _flat([each.expand_as(matrix) for each, matrix in zip(penalties, start, strict=True)])[0]
    wanted = torch.linalg.solve(columns.T @ columns + torch.diag(penalty), columns.T @ course.missing.flatten())

    def left(change):
        return float((course.missing.flatten() - columns @ change).square().sum() + (penalty * change.square()).sum())

    # Conjugate gradients stop early: nearly all that can be gained is gained.
    most, gained = (left(torch.zeros_like(wanted)) - left(change) for change in (wanted, _flat(found)[0]))
    assert 0.95 * most < gained <= most * (1 + 1e-9)


@pytest.mark.parametrize("kind", ["lstm", "gru", "rnn_tanh"])
def test_states_come_nearer_to_their_targets_where_a_layer_is_too_narrow(kind, monkeypatch):
    """Half of the units of a layer follow the first half of a wider one as well as they can."""
    parent, x = layer(kind, bias=True, units=8), torch.randn(12, 200, 3).double()
    with torch.no_grad():
        for weight in parent.parameters():
            weight.mul_(1.5)
    gates = [torch.eye(8, dtype=torch.float64)[:4]] * (len(parent.weight_hh_l0) // 8)
    carry = [{"weight_hh_l0": torch.block_diag(*gates)}]

    def missed(trajectories):
        with monkeypatch.context() as patch:
            if not trajectories:
                patch.setattr(refit, "by_trajectories", lambda *args, **options: None)
            task = Task(layer(kind, bias=True), [parent], [1.0], Batches.of(list(x.split(20, 1))), carry=carry)
            with torch.no_grad():
                refit_sites(task)
            judged = torch.cat([batch.content for batch in task.batches if batch.judges], 1)
            return float((task.network(judged)[0] - parent(judged)[0][..., :4]).detach().square().mean())

    assert missed(trajectories=True) < 0.95 * missed(trajectories=False)


@pytest.mark.parametrize("kind", KINDS)
def test_courses_of_as_many_steps_are_one_and_others_stay_apart(kind):
    net, parent = layer(kind, bias=True), layer(kind, bias=True, seed=1)
    some = [torch.randn(steps, samples, 3).double() for steps, samples in ((5, 2), (4, 3), (5, 1))]
    courses = [course_of(net, parent, x)[0] for x in some]
    courses[2] = replace(courses[2], weights=0.3 * courses[2].weights)
    change = [torch.randn_like(matrix) for matrix in course_of(net, parent, some[0])[1]]
    joined = _joined(courses)
    assert [course.missing.shape[:2] for course in joined] == [(5, 3), (4, 3)]
    torch.testing.assert_close(joined[0].ahead(change), torch.cat([courses[n].ahead(change) for n in (0, 2)], 1))
    parts = zip(*(course.back(course.missing) for course in courses), strict=True)
    for one, other, expected in zip(*(course.back(course.missing) for course in joined), parts, strict=True):
        torch.testing.assert_close(one + other, sum(expected))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("direction", [0, 1])
def test_packed_sequences_have_the_courses_that_each_of_them_has_alone(kind, direction):
    torch.manual_seed(0)
    net = KINDS[kind](3, 4, bidirectional=True).double().eval()
    sequences = [torch.randn(length, 3).double() for length in (2, 5, 3)]
    whole = nn.utils.rnn.pack_sequence(sequences, enforce_sorted=False)

    def course(x):
        site = observe(net, lambda model: model(x))[direction]
        start = [matrix.detach() for matrix in matrices(site, model_state(net))]
        target = site.pre_activations.detach() + 0.1
        return Course.of(Sample(site, target, first_batch(torch.zeros(1))), start), start

    packed, start = course(whole)
    alone = [course(x.unsqueeze(1))[0] for x in sequences]
    change = [torch.randn_like(matrix) for matrix in start]
    torch.testing.assert_close(
        packed.ahead(change).square().sum(), sum(each.ahead(change).square().sum() for each in alone)
    )
    parts = zip(*(each.back(each.missing) for each in alone), strict=True)
    for found, expected in zip(packed.back(packed.missing), parts, strict=True):
        torch.testing.assert_close(found, sum(expected))
