"""The two-way table between symbols and ids."""

from collections import Counter
from collections.abc import Iterable, Sequence

SPECIALS = ("<pad>", "<unk>", "<s>", "</s>")


class Vocabulary:
    """Symbols and their ids; the first four ids are padding, unknown, begin and end.

    Args:
        tokens: every symbol in the order of its id, the four special symbols first.

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
        """Count the symbols of ``sequences`` and keep the frequent ones.

        Args:
            sequences: sequences of symbols; a special symbol among them keeps its own id.
            min_count: a symbol is kept when it occurs at least this often.

        Returns:
            The vocabulary, ordered by falling count, then by symbol: independent of the order
            of ``sequences``.
        """
        counts = Counter(token for sequence in sequences for token in sequence)
        kept = [t for t, n in counts.items() if n >= min_count and t not in SPECIALS]
        return cls([*SPECIALS, *sorted(kept, key=lambda token: (-counts[token], token))])

    def __len__(self) -> int:
        return len(self.tokens)

    def __contains__(self, token: str) -> bool:
        return token in self._ids

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.tokens == other.tokens

    def __hash__(self) -> int:
        return hash(tuple(self.tokens))

    def encode(self, tokens: Iterable[str]) -> list[int]:
        """Ids of ``tokens``, unknown ones as ``UNK``; adds neither ``BOS`` nor ``EOS``."""
        return [self._ids.get(token, self.UNK) for token in tokens]

    def decode(self, ids: Iterable[int]) -> list[str]:
        """Symbols of ``ids`` up to the first ``EOS``, without ``PAD`` and ``BOS``."""
        symbols = []
        for index in ids:
            if index == self.EOS:
                break
            if index not in (self.PAD, self.BOS):
                symbols.append(self.tokens[index])
        return symbols

    def to_json(self) -> list[str]:
        """The symbols as a list that ``json`` can write; read back by :meth:`from_json`."""
        return list(self.tokens)

    @classmethod
    def from_json(cls, tokens: object) -> "Vocabulary":
        """Read what :meth:`to_json` gave.

        Raises:
            ValueError: not a list of strings, or not a vocabulary.
        """
        if not isinstance(tokens, list) or not all(isinstance(t, str) for t in tokens):
            raise ValueError("a stored vocabulary is a list of strings")
        return cls(tokens)
