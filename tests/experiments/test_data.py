"""Data sets from official files, laid out by hand and tiny; missing files are told at once."""

import gzip
from dataclasses import replace

import numpy as np
import pytest
import torch
from experiments.data import Batched, load
from experiments.networks import build
from experiments.records import Build, Classes, Data, Skill

from experiments import sources
from transfuse import InputError


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(sources.VARIABLE, str(tmp_path))
    load.cache_clear()
    yield tmp_path
    load.cache_clear()


def test_missing_files_are_listed_all_at_once_with_their_place(folder):
    (folder / "mnist").mkdir()
    (folder / "mnist" / "t10k-labels-idx1-ubyte.gz").write_bytes(b"")
    with pytest.raises(InputError) as error:
        load(Data("mnist"))
    for text in (
        str(folder / "mnist"),
        "train-images-idx3-ubyte.gz, train-labels-idx1-ubyte.gz",
        "ossci",
        "TRANSFUSE_",
    ):
        assert text in str(error.value)
    assert "t10k-labels" not in str(error.value)


@pytest.mark.parametrize("name", ["cifar10", "sst2", "agnews", "dbpedia"])
def test_every_data_set_says_what_it_needs(folder, name):
    with pytest.raises(InputError, match="Put the official files there"):
        load(Data(name, length=5, vectors=2))


def test_files_that_are_not_the_official_ones_are_refused(folder):
    (folder / "mnist").mkdir()
    for name in sources.SOURCES["mnist"].files:
        (folder / "mnist" / name).write_bytes(gzip.compress(b"nothing"))
    with pytest.raises(InputError, match="cut short or changed"):
        load(Data("mnist"))


def test_an_unknown_data_set_is_told(folder):
    with pytest.raises(InputError, match="no data set is called 'imagenet'"):
        load(Data("imagenet"))


def cifar_files(folder):
    random = np.random.default_rng(0)
    place = folder / "cifar-10-batches-bin"
    place.mkdir()
    for name in sources.CIFAR:
        rows = random.integers(0, 256, (10, 3073), np.uint8)
        rows[:, 0] = np.arange(10)
        (place / f"{name}.bin").write_bytes(rows.tobytes())


def test_cifar_is_split_and_normalised(folder):
    cifar_files(folder)
    task = load(Data("cifar10", validation=20))
    assert (len(task.train), len(task.validation), len(task.test)) == (30, 20, 10)
    raw = task.test.inputs[0, 2, 5, 6].item()
    assert task.test.read(slice(1))[0, 2, 5, 6].item() == pytest.approx((raw / 255 - 0.4465) / 0.2616, abs=1e-6)


def test_validation_examples_are_not_trained_on_and_do_not_change(folder):
    cifar_files(folder)
    load.cache_clear()
    tasks = [load(Data("cifar10", validation=20, train=count)) for count in (None, 7)]
    seen, kept = ({each.numpy().tobytes() for each in part.inputs} for part in (tasks[0].train, tasks[0].validation))
    assert not seen & kept
    assert torch.equal(tasks[0].validation.inputs, tasks[1].validation.inputs)
    assert torch.equal(tasks[0].train.inputs[:7], tasks[1].train.inputs)


def text_files(folder, rows=6):
    place = folder / "ag_news_csv"
    place.mkdir()
    for name in ("train", "test"):
        lines = [f'"{1 + number % 4}","cat","sat on mat{number % 2}"' for number in range(rows)]
        (place / f"{name}.csv").write_text("\n".join(lines))
    (folder / "glove").mkdir()
    (folder / "glove" / "glove.6B.2d.txt").write_text("cat 1 0\non 0 1\nsat 1 1\n")


