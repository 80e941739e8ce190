"""Dependency trees encoded as ids, and padded batches of them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from repro.data.dependencies.conllu import Sentence
from repro.data.vocabulary import Vocabulary

NUMBER = "NUM"
NO_HEAD = -1
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
        words: vocabulary of normalised words.
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
        forms = [[normalise(form) for form in s.column("FORM")] for s in sentences]
        words = Vocabulary.build(forms)
        counts = Counter(form for sentence in forms for form in sentence)
        tags = Vocabulary.build(sentence.column(tag_column) for sentence in sentences)
        return cls(words, tags, [counts[token] for token in words.tokens], tag_column)

    def encode(self, sentence: Sentence) -> Tree:
        """Encode one sentence as ids."""
        forms = [normalise(form) for form in sentence.column("FORM")]
        tags = self.tags.encode(sentence.column(self.tag_column))
        return Tree(self.words.encode(forms), tags, sentence.heads)


def normalise(form: str) -> str:
    """Lower-case a word, or return ``NUM`` if it starts with an ASCII digit ("1990s", "3rd").

    The programs of Kiperwasser & Goldberg (2016) and Niculae et al. (2018) match numbers in the
    same way, at the start of a word.
    """
    return NUMBER if form[:1] in _DIGITS else form.lower()


@dataclass(frozen=True, eq=False)
class TreeBatch:
    """Padded batch of ``B`` sentences; position 0 is the root.

    Attributes:
        words: ids, shape ``(B, n + 1)``; ``BOS`` at position 0, ``PAD`` after the sentence.
        tags: ids, shape ``(B, n + 1)``, with ``BOS`` and ``PAD`` likewise.
        heads: position of each word's head, shape ``(B, n + 1)``; -1 at the root and at padding,
            as in the vertices of ``Arborescence``.
        lengths: number of words without the root, shape ``(B,)``, always on the CPU.
        indices: positions of the sentences in their split, shape ``(B,)``.
    """

    words: Tensor
    tags: Tensor
    heads: Tensor
    lengths: Tensor
    indices: Tensor

    def __len__(self) -> int:
        return self.words.shape[0]

    def to(self, device: torch.device | str) -> "TreeBatch":
        """Copy the batch to ``device``."""
        moved = (self.words.to(device), self.tags.to(device), self.heads.to(device))
        return TreeBatch(*moved, self.lengths, self.indices)


def collate_trees(trees: Sequence[Tree], indices: Sequence[int]) -> TreeBatch:
    """Pad the sentences at ``indices`` of a split, in this order, and prepend the root to each."""
    chosen = [trees[index] for index in indices]

    def pad(rows: Sequence[Sequence[int]], first: int, last: int = Vocabulary.PAD) -> Tensor:
        tensors = [torch.tensor([first, *row]) for row in rows]
        return pad_sequence(tensors, batch_first=True, padding_value=last)

    return TreeBatch(
        words=pad([tree.words for tree in chosen], Vocabulary.BOS),
        tags=pad([tree.tags for tree in chosen], Vocabulary.BOS),
        heads=pad([tree.heads for tree in chosen], NO_HEAD, NO_HEAD),
        lengths=torch.tensor([len(tree.words) for tree in chosen]),
        indices=torch.tensor(list(indices)),
    )


def word_batches(lengths: Sequence[int], words: int) -> list[list[int]]:
    """Group sentences by rising length into batches of at most ``words`` words, with padding.

    For evaluation. A longer sentence is a batch of its own.
    """
    batches: list[list[int]] = []
    for index in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batches and (len(batches[-1]) + 1) * lengths[index] <= words:
            batches[-1].append(index)
        else:
            batches.append([index])
    return batches
