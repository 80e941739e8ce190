"""Sentence pairs as flat arrays of word numbers, which compiled loops can walk."""

from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from repro.data.errors import DataError

Words = Sequence[str]
Pairs = Iterable[tuple[Words, Words]]
Integers = NDArray[np.int32] | NDArray[np.int64]

NULL = 0
"""Number of the source word that target words without a counterpart align to."""
UNKNOWN = -1
"""Number of a word that was not seen in training."""


@dataclass(frozen=True)
class WordNumbers:
    """Numbers of the words of one language; known words start at 1."""

    numbers: dict[str, int]

    def __len__(self) -> int:
        return len(self.numbers)

    def learn(self, sentence: Words) -> list[int]:
        """Return the numbers of a sentence; a new word gets the next number."""
        numbers = self.numbers
        return [numbers.setdefault(word, len(numbers) + 1) for word in sentence]

    def encode(self, sentence: Words) -> list[int]:
        """Return the numbers of a sentence, :data:`UNKNOWN` for new words."""
        return [self.numbers.get(word, UNKNOWN) for word in sentence]


class FlatCorpus(NamedTuple):
    """Both sides of all pairs, one after the other: 4 bytes a word and 16 bytes a pair.

    A named tuple, as compiled loops take it whole; its length is that of the tuple.

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

    @property
    def pairs(self) -> int:
        """Number of sentence pairs."""
        return len(self.source_starts) - 1

    def turned(self) -> "FlatCorpus":
        """Exchange source and target; the arrays are shared."""
        return FlatCorpus(self.target, self.source, self.target_starts, self.source_starts)


def flatten(pairs: Pairs, source: WordNumbers, target: WordNumbers) -> FlatCorpus:
    """Encode and join pairs, which are read once and not kept.

    Raises:
        DataError: a sentence is empty.
    """
    return _join(pairs, source.encode, target.encode)


def number_words(pairs: Pairs) -> tuple[FlatCorpus, WordNumbers, WordNumbers]:
    """Number the words of both sides by first occurrence and join the pairs, in one reading.

    Raises:
        DataError: there is no pair, or a sentence is empty.
    """
    source, target = WordNumbers({}), WordNumbers({})
    corpus = _join(pairs, source.learn, target.learn)
    if not corpus.pairs:
        raise DataError("no sentence pair to train a word aligner on")
    return corpus, source, target


def _join(
    pairs: Pairs, source: Callable[[Words], list[int]], target: Callable[[Words], list[int]]
) -> FlatCorpus:
    words, others = array("i"), array("i")
    starts, other_starts = array("q", [0]), array("q", [0])
    for number, (sentence, other) in enumerate(pairs, start=1):
        if not sentence or not other:
            side = "target" if sentence else "source"
            raise DataError(f"pair {number}: the {side} sentence is empty; cannot align it")
        words.extend(source(sentence))
        others.extend(target(other))
        starts.append(len(words))
        other_starts.append(len(others))
    flat = np.frombuffer(words, np.int32), np.frombuffer(others, np.int32)
    return FlatCorpus(*flat, np.frombuffer(starts, np.int64), np.frombuffer(other_starts, np.int64))
