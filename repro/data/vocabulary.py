"""Vocabulary: bijection between symbols and ids."""

from collections import Counter
from collections.abc import Iterable, Sequence

END = "</s>"
"""Last symbol of an output."""
SPECIALS = ("<pad>", "<unk>", "<s>", END)
SINK = "<SINK>"
"""Last source token, which receives the attention of target words without a counterpart."""


def with_sink(source: Iterable[str]) -> list[str]:
    """Append the sink to the symbols of a source, as bounded attention reads it."""
    return [*source, SINK]


def without_sink(source: Sequence[str]) -> list[str]:
    """Return the symbols of a source without its sink, if there is one."""
    return [*source[:-1]] if SINK in source[-1:] else [*source]


class Vocabulary:
    """Symbols and their ids; the first four are padding, unknown, begin and end.

    Args:
        tokens: symbols in the order of their ids, the four special symbols first.

    Raises:
        ValueError: the special symbols do not come first, or a symbol is repeated.
    """

    PAD = 0
    UNK = 1
    BOS = 2
    EOS = 3

    def __init__(self, tokens: Sequence[str]) -> None:
        if tuple(tokens[: len(SPECIALS)]) != SPECIALS:
            raise ValueError(f"a vocabulary begins with {SPECIALS}, not {tuple(tokens[:4])}")
        self.tokens = list(tokens)
        self._ids = {token: index for index, token in enumerate(self.tokens)}
        if len(self._ids) != len(self.tokens):
            twice = [token for token, count in Counter(self.tokens).items() if count > 1]
            raise ValueError(f"a vocabulary holds each symbol once; more often: {twice[:5]}")

    @classmethod
    def build(cls, sequences: Iterable[Sequence[str]], min_count: int = 1) -> "Vocabulary":
        """Build a vocabulary of the frequent symbols of ``sequences``.

        Args:
            sequences: sequences of symbols; those that look like a special one are left out.
            min_count: symbols with fewer occurrences are dropped.

        Returns:
            The vocabulary, ordered by descending count, then by symbol, hence independent of the
            order of ``sequences``.
        """
        counts = Counter(token for sequence in sequences for token in sequence)
        kept = [t for t, n in counts.items() if n >= min_count and t not in SPECIALS]
        return cls([*SPECIALS, *sorted(kept, key=lambda token: (-counts[token], token))])

    def __len__(self) -> int:
        return len(self.tokens)

    def __contains__(self, token: str) -> bool:
        return token in self._ids

    def encode(self, tokens: Iterable[str]) -> list[int]:
        """Return the ids of ``tokens``, ``UNK`` for unknown ones and those that look special."""
        ids = (self._ids.get(token, self.UNK) for token in tokens)
        return [self.UNK if number < len(SPECIALS) else number for number in ids]

    def decode(self, ids: Iterable[int]) -> list[str]:
        """Return the symbols of ``ids`` up to the first ``EOS``, without ``PAD`` and ``BOS``."""
        symbols = []
        for index in ids:
            if index == self.EOS:
                break
            if index not in (self.PAD, self.BOS):
                symbols.append(self.tokens[index])
        return symbols
