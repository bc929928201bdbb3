"""Readers of the official files: a path in, arrays or rows out; nothing is normalised, tokenised or split here.

A file that is not what its format says is refused, with what was found, what was expected, and what to do.
"""

from __future__ import annotations

import csv
import gzip
import pickle
import zlib
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transfuse import InputError

Bytes = NDArray[np.uint8]
AGAIN = "copy the official file again"
CIFAR_RECORD = 1 + 3 * 32 * 32
IDX_BYTES = 8  # the code for unsigned bytes


def idx(path: Path) -> Bytes:
    """An array in the IDX format of MNIST, gzipped."""
    try:
        content = gzip.decompress(path.read_bytes())
    except (EOFError, OSError, zlib.error) as error:
        raise InputError(f"{path} is no complete gzip file ({error}); {AGAIN}") from error
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] != IDX_BYTES:
        raise InputError(f"{path} is no IDX file of bytes: it begins with {content[:4].hex(' ')}; {AGAIN}")
    dimensions = content[3]
    start = 4 + 4 * dimensions
    shape = tuple(int.from_bytes(content[at : at + 4], "big") for at in range(4, start, 4))
    if len(content) != start + int(np.prod(shape)):
        raise InputError(
            f"{path} has {len(content) - start} bytes of values; expected {int(np.prod(shape))} for {shape}; {AGAIN}"
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def cifar_binary(path: Path) -> tuple[Bytes, Bytes]:
    """Images [count, 3, 32, 32] and labels of a batch of CIFAR-10, binary version."""
    content = np.fromfile(path, np.uint8)
    if not len(content) or len(content) % CIFAR_RECORD:
        raise InputError(f"{path} has {len(content)} bytes, no multiple of {CIFAR_RECORD} for each image; {AGAIN}")
    records = content.reshape(-1, CIFAR_RECORD)
    _check_labels(path, records[:, 0], 10)
    return records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0]


class _Arrays(pickle.Unpickler):
    """Reads arrays and nothing else: a pickle could name any function to be called."""

    def find_class(self, module: str, name: str) -> object:
        arrays = module.startswith("numpy") and name in ("_reconstruct", "ndarray", "dtype")
        if arrays or (module, name) == ("_codecs", "encode"):  # the latter makes bytes of text, in files of Python 3
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"it names {module}.{name}")


def cifar_python(path: Path) -> tuple[Bytes, Bytes]:
    """The same of the python version (a pickle; only arrays are read from it)."""
    try:
        with path.open("rb") as file:
            content = _Arrays(file, encoding="bytes").load()
        images = np.asarray(content[b"data"], np.uint8).reshape(-1, 3, 32, 32)
        labels = np.asarray(content[b"labels"], np.uint8)
    except (pickle.UnpicklingError, EOFError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{path} is no batch of CIFAR-10, python version ({error!r}); {AGAIN}") from error
    if len(images) != len(labels):
        raise InputError(f"{path} has {len(images)} images and {len(labels)} labels; {AGAIN}")
    _check_labels(path, labels, 10)
    return images, labels


def csv_texts(path: Path, classes: int) -> tuple[list[str], list[int]]:
    """Title and text of each row of AG News or DBpedia, and labels from 0."""
    texts, labels = [], []
    with path.open(encoding="utf-8", newline="") as file:
        for number, row in enumerate(csv.reader(file), start=1):
            if len(row) != 3 or not row[0].isdecimal():
                raise InputError(f"{path}, row {number}: expected class, title, text; got {len(row)} fields; {AGAIN}")
            labels.append(int(row[0]) - 1)
            texts.append(f"{row[1]} {row[2]}")
    _check_labels(path, np.array(labels, int), classes)
    return texts, labels


def tsv_texts(path: Path) -> tuple[list[str], list[int]] | None:
    """Sentences and labels of SST-2; None for a file without labels, as GLUE's test file is."""
    # A line ends with \n alone: some copies have a \r before the tab.
    lines = path.read_bytes().decode().removesuffix("\n").split("\n")
    header = lines[0].strip().split("\t")
    if header == ["index", "sentence"]:
        return None
    if header != ["sentence", "label"]:
        raise InputError(f"{path} begins with {header}; expected the header sentence, label; {AGAIN}")
    texts, labels = [], []
    for number, line in enumerate(lines[1:], start=2):
        text, _, label = line.strip("\r").rpartition("\t")
        if label not in ("0", "1"):
            raise InputError(f"{path}, line {number}: expected a sentence, a tab, and 0 or 1; got {line!r}; {AGAIN}")
        texts.append(text.strip())
        labels.append(int(label))
    _check_labels(path, np.array(labels, int), 2)
    return texts, labels


def glove(path: Path, words: Collection[str], dimensions: int) -> dict[str, NDArray[np.float32]]:
    """Vectors of those words that the file has."""
    wanted, found = frozenset(words), {}
    with path.open(encoding="utf-8", newline="\n") as file:
        for number, line in enumerate(file, start=1):
            word, _, values = line.rstrip("\n").partition(" ")
            if word not in wanted:
                continue
            try:
                vector = np.array(values.split(" "), np.float32)
            except ValueError:
                vector = np.empty(0, np.float32)
            if len(vector) != dimensions:
                raise InputError(f"{path}, line {number}: expected a word and {dimensions} numbers; {AGAIN}")
            found[word] = vector
    return found


def _check_labels(path: Path, labels: NDArray[Any], classes: int) -> None:
    if not len(labels) or labels.min() < 0 or labels.max() >= classes:
        span = f"{labels.min()} to {labels.max()}" if len(labels) else "none"
        raise InputError(f"{path} has labels {span}, counted from 0; expected {classes} classes; {AGAIN}")
