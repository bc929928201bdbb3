"""Files and folders: whole or not at all."""

import json
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from transfuse.files import append_line, whole_file, whole_folder, whole_lines, write_whole


def names(folder):
    return sorted(each.name for each in folder.iterdir())


def test_a_file_is_replaced(tmp_path):
    write_whole(tmp_path / "a", b"old")
    assert write_whole(str(tmp_path / "a"), b"new").read_bytes() == b"new"
    assert names(tmp_path) == ["a"]


def test_permissions_are_those_of_any_new_file(tmp_path):
    write_whole(tmp_path / "a", b"1")
    (tmp_path / "b").write_bytes(b"1")
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "b").stat().st_mode


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_after_an_error_the_old_file_is_there_and_nothing_else(tmp_path, error):
    write_whole(tmp_path / "a", b"old")
    with pytest.raises(error), whole_file(tmp_path / "a") as temporary:  # noqa: PT012
        temporary.write_bytes(b"half")
        raise error
    assert (tmp_path / "a").read_bytes() == b"old"
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("before", [False, True])
def test_a_folder_is_replaced(tmp_path, before):
    if before:
        (tmp_path / "a").mkdir()
        (tmp_path / "a" / "old").touch()
    with whole_folder(tmp_path / "a") as temporary:
        (temporary / "new").touch()
        assert names(tmp_path) != ["a"]
    assert names(tmp_path / "a") == ["new"]
    assert names(tmp_path) == ["a"]


def test_without_an_exchange_a_folder_is_replaced_in_two_steps(tmp_path, monkeypatch):
    monkeypatch.setattr("ctypes.CDLL", lambda *args, **kwargs: object())
    test_a_folder_is_replaced(tmp_path, True)


def test_after_an_error_the_old_folder_is_there_and_nothing_else(tmp_path):
    (tmp_path / "a").mkdir()
    with pytest.raises(ValueError, match="stop"), whole_folder(tmp_path / "a") as temporary:  # noqa: PT012
        (temporary / "new").touch()
        raise ValueError("stop")
    assert names(tmp_path) == ["a"]
    assert names(tmp_path / "a") == []


def test_what_killed_processes_left_is_removed_and_what_others_write_is_not(tmp_path):
    dead = 2**22 + 1  # above the largest process id of Linux
    (tmp_path / f".a.{dead}.00.part").write_bytes(b"left")
    (tmp_path / f".a.{os.getppid()}.00.part").write_bytes(b"being written")
    write_whole(tmp_path / "a", b"new")
    assert names(tmp_path) == [f".a.{os.getppid()}.00.part", "a"]


def test_lines_come_back(tmp_path):
    path = tmp_path / "deep" / "a.jsonl"
    assert list(whole_lines(path)) == []
    for number in range(3):
        append_line(path, {"number": number})
    assert [line["number"] for line in whole_lines(path)] == [0, 1, 2]


@pytest.mark.parametrize("cut", [1, 2, 9])
def test_a_torn_line_is_passed_over_and_the_next_is_whole(tmp_path, cut):
    path = tmp_path / "a.jsonl"
    append_line(path, {"number": 0})
    append_line(path, {"number": 1})
    path.write_bytes(path.read_bytes()[:-cut])
    append_line(path, {"number": 2})
    kept = [0, 1, 2] if cut == 1 else [0, 2]
    assert [line["number"] for line in whole_lines(path)] == kept


def test_many_writers_do_not_mix(tmp_path):
    path = tmp_path / "a.jsonl"
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: append_line(path, {"number": number, "text": "x" * 9000}), range(64)))
    assert sorted(line["number"] for line in whole_lines(path)) == list(range(64))


def test_what_is_no_number_is_refused(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        append_line(tmp_path / "a.jsonl", {"value": float("nan")})
    assert not (tmp_path / "a.jsonl").exists() or json.loads((tmp_path / "a.jsonl").read_text() or "null") is None
