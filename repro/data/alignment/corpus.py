"""Sentence pairs as flat arrays of word numbers, which compiled loops can walk."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from repro.data.errors import DataError

Words = Sequence[str]
Pairs = Sequence[tuple[Words, Words]]
Integers = NDArray[np.int64]

NULL = 0
"""Number of the source word that target words without a counterpart align to."""
UNKNOWN = -1
"""Number of a word that was not seen in training."""


@dataclass(frozen=True)
class WordNumbers:
    """Numbers of the words of one language; known words start at 1."""

    numbers: dict[str, int]

    @classmethod
    def of(cls, sentences: Iterable[Words]) -> "WordNumbers":
        """Number words by first occurrence."""
        words = dict.fromkeys(word for sentence in sentences for word in sentence)
        return cls({word: number for number, word in enumerate(words, start=1)})

    def __len__(self) -> int:
        return len(self.numbers)

    def encode(self, sentence: Words) -> list[int]:
        """Numbers of a sentence, :data:`UNKNOWN` for new words."""
        return [self.numbers.get(word, UNKNOWN) for word in sentence]


@dataclass(frozen=True)
class FlatCorpus:
    """Both sides of all pairs, one after the other.

    Attributes:
        source: word numbers of all source sentences.
        target: word numbers of all target sentences.
        source_starts: where each source sentence starts, and the end of the last.
        target_starts: likewise for target sentences.
    """

    source: Integers
    target: Integers
    source_starts: Integers
    target_starts: Integers

    def __len__(self) -> int:
        return len(self.source_starts) - 1


def flatten(pairs: Pairs, source: WordNumbers, target: WordNumbers) -> FlatCorpus:
    """Encode and join pairs.

    Raises:
        DataError: a sentence is empty.
    """
    _check(pairs)
    sides = [source.encode(pair[0]) for pair in pairs], [target.encode(pair[1]) for pair in pairs]
    flats = [np.array([n for s in side for n in s], np.int64) for side in sides]
    starts = [np.cumsum([0, *map(len, side)], dtype=np.int64) for side in sides]
    return FlatCorpus(flats[0], flats[1], starts[0], starts[1])


def _check(pairs: Pairs) -> None:
    for number, (source, target) in enumerate(pairs, start=1):
        if not source or not target:
            side = "target" if source else "source"
            raise DataError(f"pair {number}: the {side} sentence is empty; cannot align it")
