"""Words and subwords: Moses tokenization (sacremoses) and byte pair encoding (subword-nmt)."""

import contextlib
import io
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from pathlib import Path

from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe

from repro.atomic import atomic_write_text

SEPARATOR = "@@"
"""Suffix of every subword that does not end a word."""
_CACHE_SIZE = 1 << 19
"""Maximum number of words whose subwords are cached."""


@lru_cache(maxsize=8)
def moses_tokenizer(language: str) -> Callable[[str], str]:
    """Return a function that separates words and punctuation by spaces, as the Moses scripts do.

    The two-letter language code selects the list of abbreviations.
    """
    from sacremoses import MosesTokenizer  # takes a second to import

    tokenizer = MosesTokenizer(lang=language)
    return lambda text: str(tokenizer.tokenize(text, return_str=True, escape=False))


@lru_cache(maxsize=8)
def moses_detokenizer(language: str) -> Callable[[str], str]:
    """Return an approximate inverse of what :func:`moses_tokenizer` returns; spaces may differ."""
    from sacremoses import MosesDetokenizer

    detokenizer = MosesDetokenizer(lang=language)
    return lambda text: str(detokenizer.detokenize(text.split(), return_str=True))


class SubwordSegmenter:
    """Byte pair encoding with learned merges: ``codes`` in the format of subword-nmt.

    References:
        Sennrich, Haddow & Birch (2016), Neural machine translation of rare words with subword
        units.
    """

    def __init__(self, codes: str) -> None:
        self._codes = codes
        bpe = BPE(io.StringIO(codes), separator=SEPARATOR)

        @lru_cache(_CACHE_SIZE)
        def pieces(word: str) -> str:
            bpe.cache.clear()  # which would grow without bound
            return " ".join(bpe.segment_tokens([word]))

        self._pieces = pieces

    @classmethod
    def learn(cls, sentences: Iterable[str], merges: int) -> "SubwordSegmenter":
        """Learn merges from tokenized sentences; ties are broken by the symbols.

        Sentences are read once and not stored: memory grows with the number of distinct words.
        """
        codes = io.StringIO()
        # Suppress the progress bar of the library, which would also go into log files.
        with contextlib.redirect_stderr(io.StringIO()):
            learn_bpe((f"{sentence}\n" for sentence in sentences), codes, merges)
        return cls(codes.getvalue())

    def save(self, path: Path) -> None:
        """Write the merges to a file."""
        atomic_write_text(path, self._codes)

    def __call__(self, sentence: str) -> str:
        """Split the words of a tokenized sentence into subwords."""
        return " ".join(map(self._pieces, filter(None, sentence.strip("\r\n ").split(" "))))


def join_subwords(tokens: Sequence[str]) -> list[str]:
    """Join subwords into words; the last word may be incomplete."""
    return " ".join(tokens).replace(f"{SEPARATOR} ", "").removesuffix(SEPARATOR).split()
