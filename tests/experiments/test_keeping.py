"""Files are kept whole, or stay as they were."""

import pytest
from experiments.keeping import save, write_text


def test_a_file_is_whole_or_as_it_was(tmp_path):
    path = tmp_path / "a.pt"
    save(path, {"a": 1})
    before = path.read_bytes()
    with pytest.raises((AttributeError, TypeError)):
        save(path, lambda: None)
    assert path.read_bytes() == before
    write_text(tmp_path / "b.md", "text")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.pt", "b.md"]
