"""Files and folders: whole or not at all."""

import os

import pytest

from transfuse.files import whole_file, whole_folder, write_whole


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
