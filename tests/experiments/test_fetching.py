"""Official files are fetched whole and checked; nothing else is kept. Addresses are those of local files."""

import hashlib
import io
import tarfile
import zipfile

import pytest
from experiments.__main__ import main
from experiments.fetching import fetch
from experiments.sources import Source

from experiments import fetching
from transfuse import InputError

CONTENT = {"a.txt": b"first" * 1000, "b.txt": b"second"}


def archive_of(folder, kind):
    path = folder / f"published.{kind}"
    if kind == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in CONTENT.items():
                archive.writestr(f"top/{name}", content)
        return path.as_uri()
    if kind == "tar.gz":
        with tarfile.open(path, "w:gz") as archive:
            for name, content in {**CONTENT, "../outside.txt": b"evil"}.items():
                member = tarfile.TarInfo(f"top/{name}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
        return path.as_uri()
    for name, content in CONTENT.items():
        (folder / name).write_bytes(content)
    return folder.as_uri() + "/{}"


@pytest.fixture
def published(tmp_path, monkeypatch):
    def publish(kind, sums=None):
        (tmp_path / "web").mkdir()
        files = dict.fromkeys(CONTENT) | (sums or {})
        monkeypatch.setattr(fetching, "KNOWN", {"some": Source("own", files, archive_of(tmp_path / "web", kind))})
        return tmp_path / "data"

    return publish


@pytest.mark.parametrize("kind", ["zip", "tar.gz", "plain"])
def test_what_is_missing_is_fetched(published, kind):
    data = published(kind, {"a.txt": hashlib.md5(CONTENT["a.txt"]).hexdigest()})
    (data / "own").mkdir(parents=True)
    (data / "own" / "b.txt").write_bytes(b"mine")
    assert fetch("some", data) == [data / "own" / "a.txt"]
    assert {path.name: path.read_bytes() for path in (data / "own").iterdir()} == {**CONTENT, "b.txt": b"mine"}
    assert not fetch("some", data)
    assert not list(data.parent.rglob("outside.txt"))


@pytest.mark.parametrize("kind", ["zip", "plain"])
def test_another_file_than_the_official_one_is_not_kept(published, kind):
    data = published(kind, {"b.txt": "0" * 32})
    with pytest.raises(InputError, match=r"b\.txt from .* is not the official file"):
        fetch("some", data)
    assert [path.name for path in (data / "own").iterdir()] == ["a.txt"]


def test_what_cannot_be_had_is_told(published, monkeypatch, capsys):
    data = published("zip", {"c.txt": None})
    with pytest.raises(InputError, match=r"holds no c\.txt"):
        fetch("some", data)
    monkeypatch.setattr(fetching, "KNOWN", {"some": Source("own", {"a": None}, (data / "nowhere").as_uri())})
    monkeypatch.setenv("TRANSFUSE_DATA", str(data))
    assert main(["fetch", "some"]) == 2
    assert "cannot be had" in capsys.readouterr().err
    assert main(["fetch", "others"]) == 2
    assert "no data set is called 'others'; the data sets: some" in capsys.readouterr().err
