"""Words, vocabularies, tables of vectors, padding."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments import text


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("The Results; a draw", ["the", "results", ";", "a", "draw"]),
        ("a result; default gt;", ["a", "result", ";", "default", ">"]),
        ("Intel #39;s &lt;b&gt; #36;5", ["intel", "'s", "<", "b", ">", "$", "5"]),
        ("can't won't they're", ["ca", "n't", "wo", "n't", "they", "'re"]),
        ("one\\two", ["one", "two"]),
        ("", []),
    ],
)
def test_words(raw, expected):
    assert text.words(raw) == expected


def test_a_vocabulary_is_ordered_by_frequency_then_alphabet():
    assert text.vocabulary([["b", "a", "c"], ["c", "a"], ["c"]]) == ["c", "a", "b"]


WORDS = st.lists(st.sampled_from("abcdefg"), max_size=8)


@given(st.lists(WORDS, min_size=1, max_size=5), st.integers(1, 6))
def test_padding_stands_on_the_left_and_words_keep_their_order(texts, length):
    numbers = {word: number for number, word in enumerate("abcde", start=2)}
    found = text.padded(texts, numbers, length)
    for row, words in zip(found.tolist(), texts, strict=True):
        cut = [numbers.get(word, text.UNKNOWN) for word in words[:length]]
        assert row == [text.PADDING] * (length - len(cut)) + cut


def test_the_table_has_padding_unknown_and_known_words():
    vectors = {"a": np.array([1, 2], np.float32), "c": np.array([3, 6], np.float32), "unused": np.zeros(2, np.float32)}
    numbers, table = text.vector_table(["c", "b", "a"], vectors)
    assert numbers == {"c": 2, "a": 3}
    assert table.tolist() == [[0, 0], [2, 4], [3, 6], [1, 2]]
    assert text.coverage([["a", "b"], ["c", "c"]], numbers) == 75


def test_projection_keeps_what_lies_in_the_principal_components():
    random = np.random.default_rng(0)
    flat = random.normal(size=(30, 2)) @ random.normal(size=(2, 5))
    vectors = {str(number): row.astype(np.float32) for number, row in enumerate(flat)}
    _, table = text.vector_table(list(vectors), vectors, 2)
    own, projected = (each - each.mean(0) for each in (flat, table[2:].numpy()))
    np.testing.assert_allclose(projected @ projected.T, own @ own.T, atol=1e-4)


@given(st.lists(st.text(max_size=30), min_size=1, max_size=5), st.integers(1, 7))
def test_pieces_are_the_characters_of_their_text_in_order(texts, length):
    numbers, classes = text.pieces(texts, range(len(texts)), length)
    for number, whole in enumerate(texts):
        known = "".join(each for each in whole if each in text.CHARACTERS) + "\n"
        own = numbers[classes == number].flatten()
        assert "".join(text.CHARACTERS[each] for each in own) == known[: len(known) // length * length]
