"""Word vectors from co-occurrences in text."""

import math
from collections import Counter

import numpy as np
import pytest
import torch

from repro.data.cooccurrence import SMOOTHING, WINDOW, cooccurrence_vectors
from repro.data.vocabulary import SPECIALS, Vocabulary
from repro.errors import DataError

VOCABULARY = Vocabulary([*SPECIALS, "a", "b", "c", "d", "alone"])
TEXT = [["a", "b", "c", "x", "d"], ["b", "c", "b", "a"], ["d", "c"], ["alone"], []]


def information(text: list[list[str]], words: list[str]) -> np.ndarray:
    """Positive mutual information by its definition, pair by pair."""
    pairs: Counter[tuple[str, str]] = Counter()
    for sentence in text:
        for i, first in enumerate(sentence):
            for j, second in enumerate(sentence):
                if i != j and abs(i - j) <= WINDOW:
                    pairs[first, second] += 1 / abs(i - j)  # type: ignore[assignment]
    pairs = Counter({key: n for key, n in pairs.items() if {*key} <= {*words}})
    total = {w: sum(n for (first, _), n in pairs.items() if first == w) for w in words}
    context = sum(n**SMOOTHING for n in total.values())

    def cell(w: str, c: str) -> float:
        if not pairs[w, c]:
            return 0.0
        return max(0.0, math.log(pairs[w, c] * context / (total[w] * total[c] ** SMOOTHING)))

    return np.array([[cell(w, c) for c in words] for w in words])


def test_the_vectors_are_those_of_the_definition():
    found = cooccurrence_vectors(TEXT, VOCABULARY, dimension=2, deviation=0.3)
    assert found.rows.tolist() == [4, 5, 6, 7]
    left, values, _ = np.linalg.svd(information(TEXT, ["a", "b", "c", "d"]))
    expected = left[:, :2] * np.sqrt(values[:2])
    expected *= 0.3 / expected.std()
    ours = found.vectors.double().numpy()
    np.testing.assert_allclose(ours @ ours.T, expected @ expected.T, atol=1e-6)
    assert found.vectors.std(correction=0).item() == pytest.approx(0.3)


def test_the_same_text_gives_the_same_bits():
    first, second = (cooccurrence_vectors(TEXT, VOCABULARY, 2, 1.0) for _ in range(2))
    assert torch.equal(first.vectors, second.vectors)


def test_words_in_like_places_are_near():
    generator = np.random.default_rng(0)
    nouns, verbs = ["cat", "dog", "fox"], ["eats", "sees", "has"]
    text = [
        ["the", nouns[i], verbs[j], "the", nouns[k]]
        for i, j, k in generator.integers(0, 3, (2000, 3))
    ]
    vocabulary = Vocabulary.build(text)
    vectors = cooccurrence_vectors(text, vocabulary, 3, 1.0).vectors
    unit = dict(
        zip(vocabulary.tokens[len(SPECIALS) :], torch.nn.functional.normalize(vectors), strict=True)
    )
    assert unit["cat"] @ unit["dog"] > 0.9 > 0.7 > unit["cat"] @ unit["eats"]


@pytest.mark.parametrize("text", [TEXT, []])
def test_too_little_text_is_refused(text):
    with pytest.raises(DataError, match=r"model\.vector_size=4 needs more than 4 words"):
        cooccurrence_vectors(text, VOCABULARY, dimension=4, deviation=1.0)