def test_texts_become_vectors_and_notes_say_what_is_not_official(folder):
    text_files(folder)
    task = load(Data("agnews", "words", validation=2, length=5, vectors=2))
    assert (len(task.train), len(task.validation), len(task.test)) == (4, 2, 6)
    (inputs, labels), *_ = Batched(task.test, 3)
    words = [[1, 0], [1, 1], [0, 1], pytest.approx([2 / 3, 2 / 3])]
    assert inputs[0].tolist() == words  # what is padding in all of them is left out
    assert task.test.read(slice(3))[0].tolist() == [[0, 0], *words]
    assert labels.tolist() == [0, 1, 2]
    notes = "\n".join(task.notes)
    for text in ("test.csv is not the official file", "6 of the official 120000 train", "75.0 % of the words"):
        assert text in notes


@pytest.mark.parametrize("name", ["rnn", "lstm"])
def test_networks_without_biases_do_not_notice_that_padding_is_left_out(folder, name):
    text_files(folder)
    task = load(Data("agnews", "words", validation=2, length=9, vectors=2))
    network = build(Build(name, {"hidden": 4, "inputs": 2, "classes": 4}))
    torch.testing.assert_close(network(task.test.unpadded(slice(3))), network(task.test.read(slice(3))))
    assert task.test.unpadded(slice(3)).shape[1] == 4


def test_characters_are_foretold_and_a_skill_goes_by_the_class_of_the_text(folder):
    text_files(folder)
    data = Data("agnews", "characters", validation=2, length=6)
    task = load(data)
    assert (len(task.train), len(task.validation), len(task.test)) == (10, 2, 12)  # "cat sat on mat0" is two pieces
    assert torch.equal(task.test.read(slice(4))[:, 1:], task.test.labels[:4, :-1].long())
    seen = load(replace(data, skill=Classes((0, 1)))).train
    assert 0 < len(seen) < len(task.train)
    assert set(seen.topics.tolist()) <= {0, 1}


def test_a_text_without_vectors_is_refused(folder):
    text_files(folder)
    (folder / "glove" / "glove.6B.2d.txt").write_text("dog 1 0\n")
    with pytest.raises(InputError, match="no vector for any word of agnews"):
        load(Data("agnews", "words", validation=2, length=5, vectors=2))
    with pytest.raises(InputError, match=r"lacks glove\.6B\.3d\.txt"):
        load(Data("agnews", "words", validation=2, length=5, vectors=3))


def sst_files(folder, test):
    (folder / "SST-2").mkdir()
    for name in ("train", "dev"):
        rows = "".join(f"cat on {name}\t{number % 2}\n" for number in range(5))
        (folder / "SST-2" / f"{name}.tsv").write_text("sentence\tlabel\n" + rows)
    (folder / "SST-2" / "test.tsv").write_text(test)
    (folder / "glove").mkdir()
    (folder / "glove" / "glove.6B.2d.txt").write_text("cat 1 0\non 0 1\n")


@pytest.mark.parametrize(
    ("test", "sizes"), [("sentence\tlabel\ncat\t1\n", (5, 3, 1)), ("index\tsentence\n0\tcat\n", (2, 3, 5))]
)
def test_sst2_validates_on_its_development_set_unless_that_is_the_only_test(folder, test, sizes):
    sst_files(folder, test)
    task = load(Data("sst2", "words", validation=3, length=4, vectors=2))
    assert (len(task.train), len(task.validation), len(task.test)) == sizes
    assert any("test.tsv has no labels" in note for note in task.notes) == (sizes[2] == 5)


def test_only_one_network_knows_the_digit_and_they_share_nothing_else():
    a, b = (load(Data("digits", validation=100, skill=Skill(4, knows, share))) for knows, share in SHARES)
    whole = load(Data("digits", validation=100))
    assert int((b.train.labels == 4).sum()) == 0
    assert int((a.train.labels == 4).sum()) == int((whole.train.labels == 4).sum())
    assert len(a.train) + len(b.train) == len(whole.train)
    assert torch.equal(a.test.labels, whole.test.labels)


SHARES = ((True, 0.1), (False, 0.9))
