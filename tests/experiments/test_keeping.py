"""Lines are added whole; what a kill left behind is passed over."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from experiments.keeping import append, lines, save, write_text


def test_lines_come_back(tmp_path):
    path = tmp_path / "deep" / "a.jsonl"
    assert list(lines(path)) == []
    for number in range(3):
        append(path, {"number": number})
    assert [line["number"] for line in lines(path)] == [0, 1, 2]


@pytest.mark.parametrize("cut", [1, 2, 9])
def test_a_torn_line_is_passed_over_and_the_next_is_whole(tmp_path, cut):
    path = tmp_path / "a.jsonl"
    append(path, {"number": 0})
    append(path, {"number": 1})
    path.write_bytes(path.read_bytes()[:-cut])
    append(path, {"number": 2})
    kept = [0, 1, 2] if cut == 1 else [0, 2]
    assert [line["number"] for line in lines(path)] == kept


def test_many_writers_do_not_mix(tmp_path):
    path = tmp_path / "a.jsonl"
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: append(path, {"number": number, "text": "x" * 9000}), range(64)))
    assert sorted(line["number"] for line in lines(path)) == list(range(64))


def test_what_is_no_number_is_refused(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        append(tmp_path / "a.jsonl", {"value": float("nan")})
    assert not (tmp_path / "a.jsonl").exists() or json.loads((tmp_path / "a.jsonl").read_text() or "null") is None


def test_a_file_is_whole_or_as_it_was(tmp_path):
    path = tmp_path / "a.pt"
    save(path, {"a": 1})
    before = path.read_bytes()
    with pytest.raises((AttributeError, TypeError)):
        save(path, lambda: None)
    assert path.read_bytes() == before
    write_text(tmp_path / "b.md", "text")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.pt", "b.md"]
