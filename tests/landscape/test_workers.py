"""Work on any executor: the same values wherever they are measured, also when a worker dies."""

import os
import signal
import sys
import time
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch import nn

import transfuse
from transfuse import InputError
from transfuse.workers import PIECES, dask_executor, spread

X = torch.randn(20, 3, generator=torch.Generator().manual_seed(0))


def network(seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


CORNERS = [network(seed) for seed in range(3)]


def evaluate(model):
    return {"loss": float(model(X).square().mean()), "drawn": float(torch.rand(()))}


def slow(model):
    time.sleep(0.1)
    return evaluate(model)


class Inline(Executor):
    """An executor of a framework that nothing is known of."""

    def __init__(self):
        self.submitted, self.closed = 0, False

    def submit(self, function, /, *given, **named):
        self.submitted += 1
        future = Future()
        try:
            future.set_result(function(*given, **named))
        except Exception as error:
            future.set_exception(error)
        return future

    def shutdown(self, wait=True, *, cancel_futures=False):
        self.closed = True


def test_an_executor_gives_what_this_process_gives_and_stays_open():
    executor = Inline()
    expected = transfuse.plane(*CORNERS, evaluate, grid=9)
    found = transfuse.plane(*CORNERS, evaluate, grid=9, workers=executor)
    assert found.metrics == expected.metrics
    for metric in expected.metrics:
        np.testing.assert_array_equal(found.of(metric), expected.of(metric))
    assert executor.submitted == PIECES  # of 84 points: the networks are not sent for each of them
    assert not executor.closed


def test_barriers_and_chains_take_an_executor_of_processes():
    with ProcessPoolExecutor(2) as pool:
        found = transfuse.barrier(*CORNERS[:2], evaluate, points=5, workers=pool)
    np.testing.assert_array_equal(found.of("loss"), transfuse.barrier(*CORNERS[:2], evaluate, points=5).of("loss"))


def test_threads_have_networks_of_their_own():
    loss = lambda model: float(model(X).square().mean())  # noqa: E731
    pytest.importorskip("cloudpickle", reason="without it, functions without a name cannot be sent")
    with ThreadPoolExecutor(4) as pool:
        found = transfuse.plane(*CORNERS, loss, grid=7, workers=pool)
    np.testing.assert_array_equal(found.of(), transfuse.plane(*CORNERS, loss, grid=7).of())


def test_a_report_takes_an_executor(tmp_path):
    fusion = transfuse.fuse(CORNERS[:2], X, correct="none")
    executor = Inline()
    fusion.report(tmp_path / "page.html", evaluate, points=3, grid=3, workers=executor)
    assert executor.submitted > 3


def test_what_cannot_be_sent_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(InputError, match="cannot be sent to the workers of an executor"):
        transfuse.plane(*CORNERS, lambda model: 1.0, grid=3, workers=Inline())


def test_an_error_on_a_worker_is_raised_here_and_the_rest_is_cancelled():
    def broken(point):
        raise InputError("not there")

    executor = ThreadPoolExecutor(1)
    pytest.importorskip("cloudpickle", reason="without it, functions without a name cannot be sent")
    with executor, pytest.raises(InputError, match="not there"):
        list(spread(broken, range(200), executor, fork=False))


@pytest.mark.parametrize("workers", [-1, "two", 2.5, None, True])
def test_other_workers_are_refused(workers):
    with pytest.raises(InputError, match=r"workers is .*Executor"):
        transfuse.barrier(*CORNERS[:2], evaluate, points=3, workers=workers)


@pytest.fixture
def cluster():
    """Two worker processes of Dask on this machine."""
    distributed = pytest.importorskip("distributed", reason="Dask is not installed: make test-flower has it")
    made = distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None)
    with made:
        yield made


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_a_plane_on_a_dask_cluster_of_which_a_worker_dies(cluster):
    expected = transfuse.plane(*CORNERS, evaluate, grid=9)
    killed = []

    def kill_one(stage, done, total):
        if done > 5 and not killed:
            killed.append(next(iter(cluster.workers.values())).pid)
            os.kill(killed[0], signal.SIGKILL)

    with dask_executor(cluster.scheduler_address) as executor:
        found = transfuse.plane(*CORNERS, slow, grid=9, workers=executor, progress=kill_one)
    assert killed
    for metric in expected.metrics:
        np.testing.assert_allclose(found.of(metric), expected.of(metric), rtol=1e-6)


def test_a_scheduler_that_is_not_there_is_told(monkeypatch):
    pytest.importorskip("distributed", reason="Dask is not installed: make test-flower has it")
    monkeypatch.setattr("transfuse.workers.CONNECTING", 1)
    nobody = dask_executor("tcp://127.0.0.1:9")
    with pytest.raises(InputError, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:9"):
        nobody.__enter__()


def test_without_dask_a_scheduler_is_refused_with_the_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    nobody = dask_executor("tcp://127.0.0.1:9")
    with pytest.raises(InputError, match=r"pip install 'transfuse\[distributed\]'"):
        nobody.__enter__()
