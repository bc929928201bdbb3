"""Data sets by name: official files become examples for training, validation and test.

In: a `Data` record. Out: a `Task`: three sets of examples, and notes on what is not as in the official data. Inputs are
kept small (bytes, word numbers) and become what a network reads when a batch is taken. Validation examples are a random
part of the training data (the same for every network), or the official development set where there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from transfuse import InputError
from transfuse.demo.data import DEVIATION, MEAN, digits

from . import readers, text
from .records import Data, OwnClasses
from .skills import numbered, seen
from .sources import CIFAR, SOURCES, cifar, data_folder, glove_file, official

CLASSES = {"mnist": 10, "cifar10": 10, "sst2": 2, "agnews": 4, "dbpedia": 14, "digits": 10, "digits32": 10}


@dataclass(frozen=True, eq=False)
class Examples:
    """Inputs and labels.

    Args:
        inputs: Numbers, one row for each example.
        labels: Classes.
        normal: Mean and deviation for each channel, by which bytes are normalised.
        vectors: The table in which word numbers are looked up.
        topics: Classes that a skill goes by, where labels are something else: the characters that come next.
    """

    inputs: Tensor
    labels: Tensor
    normal: tuple[tuple[float, ...], tuple[float, ...]] | None = None
    vectors: Tensor | None = None
    topics: Tensor | None = None

    def __len__(self) -> int:
        return len(self.labels)

    def part(self, rows: Tensor | slice) -> Examples:
        """Some of them."""
        topics = None if self.topics is None else self.topics[rows]
        return replace(self, inputs=self.inputs[rows], labels=self.labels[rows], topics=topics)

    def read(self, rows: Tensor | slice) -> Tensor:
        """Inputs as a network reads them."""
        chosen = self.inputs[rows]
        if self.vectors is not None:
            return self.vectors[chosen.long()]
        if self.normal is None:
            return chosen if chosen.is_floating_point() else chosen.long()
        mean, deviation = (torch.tensor(each).reshape(-1, 1, 1) for each in self.normal)
        scaled = (chosen.float() / 255 - mean) / deviation
        return scaled if chosen.dim() == 4 else scaled.reshape(chosen.shape)

    def unpadded(self, rows: Tensor | slice) -> Tensor:
        """As `read`, without the first words where all these texts have padding.

        The state of a recurrent network without biases stays zero there, and texts are read faster.
        """
        if self.vectors is None:
            return self.read(rows)
        chosen = self.inputs[rows]
        used = (chosen != text.PADDING).any(0).nonzero()
        first = int(used[0]) if len(used) else chosen.shape[1] - 1
        return self.vectors[chosen[:, first:].long()]

    def batches(self, size: int = 500) -> Iterator[tuple[Tensor, Tensor]]:
        """Pairs of inputs and labels, in order."""
        for start in range(0, len(self), size):
            rows = slice(start, start + size)
            yield self.unpadded(rows), self.labels[rows]


@dataclass(frozen=True, eq=False)
class Batched:
    """Batches of examples that can be read again and again, without keeping what networks read."""

    examples: Examples
    size: int = 500

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        return self.examples.batches(self.size)


@dataclass(frozen=True, eq=False)
class Official:
    """A data set as it is published: examples, a development set if there is one, and notes."""

    train: Examples
    test: Examples
    validation: Examples | None = None
    notes: tuple[str, ...] = field(default=())


@dataclass(frozen=True, eq=False)
class Task:
    """What base networks learn, and what they and the fused ones are measured on."""

    train: Examples
    validation: Examples
    test: Examples
    notes: tuple[str, ...]


@lru_cache(maxsize=4)
def load(data: Data) -> Task:
    """The task of a record; with a skill, of its training examples those that the network sees.

    Raises:
        InputError: files are missing or damaged, or there are fewer examples than asked for.
    """
    if data.name not in READERS:
        raise InputError(f"no data set is called {data.name!r}; the data sets: {', '.join(READERS)}")
    if data.skill is not None:
        whole = load(replace(data, skill=None))
        known = whole.train.labels if whole.train.topics is None else whole.train.topics
        train = whole.train.part(seen(known, data.skill))
        if isinstance(data.skill, OwnClasses):
            train = replace(train, labels=numbered(train.labels, data.skill.own))
        return replace(whole, train=train)
    published = READERS[data.name](data)
    train, validation = _split(published, data)
    if data.train is not None:
        train = _first(train, data.train, "training")
    test = published.test if data.test is None else _first(published.test, data.test, "test")
    return Task(train, validation, test, published.notes)


def _split(published: Official, data: Data) -> tuple[Examples, Examples]:
    """Training and validation examples, both in random order."""
    order = torch.randperm(len(published.train), generator=torch.Generator().manual_seed(0))
    if published.validation is not None:
        return published.train.part(order), _first(published.validation, data.validation, "validation")
    _first(published.train, data.validation + 1, "training")
    cut = len(order) - data.validation
    return published.train.part(order[:cut]), published.train.part(order[cut:])


def _first(examples: Examples, count: int, what: str) -> Examples:
    if len(examples) < count:
        raise InputError(f"there are {len(examples)} {what} examples; {count} were asked for")
    return examples.part(slice(count))


def _digits(data: Data) -> Official:
    """The digits that ship with transfuse; `digits32` are enlarged, for networks that halve their images five times."""
    parts = []
    for images, labels in (digits("train"), digits("test")):
        if data.name == "digits32":
            images = F.interpolate(images, scale_factor=4).repeat(1, 3, 1, 1)
        if data.view == "characters":
            pixels = (images * DEVIATION + MEAN).round().to(torch.uint8).flatten(1)
            parts.append(Examples(pixels[:, :-1], pixels[:, 1:], topics=labels))
        else:
            parts.append(Examples(images[:, 0] if data.view == "rows" else images, labels))
    return Official(parts[0], parts[1], notes=("digits that ship with transfuse, 8 x 8",))


def _mnist(data: Data) -> Official:
    folder, notes = official("mnist", data_folder())
    normal = ((0.1307,), (0.3081,))
    parts = []
    for part in ("train", "t10k"):
        images = torch.from_numpy(readers.idx(folder / f"{part}-images-idx3-ubyte.gz").copy())
        labels = torch.from_numpy(readers.idx(folder / f"{part}-labels-idx1-ubyte.gz").copy())
        images = images.unsqueeze(1) if data.view == "channels" else images
        parts.append(Examples(images, labels.long(), normal))
    return Official(parts[0], parts[1], notes=tuple(notes))


def _cifar(data: Data) -> Official:
    version, folder = cifar(data_folder())
    read, suffix = (readers.cifar_binary, ".bin") if version == "cifar10" else (readers.cifar_python, "")
    batches = [read(folder / f"{name}{suffix}") for name in CIFAR]
    normal = ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616))
    parts = []
    for chosen in (batches[:-1], batches[-1:]):
        images, labels = (torch.from_numpy(np.concatenate(each)) for each in zip(*chosen, strict=True))
        parts.append(Examples(images, labels.long(), normal))
    return Official(parts[0], parts[1])


def _sst2(data: Data) -> Official:
    folder, notes = official("sst2", data_folder())
    read = [readers.tsv_texts(folder / f"{part}.tsv") for part in ("train", "dev", "test")]
    train, dev, test = read
    if train is None or dev is None:
        raise InputError(f"{folder}: train.tsv or dev.tsv has no labels; copy the official files again")
    if test is None:
        notes = [*notes, "test.tsv has no labels: measured on dev.tsv, validated on a part of train.tsv"]
        return _encoded(data, [train, dev], notes)
    return _encoded(data, [train, test, dev], notes)


def _csv(data: Data) -> Official:
    folder, notes = official(data.name, data_folder())
    parts = [readers.csv_texts(folder / f"{part}.csv", CLASSES[data.name]) for part in ("train", "test")]
    return (_spelled if data.view == "characters" else _encoded)(data, parts, notes)


def _encoded(data: Data, parts: Sequence[tuple[list[str], list[int]]], notes: Sequence[str]) -> Official:
    """Texts as numbers of words that have vectors; the vocabulary is that of the training texts."""
    if data.length is None or data.vectors is None:
        raise InputError(f"{data.name} needs the length of texts and the dimensions of vectors; got {data}")
    texts = [[text.words(each) for each in part] for part, _ in parts]
    ordered = text.vocabulary(texts[0])
    dimensions = data.projected_from or data.vectors
    path, partial = glove_file(data_folder(), dimensions)
    found = _vectors(path, frozenset(ordered), dimensions)
    if not found:
        raise InputError(f"{path} has no vector for any word of {data.name}; copy the official file again")
    numbers, table = text.vector_table(ordered, found, data.vectors if data.projected_from else None)
    examples = [
        Examples(text.padded(words, numbers, data.length), torch.tensor(labels), vectors=table)
        for words, (_, labels) in zip(texts, parts, strict=True)
    ]
    covered = f"{text.coverage(texts[1], numbers):.1f} % of the words of the test texts have a vector"
    counted = _counts(data.name, examples)
    return Official(
        examples[0], examples[1], examples[2] if len(examples) > 2 else None, (*notes, *partial, *counted, covered)
    )


def _spelled(data: Data, parts: Sequence[tuple[list[str], list[int]]], notes: Sequence[str]) -> Official:
    """Texts as numbers of characters, in pieces of one length, each character to be foretold from those before it."""
    if data.length is None:
        raise InputError(f"{data.name} needs the length of pieces of text, in characters; got {data}")
    examples = []
    for texts, labels in parts:
        pieces, topics = text.pieces(texts, labels, data.length + 1)
        examples.append(Examples(pieces[:, :-1], pieces[:, 1:], topics=topics))
    return Official(examples[0], examples[1], notes=tuple(notes))


@lru_cache(maxsize=1)
def _vectors(path: Path, words: frozenset[str], dimensions: int) -> dict[str, np.ndarray]:
    return readers.glove(path, words, dimensions)


def _counts(name: str, examples: Sequence[Examples]) -> list[str]:
    """Notes on files with fewer examples than the official ones."""
    found = dict(zip(("train", "test"), map(len, examples), strict=False))
    expected = SOURCES[name].rows
    return [
        f"{found[part]} of the official {expected[part]} {part} examples"
        for part in expected
        if found[part] != expected[part]
    ]


READERS: dict[str, Callable[[Data], Official]] = {
    "digits": _digits,
    "digits32": _digits,
    "mnist": _mnist,
    "cifar10": _cifar,
    "sst2": _sst2,
    "agnews": _csv,
    "dbpedia": _csv,
}
