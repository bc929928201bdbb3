"""Readers on small files made by hand, and on damaged ones."""

import gzip
import pickle

import numpy as np
import pytest

from experiments import readers
from transfuse import InputError


def idx_file(path, array, *, cut=0):
    head = bytes([0, 0, 8, array.ndim]) + b"".join(int(n).to_bytes(4, "big") for n in array.shape)
    content = head + array.astype(np.uint8).tobytes()
    path.write_bytes(gzip.compress(content[: len(content) - cut]))
    return path


def test_idx(tmp_path):
    array = np.arange(24).reshape(2, 3, 4)
    assert (readers.idx(idx_file(tmp_path / "a.gz", array)) == array).all()


def test_idx_refuses_what_is_cut_off(tmp_path):
    with pytest.raises(InputError, match=r"a\.gz has 23 bytes of values; expected 24 for \(2, 3, 4\)"):
        readers.idx(idx_file(tmp_path / "a.gz", np.zeros((2, 3, 4)), cut=1))
    whole = idx_file(tmp_path / "b.gz", np.zeros((20, 30))).read_bytes()
    (tmp_path / "b.gz").write_bytes(whole[:-9])
    with pytest.raises(InputError, match=r"b\.gz is no complete gzip file"):
        readers.idx(tmp_path / "b.gz")


def test_idx_refuses_another_format(tmp_path):
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"PNG..."))
    with pytest.raises(InputError, match="no IDX file of bytes: it begins with 50 4e 47 2e"):
        readers.idx(tmp_path / "a.gz")


def cifar_arrays():
    random = np.random.default_rng(0)
    return random.integers(0, 256, (4, 3, 32, 32), np.uint8), np.array([3, 9, 0, 1], np.uint8)


def test_both_versions_of_cifar_give_the_same(tmp_path):
    images, labels = cifar_arrays()
    rows = np.concatenate([labels[:, None], images.reshape(4, -1)], 1)
    (tmp_path / "a.bin").write_bytes(rows.tobytes())
    content = {b"data": images.reshape(4, -1), b"labels": labels.tolist(), b"batch_label": b"training"}
    (tmp_path / "a").write_bytes(pickle.dumps(content, protocol=2))
    for read, name in ((readers.cifar_binary, "a.bin"), (readers.cifar_python, "a")):
        found = read(tmp_path / name)
        assert (found[0] == images).all()
        assert (found[1] == labels).all()


def test_cifar_refuses_what_is_cut_off(tmp_path):
    (tmp_path / "a.bin").write_bytes(bytes(3073 * 2 - 1))
    with pytest.raises(InputError, match="6145 bytes, no multiple of 3073"):
        readers.cifar_binary(tmp_path / "a.bin")
    (tmp_path / "a").write_bytes(pickle.dumps({b"data": np.zeros(3072, np.uint8), b"labels": [0]})[:-20])
    with pytest.raises(InputError, match="no batch of CIFAR-10, python version"):
        readers.cifar_python(tmp_path / "a")


class Trap:
    def __reduce__(self):
        return (open, ("trapped", "w"))


def test_a_pickle_cannot_call_functions(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").write_bytes(pickle.dumps({b"data": Trap()}))
    with pytest.raises(InputError, match=r"it names (_io|io)\.open"):
        readers.cifar_python(tmp_path / "a")
    assert not (tmp_path / "trapped").exists()


def test_csv(tmp_path):
    (tmp_path / "a.csv").write_text('"3","A, title","He said ""no"""\n1,"b","c"\n', encoding="utf-8")
    assert readers.csv_texts(tmp_path / "a.csv", 4) == (['A, title He said "no"', "b c"], [2, 0])


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ('"3","title"\n', "row 1: expected class, title, text; got 2 fields"),
        ('"1","a","b"\n"x","a","b"\n', "row 2: expected class"),
        ('"5","a","b"\n', "labels 4 to 4, counted from 0; expected 4 classes"),
        ("", "labels none"),
    ],
)
def test_csv_tells_what_is_wrong(tmp_path, content, told):
    (tmp_path / "a.csv").write_text(content)
    with pytest.raises(InputError, match=told):
        readers.csv_texts(tmp_path / "a.csv", 4)


def test_tsv(tmp_path):
    (tmp_path / "a.tsv").write_bytes(b"sentence\tlabel\nfine film \t1\nbad\r\t0\n")
    assert readers.tsv_texts(tmp_path / "a.tsv") == (["fine film", "bad"], [1, 0])
    (tmp_path / "b.tsv").write_text("index\tsentence\n0\tfine\n")
    assert readers.tsv_texts(tmp_path / "b.tsv") is None


@pytest.mark.parametrize(
    ("content", "told"),
    [("text,label\n", "expected the header sentence, label"), ("sentence\tlabel\nfine", "line 2: expected a sentence")],
)
def test_tsv_tells_what_is_wrong(tmp_path, content, told):
    (tmp_path / "a.tsv").write_text(content)
    with pytest.raises(InputError, match=told):
        readers.tsv_texts(tmp_path / "a.tsv")


def test_glove_reads_wanted_words_only(tmp_path):
    (tmp_path / "g.txt").write_text("the 1 2\nof 3 4\ncat 5 6\nbroken 7\n")
    found = readers.glove(tmp_path / "g.txt", {"cat", "the", "dog"}, 2)
    assert {word: vector.tolist() for word, vector in found.items()} == {"the": [1, 2], "cat": [5, 6]}
    with pytest.raises(InputError, match="line 4: expected a word and 2 numbers"):
        readers.glove(tmp_path / "g.txt", {"broken"}, 2)
