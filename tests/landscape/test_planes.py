"""Planes: closed forms, marks, previews, and runs that were killed."""

import os
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

import transfuse
from transfuse import InputError, barrier, plane
from transfuse.landscape import Family, Frame
from transfuse.landscape.planes import levels
from zoo import named


def state(seed):
    return {"w": torch.randn(6, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)}


def quadratic(each):
    return float(((torch.arange(6) + 1.0) * (each["w"] - 0.3).square()).sum())


THREE = [state(seed) for seed in range(3)]


def test_a_quadratic_has_its_closed_form():
    found = plane(*THREE, quadratic, grid=5)
    w = torch.stack([each["w"] for each in THREE]).numpy()
    first = (w[1] - w[0]) / np.linalg.norm(w[1] - w[0])
    second = w[2] - w[0] - first * (first @ (w[2] - w[0]))
    second /= np.linalg.norm(second)
    scale, gap = np.arange(6) + 1.0, w[0] - 0.3
    x, y = np.meshgrid(found.x, found.y)
    expected = (
        gap @ (scale * gap) + 2 * x * (gap @ (scale * first)) + 2 * y * (gap @ (scale * second))
        + x**2 * (first @ (scale * first)) + y**2 * (second @ (scale * second)) + 2 * x * y * (first @ (scale * second))
    )  # fmt: skip
    np.testing.assert_allclose(found.of(), expected, rtol=1e-10)


def test_a_finer_plane_has_the_networks_on_its_lines():
    found = plane(*THREE, quadratic, grid=21, finer=True)
    for mark in found.marks:
        at = np.abs(found.y - mark.y).argmin(), np.abs(found.x - mark.x).argmin()
        assert (found.y[at[0]], found.x[at[1]]) == (mark.y, mark.x)
        assert found.of()[at] == pytest.approx(mark.values["value"])
    assert np.ptp(np.diff(found.x)) > 0.01
    even = plane(*THREE, quadratic, grid=21)
    assert (found.x[0], found.x[-1], found.y[0], found.y[-1]) == (even.x[0], even.x[-1], even.y[0], even.y[-1])
    np.testing.assert_allclose(np.diff(even.x), np.diff(even.x)[0])


@pytest.mark.filterwarnings("ignore::transfuse.errors.StatisticsWarning")
@pytest.mark.parametrize("name", ["mlp", "lenet", "lstm", "mlp_batch_norm", "gru"])
def test_the_plane_at_a_mark_is_the_network_itself(name):
    network = named(name)
    nets, inputs = [], network.inputs()
    for seed in range(4):
        torch.manual_seed(seed)
        nets.append(network.build().double())
    inputs = inputs.double() if inputs.is_floating_point() else inputs

    def evaluate(model):
        with torch.no_grad():
            return float(model(inputs).square().mean())

    found = plane(*nets[:3], evaluate, grid=2, marks={"second": nets[1], "far": nets[3]})
    assert [mark.name for mark in found.marks] == ["origin", "second", "y", "far"]
    family = Family.of(dict(zip("abc", nets[:3], strict=True)))
    frame = Frame.through(*family.states)
    for mark, net in zip(found.marks, nets, strict=True):
        assert mark.values["value"] == evaluate(net)
        assert found.x[0] < mark.x < found.x[-1]
        at_mark = evaluate(family.at(frame.coefficients(mark.x, mark.y)))
        if mark.name == "far":
            assert mark.distance > 1e-3
            assert at_mark != pytest.approx(evaluate(net), rel=1e-6)
        else:
            assert mark.distance == pytest.approx(0, abs=1e-9)
            assert at_mark == pytest.approx(evaluate(net), rel=1e-9)


@pytest.mark.parametrize("grid", [2, 3, 4, 11, 21, 22, 50])
def test_levels_grow_to_the_whole_grid_and_the_first_is_a_tenth_of_it(grid):
    found = levels(grid)
    assert found[-1] == list(range(grid))
    assert all(set(coarse) < set(fine) for coarse, fine in pairwise(found))
    assert all(level[0] == 0 and level[-1] == grid - 1 for level in found)
    assert len(found[0]) == 2 or len(found[0]) ** 2 <= 0.1 * grid**2


@pytest.mark.parametrize("workers", [0, 2])
def test_previews_are_parts_of_the_plane(workers):
    seen, calls = [], []

    def evaluate(each):
        calls.append(1)
        return quadratic(each)

    found = plane(*THREE, evaluate, grid=21, preview=lambda coarse: seen.append((len(calls), coarse)), workers=workers)
    assert [len(coarse.x) for _, coarse in seen] == [6, 11]
    if not workers:
        assert seen[0][0] <= 0.1 * len(calls)
    for _, coarse in seen:
        rows, columns = np.isin(found.y, coarse.y), np.isin(found.x, coarse.x)
        np.testing.assert_array_equal(coarse.of(), found.of()[np.ix_(rows, columns)])


def test_the_watcher_is_told_how_far_it_is():
    told = []
    plane(*THREE, quadratic, grid=2, progress=lambda stage, done, total: told.append((stage, done, total)))
    assert told == [("7 networks", done, 7) for done in range(1, 8)]


def test_workers_find_the_same():
    np.testing.assert_array_equal(
        plane(*THREE, quadratic, grid=4, workers=2).of(), plane(*THREE, quadratic, grid=4).of()
    )


