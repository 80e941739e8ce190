"""Dependency trees encoded as ids."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from repro.data.dependencies.conllu import Sentence
from repro.data.vocabulary import Vocabulary

NUMBER = "NUM"
_DIGITS = frozenset("0123456789")


class Tree(NamedTuple):
    """Ids of the words and tags of one sentence, and the head of each word (0: the root)."""

    words: list[int]
    tags: list[int]
    heads: list[int]


@dataclass(frozen=True)
class TreeEncoder:
    """Encoder of the words and tags of sentences as ids.

    Attributes:
        words: vocabulary of normalized words.
        tags: vocabulary of tags.
        frequency: number of occurrences in the training data of each word of the vocabulary.
        tag_column: column of CoNLL-U that holds the tags, ``"UPOS"`` or ``"XPOS"``.
    """

    words: Vocabulary
    tags: Vocabulary
    frequency: list[int]
    tag_column: str

    @classmethod
    def build(cls, sentences: Sequence[Sentence], tag_column: str) -> "TreeEncoder":
        """Build an encoder from the words and tags of the training data."""
        forms = [[normalize(form) for form in s.column("FORM")] for s in sentences]
        words = Vocabulary.build(forms)
        counts = Counter(form for sentence in forms for form in sentence)
        tags = Vocabulary.build(sentence.column(tag_column) for sentence in sentences)
        return cls(words, tags, [counts[token] for token in words.tokens], tag_column)

    def encode(self, sentence: Sentence) -> Tree:
        """Encode one sentence as ids."""
        forms = [normalize(form) for form in sentence.column("FORM")]
        tags = self.tags.encode(sentence.column(self.tag_column))
        return Tree(self.words.encode(forms), tags, sentence.heads)


def normalize(form: str) -> str:
    """Lower-case a word, or return ``NUM`` if it starts with an ASCII digit ("1990s", "3rd").

    The programs of Kiperwasser & Goldberg (2016) and Niculae et al. (2018) match numbers in the
    same way, at the start of a word.
    """
    return NUMBER if form[:1] in _DIGITS else form.lower()
