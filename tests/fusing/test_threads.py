"""Threads: fusions at the same time give what they give one after another, and leave the process as it was."""

import logging
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

import transfuse
from transfuse.modules import alone
from zoo import ZOO


def build(seed, row=None):
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Dropout(0.5), nn.Linear(6, 3))
    return (net if row is None else row.build()).train()


def digest(fusion):
    return [tensor.clone() for tensor in fusion.model.state_dict().values()]


def same(one, other):
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.long
def test_two_threads_on_the_same_models():
    models, inputs = [build(0), build(1)], torch.randn(5, 4)
    streams = sys.stdout, sys.stderr, logging.root.manager.disable
    expected = digest(transfuse.fuse(models, inputs, seed=3))
    with ThreadPoolExecutor(4) as pool:
        found = [job.result() for job in [pool.submit(transfuse.fuse, models, inputs, seed=3) for _ in range(6)]]
    assert all(same(expected, digest(each)) for each in found)
    assert all(module.training for model in models for module in model.modules())
    assert all(module.training for each in found for twin in each.aligned for module in twin.modules())
    assert all(type(tensor) is nn.Parameter for model in models for tensor in model.parameters())
    assert (sys.stdout, sys.stderr, logging.root.manager.disable) == streams


def test_threads_that_trace_one_model():
    model, inputs = build(0), torch.randn(5, 4)
    expected = str(transfuse.trace(model, inputs))
    with ThreadPoolExecutor(4) as pool:
        assert {str(each) for each in pool.map(lambda _: transfuse.trace(model, inputs), range(8))} == {expected}


class Branching(nn.Module):
    """Export refuses it, loudly."""

    def __init__(self):
        super().__init__()
        self.read = nn.Linear(3, 3)

    def forward(self, x):
        y = self.read(x)
        return y if y.sum() > 0 else 2 * y


def test_what_export_refuses_is_silent_and_other_threads_are_not_silenced(capfd):
    done, heard = threading.Event(), []

    class Ear(logging.Handler):
        def emit(self, record):
            heard.append(record.getMessage())

    logger, ear = logging.getLogger("torch.fx.experimental.symbolic_shapes"), Ear()
    logger.addHandler(ear)

    def chatter():
        while not done.is_set():
            logger.warning("from elsewhere")

    thread = threading.Thread(target=chatter)
    thread.start()
    streams = sys.stdout, sys.stderr
    try:
        transfuse.trace(Branching(), torch.randn(2, 3))
    finally:
        done.set()
        thread.join()
        logger.removeHandler(ear)
    assert (sys.stdout, sys.stderr) == streams
    assert set(heard) == {"from elsewhere"}
    assert "def forward" not in capfd.readouterr().err


def enter():
    with alone():
        pass


def test_a_guard_is_entered_again_by_its_own_thread_and_by_no_other():
    with alone(), alone():
        other = threading.Thread(target=enter, daemon=True)
        other.start()
        other.join(0.2)
        assert other.is_alive()
    other.join(5)
    assert not other.is_alive()


@pytest.mark.long
def test_sixteen_pairs_in_sixteen_threads_give_the_same_bits_as_one_after_another():
    rows = ZOO[:: len(ZOO) // 16][:16]
    jobs = [([build(2 * n, row), build(2 * n + 1, row)], row.inputs()) for n, row in enumerate(rows)]
    expected = [digest(transfuse.fuse(*job)) for job in jobs]
    with ThreadPoolExecutor(16) as pool:
        found = [each.result() for each in [pool.submit(transfuse.fuse, *job) for job in jobs]]
    assert all(same(one, digest(other)) for one, other in zip(expected, found, strict=True))