@pytest.mark.long  # each new interpreter imports torch
def test_workers_that_are_not_forked_find_the_same(monkeypatch):
    monkeypatch.setattr(sys, "platform", "another")  # only on Linux are they forked
    nets = [torch.nn.Linear(3, 2) for _ in range(3)]
    evaluate = transfuse.evaluator([(torch.randn(9, 3), torch.arange(9) % 2)])
    found = plane(*nets, evaluate, grid=3, workers=2)
    np.testing.assert_allclose(found.of(), plane(*nets, evaluate, grid=3).of(), rtol=1e-6)


def test_what_a_worker_meets_is_told():
    with pytest.raises(ZeroDivisionError):
        plane(*THREE, lambda _: 1 / 0, grid=3, workers=2)


SLOW = """
import os, sys, time
sys.path.insert(0, {folder!r})
from test_planes import THREE, quadratic
import transfuse

def evaluate(each):
    time.sleep(0.02)
    with open({cache!r} + ".processes", "a") as file:
        print(os.getpid(), file=file)
    return quadratic(each)

transfuse.plane(*THREE, evaluate, grid=9, cache={cache!r}, workers={workers})
"""


def is_running(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def test_after_an_error_the_rest_is_not_measured(tmp_path):
    def evaluate(each):
        time.sleep(0.1)
        with (tmp_path / "calls").open("a") as file:
            file.write("x")
        return 1 / (len((tmp_path / "calls").read_text()) < 3)

    with pytest.raises(ZeroDivisionError):
        plane(*THREE, evaluate, grid=9, workers=2)
    assert len((tmp_path / "calls").read_text()) < 20


@pytest.mark.filterwarnings("ignore::transfuse.errors.StatisticsWarning")
def test_values_with_and_without_data_are_kept_apart(tmp_path):
    nets = [torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3)) for _ in range(2)]
    calls = []
    for data in (None, torch.randn(20, 2), None):
        barrier(*nets, lambda _: calls.append(1) or 1.0, points=3, data=data, cache=tmp_path / "cache.jsonl")
    assert len(calls) == 3 + 3 + 1


@pytest.mark.long
@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.long)])
def test_a_killed_run_goes_on_where_it_stopped(tmp_path, workers):
    cache = tmp_path / "cache.jsonl"
    script = SLOW.format(folder=os.path.dirname(__file__), cache=str(cache), workers=workers)
    paths = os.pathsep.join(path for path in sys.path if path)
    process = subprocess.Popen([sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": paths})
    while not cache.exists() or len(cache.read_bytes().splitlines()) < 20:
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    workers_of = set(map(int, Path(f"{cache}.processes").read_text().split()))
    deadline = time.monotonic() + 30
    while any(map(is_running, workers_of)):
        assert time.monotonic() < deadline, "workers outlive their parent"
        time.sleep(0.05)
    done = len(cache.read_bytes().splitlines())
    with cache.open("ab") as file:
        file.write(b'{"point": "cut by the ki')
    calls = []
    resumed = plane(*THREE, lambda each: calls.append(1) or quadratic(each), grid=9, cache=cache)
    np.testing.assert_array_equal(resumed.of(), plane(*THREE, quadratic, grid=9).of())
    assert 20 <= done < 84
    assert len(calls) == 81 + 3 - done + 1  # one is measured again, as a check
    plane(*THREE, lambda each: calls.append(1) or quadratic(each), grid=9, cache=cache)
    assert len(calls) == 81 + 3 - done + 2


def test_one_cache_serves_barriers_and_finer_planes_and_other_networks_do_not_meet(tmp_path):
    calls = []

    def counted(each):
        calls.append(1)
        return quadratic(each)

    def cost(act):
        before = len(calls)
        act()
        return len(calls) - before

    cache = tmp_path / "new folder" / "cache.jsonl"
    assert cost(lambda: plane(*THREE, counted, grid=3, cache=cache)) == 3 + 9
    assert cost(lambda: plane(*THREE, counted, grid=5, cache=cache)) == 1 + 25 - 9
    assert cost(lambda: barrier(THREE[0], THREE[1], counted, points=3, cache=cache)) == 1 + 1
    assert cost(lambda: barrier(state(7), state(8), counted, points=3, cache=cache)) == 3


def test_a_cache_of_another_evaluate_or_another_file_is_refused(tmp_path):
    cache = tmp_path / "cache.jsonl"
    plane(*THREE, quadratic, grid=2, cache=cache)
    with pytest.raises(InputError, match="filled by another evaluate"):
        plane(*THREE, lambda each: 2 * quadratic(each), grid=2, cache=cache)
    with pytest.raises(InputError, match="filled by another evaluate"):
        plane(*THREE, lambda each: {"loss": quadratic(each)}, grid=2, cache=cache)
    for content in ("notes\n", "notes", '{"point": 3}\n'):
        cache.write_text(content)
        with pytest.raises(InputError, match=r"not a cache|cannot be read as a point"):
            plane(*THREE, quadratic, grid=2, cache=cache)
        assert cache.read_text() == content


BAD = {
    "grid": (lambda: plane(*THREE, len, grid=1), "grid is 1; expected a whole number from 2"),
    "twice": (lambda: plane(THREE[0], THREE[1], THREE[0], len), "one line"),
    "twice by name": (lambda: plane(THREE[0], THREE[1], THREE[0], len, marks={"m": THREE[0]}), "given twice"),
    "a name twice": (lambda: plane(*THREE, len, marks={"origin": state(4)}), "give them other names"),
}


@pytest.mark.parametrize(("act", "text"), BAD.values(), ids=BAD)
def test_what_is_no_plane_is_refused(act, text):
    with pytest.raises(InputError, match=text):
        act()
