"""Before and after writing: what is refused, metadata, model cards, the same bytes."""

import json
import re
import shutil
import threading
from dataclasses import replace

import pytest
import safetensors.torch

from checkpoint_states import MADE, TENSORS, plain, write
from transfuse import FusionError, InputError
from transfuse.checkpoints import (
    KEY,
    Output,
    card,
    card_path,
    check_writable,
    open_checkpoint,
    sharded_files,
    write_checkpoint,
)
from transfuse.checkpoints.model_card import marker
from transfuse.checkpoints.provenance import Origin, origins_of


def test_metadata_survive_and_provenance_is_added(tmp_path):
    safetensors.torch.save_file(TENSORS, tmp_path / "a.safetensors", {"format": "pt", "note": "grüße"})
    checkpoint = open_checkpoint(tmp_path / "a.safetensors")
    made = replace(MADE, sources=origins_of([checkpoint], [1.0]))
    for name in ("b.safetensors", "c.safetensors"):  # the second replaces the provenance of the first
        write_checkpoint(tmp_path / name, Output(dict(checkpoint.tensors), checkpoint, made))
        checkpoint = open_checkpoint(tmp_path / name)
    assert {key: checkpoint.metadata[key] for key in ("format", "note")} == {"format": "pt", "note": "grüße"}
    (source,) = json.loads(checkpoint.metadata[KEY])["sources"]
    assert len(source["sha256"]["a.safetensors"]) == 64


def test_what_cannot_be_written_is_refused_before_work(tmp_path, monkeypatch):
    like = plain(tmp_path, TENSORS)
    (tmp_path / "there.pt").touch()
    (tmp_path / "file").touch()
    refused = {
        tmp_path / "there.pt": "exists; pass --force",
        tmp_path / "no" / "a.pt": "does not exist; create it first",
        tmp_path / "file" / "a.pt": "does not exist; create it first",
        tmp_path / "a.onnx": "the ending says the format",
        tmp_path / "folder": "the ending says the format",
        tmp_path / "a.pt2": "only be written when the first input is one",
    }
    for path, message in refused.items():
        with pytest.raises(InputError, match=message):
            check_writable(path, like, 10)
    check_writable(tmp_path / "there.pt", like, 10, force=True)
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": 9})())
    with pytest.raises(InputError, match=r"needs 10 bytes, but .* has only 9 bytes free; make room"):
        check_writable(tmp_path / "a.pt", like, 10)


def test_a_card_never_replaces_somebody_elses_readme(tmp_path):
    out = tmp_path / "fused.safetensors"
    assert card_path(out).name == "README.md"
    write(out, TENSORS)
    assert card_path(out).name == "README.md"
    assert card_path(tmp_path / "other.safetensors").name == "other.safetensors.README.md"
    (tmp_path / "README.md").write_text("mine")
    write(out, TENSORS)
    assert (tmp_path / "README.md").read_text() == "mine"
    assert "`auto`" in (tmp_path / "fused.safetensors.README.md").read_text()


def test_a_card_that_cannot_be_written_is_told_as_that(tmp_path, monkeypatch):
    def full(*args):
        raise OSError(28, "No space left on device")

    like = plain(tmp_path, TENSORS)
    monkeypatch.setattr("transfuse.checkpoints.writing.write_whole", full)
    with pytest.raises(FusionError, match=r"is written and whole; its model card is not: .*No space left"):
        write_checkpoint(tmp_path / "a.safetensors", Output(TENSORS, like, MADE))
    assert len(open_checkpoint(tmp_path / "a.safetensors").tensors) == len(TENSORS)


HOSTILE = "a|b --> <script>alert(1)</script> `x` [y](z) *w* \n# title \x1b[31m &lt; \\|.pt"


def test_names_in_a_card_are_shown_and_nothing_else(tmp_path):
    made = replace(
        MADE,
        sources=(Origin(HOSTILE, {"x": "0"}, 4, 1.0),),
        command=HOSTILE,
        status=HOSTILE,
        options={"target": HOSTILE},
    )
    text = card(made, HOSTILE)
    assert "\x1b" not in text
    lines = text.splitlines()
    assert [line for line in lines if line.startswith("# ")] == [next(line for line in lines if "\\<script\\>" in line)]
    assert [line.count("-->") for line in lines if line.startswith("<!--")] == [1]
    (row,) = (line for line in lines if line.startswith("| a"))
    assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", row)) == 5, "five ends of cells"
    shown = [line for line in lines if not line.startswith(("    ", "<!--", '- "'))]
    assert not any(re.search(r"(?<!\\)<", line) for line in shown), "no tag"
    assert marker("fused.safetensors") == "<!-- transfuse: card of fused.safetensors -->"


def test_the_same_work_writes_the_same_bytes(tmp_path):
    first, second = (write(tmp_path / name, TENSORS)[0].read_bytes() for name in ("a.safetensors", "b.safetensors"))
    assert first == second


def test_two_runs_onto_one_index_leave_a_whole_checkpoint(tmp_path, monkeypatch):
    """One writes all it has while the other has put its shards, but not yet the index that names them."""
    like = plain(tmp_path, TENSORS)
    out = tmp_path / "fused.safetensors.index.json"
    waits, ended = threading.Event(), threading.Event()
    write_index = sharded_files.write_whole

    def slowly(path, content):
        if threading.current_thread().name == "slow":
            waits.set()
            ended.wait(0.5)
        return write_index(path, content)

    def written(factor):
        tensors = {name: tensor * factor for name, tensor in TENSORS.items()}
        write_checkpoint(out, Output(tensors, like, MADE, shard_bytes=8))

    monkeypatch.setattr(sharded_files, "write_whole", slowly)
    written(1)
    slow = threading.Thread(target=written, args=(2,), name="slow")
    slow.start()
    waits.wait(5)
    quick = threading.Thread(target=lambda: (written(3), ended.set()))
    quick.start()
    slow.join()
    quick.join()
    found = open_checkpoint(out)
    assert set(found.tensors) == set(TENSORS)
    assert {file.name for file in found.files} == {each.name for each in tmp_path.glob("fused-*.safetensors")}


def test_where_a_folder_cannot_be_locked_only_known_shards_go(tmp_path, monkeypatch):
    like = plain(tmp_path, TENSORS)
    out = tmp_path / "fused.safetensors.index.json"
    monkeypatch.setattr("transfuse.files._is_locked", lambda handle: False)
    old = write_checkpoint(out, Output(dict(TENSORS), like, MADE, shard_bytes=8))[1]
    strange = old.with_name(old.name.replace(old.name.split("-")[1], "0" * 8))
    shutil.copy(old, strange)  # of a run that has not written its index yet
    write_checkpoint(out, Output({name: 2 * each for name, each in TENSORS.items()}, like, MADE, shard_bytes=8))
    assert strange.exists()
    assert not old.exists()
