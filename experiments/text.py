"""Texts become sequences of GloVe vectors: words, a vocabulary, numbers padded on the left.

In: texts and vectors by word. Out: a matrix of word numbers [texts, length] and a table of vectors [words, dimensions].
Number 0 is padding (the zero vector), number 1 every word without a vector (the mean vector of the vocabulary). Padding
stands on the left, so that the last state of a recurrent network has just read the end of the text. For models of
language, texts become pieces of numbered characters instead.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

PADDING, UNKNOWN = 0, 1
CHARACTERS = "\n" + "".join(map(chr, range(32, 127)))  # line feed, and what can be printed of ASCII
# As GloVe's words were made: clitics apart (does n't, it 's), every other sign on its own.
WORD = re.compile(r"n't\b|'(?:s|re|ve|ll|d|m)\b|\w+?(?=n't\b)|\w+|[^\w\s]")
# AG News has lost the ampersands of its character references: " #39;s", " lt;b gt;".
BROKEN = re.compile(r"\s?#(?:39|36);|(?<!\w)(?:quot|amp|lt|gt);")
MEANT = {"#39;": "'", "#36;": "$", "quot;": '"', "amp;": "&", "lt;": "<", "gt;": ">"}


def words(text: str) -> list[str]:
    """The words of a text, in lower case.

    Example:
        >>> words("It doesn't matter, Dell #39;s PC")
        ['it', 'does', "n't", 'matter', ',', 'dell', "'s", 'pc']
    """
    whole = BROKEN.sub(lambda match: MEANT[match[0].strip()], html.unescape(text))
    return WORD.findall(whole.replace("\\", " ").lower())


def vocabulary(texts: Iterable[Sequence[str]]) -> list[str]:
    """Words by frequency, the most frequent first; in alphabetical order where that is equal."""
    counts = Counter(word for text in texts for word in text)
    return sorted(counts, key=lambda word: (-counts[word], word))


def vector_table(
    ordered: Sequence[str], vectors: Mapping[str, NDArray[np.float32]], components: int | None = None
) -> tuple[dict[str, int], Tensor]:
    """Numbers of the words that have a vector, and the table of vectors.

    Args:
        ordered: The vocabulary.
        vectors: By word.
        components: How many principal components the vectors are projected on.
    """
    known = [word for word in ordered if word in vectors]
    table = np.stack([vectors[word] for word in known]).astype(np.float64)
    if components is not None:
        table = _projected(table, components)
    rows = np.concatenate([np.zeros((1, table.shape[1])), table.mean(0, keepdims=True), table])
    return {word: number for number, word in enumerate(known, start=2)}, torch.from_numpy(rows.astype(np.float32))


def _projected(table: NDArray[np.float64], components: int) -> NDArray[np.float64]:
    """On principal components; the sign of each is such that its largest entry is positive."""
    centred = table - table.mean(0)
    _, directions = np.linalg.eigh(centred.T @ centred)
    chosen = directions[:, ::-1][:, :components]
    signs = np.sign(chosen[np.abs(chosen).argmax(0), np.arange(chosen.shape[1])])
    projected: NDArray[np.float64] = centred @ (chosen * signs)
    return projected


def padded(texts: Sequence[Sequence[str]], numbers: Mapping[str, int], length: int) -> Tensor:
    """Word numbers [texts, length]: the first `length` words, padded on the left.

    Example:
        >>> padded([["a", "b"], ["c"]], {"a": 2, "b": 3}, 3).tolist()
        [[0, 2, 3], [0, 0, 1]]
    """
    result = torch.zeros(len(texts), length, dtype=torch.int32)
    for row, text in enumerate(texts):
        cut = text[:length]
        if cut:
            result[row, length - len(cut) :] = torch.tensor([numbers.get(word, UNKNOWN) for word in cut])
    return result


def coverage(texts: Iterable[Sequence[str]], numbers: Mapping[str, int]) -> float:
    """The share of running words that have a vector, in percent."""
    counts = Counter(word in numbers for text in texts for word in text)
    return 100 * counts[True] / max(1, counts.total())


def pieces(texts: Sequence[str], labels: Sequence[int], length: int) -> tuple[Tensor, Tensor]:
    r"""Texts as numbers of characters, cut into whole pieces [pieces, length], and the class of each piece's text.

    A text ends with a line feed. Characters that are not in `CHARACTERS`, and the end of a text that fills no piece,
    are left out.

    Example:
        >>> numbers, classes = pieces(["ab", "cdef"], [0, 1], 3)
        >>> "".join(CHARACTERS[each] for each in numbers.flatten()), classes.tolist()
        ('ab\ncde', [0, 1])
    """
    table = np.full(256, 255, np.uint8)
    for number, character in enumerate(CHARACTERS):
        table[ord(character)] = number
    found, classes = [], []
    for whole, label in zip(texts, labels, strict=True):
        numbers = table[np.frombuffer((whole + "\n").encode("ascii", "ignore"), np.uint8)]
        numbers = numbers[numbers != 255]
        count = len(numbers) // length
        found.append(numbers[: count * length].reshape(count, length))
        classes += [label] * count
    return torch.from_numpy(np.concatenate(found)), torch.tensor(classes)
