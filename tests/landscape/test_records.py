"""Records come back from files as they went."""

import dataclasses
import math

import numpy as np
import pytest
import torch

from transfuse import Barrier, InputError, Mark, Plane, Simplex, barrier, plane, simplex

STATES = [{"w": torch.randn(4, generator=torch.Generator().manual_seed(seed))} for seed in range(3)]


def evaluate(state):
    total = float(state["w"].sum())
    return {"loss": total, "odd name / %": math.nan if total > 0 else -math.inf}


RECORDS = [barrier(*STATES[:2], evaluate, points=4), simplex(STATES, evaluate), plane(*STATES, evaluate, grid=3)]


def same(one, other):
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if dataclasses.is_dataclass(one):
        return type(one) is type(other) and same(vars(one), vars(other))
    if isinstance(one, np.ndarray | float):
        return type(one) is type(other) and np.array_equal(one, other, equal_nan=True)
    return one == other


@pytest.mark.parametrize("suffix", [".json", ".npz"])
@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_a_record_comes_back(tmp_path, record, suffix):
    path = record.save(tmp_path / f"record{suffix}")
    back = type(record).load(path)
    assert same(back, record)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_json_is_what_the_standard_allows(tmp_path):
    text = RECORDS[2].save(tmp_path / "plane.json").read_text()
    assert "NaN" not in text
    assert "Infinity" not in text


def test_another_file_is_refused(tmp_path):
    path = RECORDS[0].save(tmp_path / "a.json")
    archive = RECORDS[0].save(tmp_path / "a.npz")
    with pytest.raises(InputError, match=r"holds a barrier, not a plane; load it by Barrier\.load"):
        Plane.load(path)
    with pytest.raises(InputError, match="holds a barrier, not a simplex"):
        Simplex.load(archive)
    archive.write_bytes(archive.read_bytes()[:100])
    path.write_text(path.read_text()[:50])
    for each in (path, archive):
        with pytest.raises(InputError, match="does not hold a whole barrier"):
            Barrier.load(each)
    with pytest.raises(InputError, match="does not exist"):
        Barrier.load(tmp_path / "none.json")
    with pytest.raises(InputError, match=r"neither in \.json nor in \.npz"):
        RECORDS[0].save(tmp_path / "a.txt")


def test_a_plane_gives_its_marks_by_name():
    assert RECORDS[2]["x"].y == pytest.approx(0)
    with pytest.raises(InputError, match="the marks: origin, x, y"):
        _ = RECORDS[2]["z"]


def test_records_show_themselves_in_a_few_lines():
    values = np.arange(10_000.0)
    straight = Barrier({"loss": values[:129]}, np.linspace(0, 1, 129))  # 128ths are exact
    assert repr(straight) == "loss: 0 to 128, midpoint 64, barrier 0"
    marks = tuple(Mark(name, 0.0, 0.0, 0.0, {"loss": 2.0}) for name in "ab")
    wide = Plane({"loss": values.reshape(100, 100)}, values[:100], values[:100], marks)
    assert repr(wide).splitlines() == ["a: loss 2", "b: loss 2", "grid: loss 0 to 9999"]
