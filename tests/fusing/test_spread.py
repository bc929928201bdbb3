"""Couplings found on an executor: the same bits as in one process, for little that is sent."""

import os
import pickle
import signal
from concurrent.futures import Executor, Future, ProcessPoolExecutor

import pytest
import torch
from torch import nn

import transfuse
from transfuse import InputError, Reply
from transfuse.barycenter import Problem
from transfuse.workers import dask_executor, executing, mapped

X = torch.zeros(1, 6)


def network(seed, width=24):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 3))


MODELS = [network(seed) for seed in range(4)]
STATES = [model.state_dict() for model in MODELS]


@pytest.fixture(scope="module")
def layout():
    return transfuse.trace(MODELS[0], X)


class Counting(Executor):
    """An executor that does everything at once, and counts the bytes that it is sent."""

    def __init__(self):
        self.sent = []

    def submit(self, function, /, *given, **named):
        self.sent.append(sum(map(len, given)))
        future = Future()
        future.set_result(function(*given, **named))
        return future


def assert_same(one, other):
    for name, tensor in one.state.items():
        assert torch.equal(tensor, other.state[name]), name
    assert one.history == other.history or str(one.history) == str(other.history)  # an objective may be nan


@pytest.mark.parametrize("method", ["auto", "wb", "gwb", "ot"])
def test_the_same_bits_on_an_executor(layout, method):
    executor = Counting()
    spread = transfuse.fuse_states(STATES, layout, method=method, workers=executor)
    assert_same(transfuse.fuse_states(STATES, layout, method=method), spread)
    assert executor.sent


def test_the_same_bits_from_processes(layout):
    assert_same(transfuse.fuse_states(STATES, layout), transfuse.fuse_states(STATES, layout, workers=2))


def test_entropic_couplings_and_other_widths_are_the_same_too(layout):
    states = [*STATES[:3], network(9, 16).state_dict()]
    call = dict(method="wb", epsilon=0.5, updates=1, widths=dict.fromkeys(layout.widths(STATES[0]), 20))
    assert_same(
        transfuse.fuse_states(states, layout, **call), transfuse.fuse_states(states, layout, workers=Counting(), **call)
    )


def test_methods_that_cannot_be_spread_go_on_as_they_are(layout):
    executor = Counting()
    assert_same(
        transfuse.fuse_states(STATES, layout, method="fedma"),
        transfuse.fuse_states(STATES, layout, method="fedma", workers=executor),
    )
    assert not executor.sent


def test_a_layer_is_sent_without_the_rest_of_its_network():
    torch.manual_seed(0)
    deep = [nn.Sequential(*(layer for _ in range(12) for layer in (nn.Linear(64, 64), nn.ReLU()))) for _ in range(3)]
    executor = Counting()
    transfuse.fuse_states(
        [each.state_dict() for each in deep],
        transfuse.trace(deep[0], torch.zeros(1, 64)),
        method="ot",
        workers=executor,
    )
    layer = 64 * 64 * 4
    assert max(executor.sent) < 6 * layer  # of 12: the model's layer and the target's, and what goes with them


def test_numbers_that_were_not_sent_are_nan(layout):
    problem = Problem(STATES, layout, [0.25] * 4, layout.widths(STATES[0]))
    alone = problem.alone(2, ["0.weight"])
    assert torch.equal(alone.states[0]["0.weight"], STATES[2]["0.weight"])
    assert alone.states[0]["2.weight"].shape == STATES[2]["2.weight"].shape
    assert alone.states[0]["2.weight"].isnan().all()
    assert len(pickle.dumps(alone.states[0]["2.weight"])) < 1000


@pytest.mark.long
def test_networks_and_federations_take_workers():
    executor = Counting()
    found = transfuse.fuse(MODELS[:3], X, correct="none", workers=executor)
    alone = transfuse.fuse(MODELS[:3], X, correct="none")
    assert all(
        torch.equal(one, two) for one, two in zip(found.model.parameters(), alone.model.parameters(), strict=True)
    )
    before = len(executor.sent)
    assert before
    federation = transfuse.Federation.of(MODELS[0], X, workers=executor)
    federation.joined([Reply(number, state, examples=1) for number, state in enumerate(STATES)])
    assert len(executor.sent) > before


def test_low_memory_and_workers_exclude_each_other(layout):
    with pytest.raises(InputError, match=r"low_memory keeps no tensor.*leave one of them out"):
        transfuse.fuse_states(STATES, layout, low_memory=True, workers=2)


def test_an_executor_of_the_users_stays_open():
    with ProcessPoolExecutor(1) as pool:
        with executing(pool) as same:
            assert mapped(abs, [-1, -2, 3], same) == [1, 2, 3]
        assert pool.submit(abs, -4).result() == 4


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_many_models_on_a_dask_cluster_of_which_a_worker_dies(layout):
    distributed = pytest.importorskip("distributed", reason="Dask is not installed: make test-flower has it")
    killed = []
    made = distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None)
    with made as cluster, dask_executor(cluster.scheduler_address) as executor:

        def kill_one(stage, done, total):
            if not killed:
                killed.append(next(iter(cluster.workers.values())).pid)
                os.kill(killed[0], signal.SIGKILL)

        states = [network(seed).state_dict() for seed in range(16)]
        found = transfuse.fuse_states(states, layout, method="wb", workers=executor, progress=kill_one)
    assert killed
    assert_same(transfuse.fuse_states(states, layout, method="wb"), found)
