"""Padded batches of symbols, sentence pairs and trees, and their order, a pure function."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from types import MappingProxyType
from typing import ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from repro.data.dependencies.trees import Tree
from repro.data.nli import NliExample
from repro.data.pair import Pair
from repro.data.vocabulary import Vocabulary

NO_HEAD = -1
"""Head of the root and of padding."""
POOL_BATCHES = 50
"""Batches per pool of examples that are sorted by length together."""


def sent(tensor: Tensor, device: torch.device | str) -> Tensor:
    """Copy a tensor of the CPU to ``device``; the host does not wait for the copy."""
    if torch.device(device).type == "cuda":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


class _Batch:
    """Base class of batches: dataclasses of tensors, with a row for each example.

    Attributes:
        on_host: names of the tensors that stay on the CPU, where they are read.
    """

    on_host: ClassVar[frozenset[str]] = frozenset({"indices"})
    indices: Tensor

    def __len__(self) -> int:
        return len(self.indices)

    def to(self, device: torch.device | str) -> Self:
        """Copy the batch to ``device``, except what is read on the CPU."""
        tensors = dict(vars(self))
        for name in tensors.keys() - self.on_host:
            if (one := tensors[name]) is not None:
                tensors[name] = sent(one, device)
        return type(self)(**tensors)


class _PaddedBatch(_Batch):
    """Base class of batches whose loss does not depend on the length of the padding.

    Attributes:
        fill: names of the padded tensors, ``(B, length)``, and the value of their padding.
    """

    fill: ClassVar[Mapping[str, int]]

    def padded(self, step: int) -> Self:
        """Pad lengths to multiples of ``step``."""
        tensors = dict(vars(self))
        for name, value in self.fill.items():
            if (one := tensors[name]) is not None:
                tensors[name] = pad(one, (0, -one.shape[1] % step), value=value)
        return type(self)(**tensors)


@dataclass(frozen=True, eq=False)
class Seq2SeqBatch(_PaddedBatch):
    """Padded batch of ``B`` examples.

    Attributes:
        source: ids, shape ``(B, S)``, filled with ``PAD``.
        source_lengths: number of real source symbols, shape ``(B,)``.
        target: ids, shape ``(B, T)``; each row ends in ``EOS``, then ``PAD``; no ``BOS``.
        indices: positions of the examples in their split, shape ``(B,)``, always on the CPU.
        fertility: upper bounds of the attention to each source word, ``(B, S)``, or None.
    """

    fill = MappingProxyType({"source": Vocabulary.PAD, "target": Vocabulary.PAD, "fertility": 0})
    source: Tensor
    source_lengths: Tensor
    target: Tensor
    indices: Tensor
    fertility: Tensor | None = None

    @property
    def source_mask(self) -> Tensor:
        """Boolean mask of real symbols, shape ``(B, S)``."""
        positions = torch.arange(self.source.shape[1], device=self.source.device)
        return positions < self.source_lengths.unsqueeze(1)


def collate(pairs: Sequence[Pair], indices: Sequence[int]) -> Seq2SeqBatch:
    """Pad the pairs at ``indices`` of a split, in this order; append ``EOS`` to every target."""
    chosen = [pairs[index] for index in indices]
    source, lengths = _padded([pair.source for pair in chosen])
    target, _ = _padded([[*pair.target, Vocabulary.EOS] for pair in chosen])
    return Seq2SeqBatch(source, lengths, target, torch.tensor(list(indices)))


def _padded(rows: Sequence[Sequence[int]], fill: int = Vocabulary.PAD) -> tuple[Tensor, Tensor]:
    """Return numbers ``(B, longest)``, filled up with ``fill``, and lengths ``(B,)``.

    A tensor for each row would take ten times as long, which an accelerator would wait for.
    """
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    table = np.full((len(rows), lengths.max()), fill)
    real = np.arange(table.shape[1]) < lengths[:, None]
    table[real] = np.fromiter(chain.from_iterable(rows), np.int64, lengths.sum())
    return torch.from_numpy(table), torch.from_numpy(lengths)


@dataclass(frozen=True, eq=False)
class NliBatch(_PaddedBatch):
    """Padded batch of ``B`` pairs.

    Attributes:
        premise: ids, shape ``(B, m)``, filled with ``PAD``.
        premise_lengths: number of real words, at least 1, shape ``(B,)``.
        hypothesis: ids, shape ``(B, n)``, filled with ``PAD``.
        hypothesis_lengths: likewise.
        labels: indices into the labels of the corpus, shape ``(B,)``.
        indices: positions of the pairs in their split, shape ``(B,)``, always on the CPU.
        host_lengths: lengths of premise and hypothesis, ``(B, 2)``, always on the CPU.
    """

    on_host = frozenset({"indices", "host_lengths"})
    fill = MappingProxyType({"premise": Vocabulary.PAD, "hypothesis": Vocabulary.PAD})
    premise: Tensor
    premise_lengths: Tensor
    hypothesis: Tensor
    hypothesis_lengths: Tensor
    labels: Tensor
    indices: Tensor
    host_lengths: Tensor


class EncodedPairs:
    """Pairs of a split, also as ids in flat arrays; an empty sentence becomes one unknown word."""

    def __init__(self, examples: Sequence[NliExample], vocabulary: Vocabulary) -> None:
        self.examples = examples
        self._premises = _Ragged(vocabulary.encode(e.premise) for e in examples)
        self._hypotheses = _Ragged(vocabulary.encode(e.hypothesis) for e in examples)
        self._labels = np.array([example.label for example in examples], dtype=np.int64)

    def __len__(self) -> int:
        return len(self._labels)

    @property
    def sort_keys(self) -> list[int]:
        """Sort keys of the pairs: length of the premise, then that of the hypothesis.

        Given to :func:`epoch_batches`, they batch pairs of similar lengths.
        """
        step = self._hypotheses.lengths.max(initial=0) + 1
        keys: list[int] = (self._premises.lengths * step + self._hypotheses.lengths).tolist()
        return keys

    def collate(self, indices: Sequence[int]) -> NliBatch:
        """Make a batch of the pairs at ``indices``, in that order."""
        rows = np.asarray(indices, dtype=np.int64)
        labels = torch.from_numpy(self._labels[rows])
        premises, hypotheses = self._premises.padded(rows), self._hypotheses.padded(rows)
        lengths = torch.stack([premises[1], hypotheses[1]], dim=1)
        return NliBatch(*premises, *hypotheses, labels, torch.from_numpy(rows), lengths)


class _Ragged:
    """Sequences of ids, concatenated in one array; an empty one becomes one unknown word."""

    def __init__(self, sequences: Iterable[Sequence[int]]) -> None:
        arrays = [np.array(ids or [Vocabulary.UNK], dtype=np.int32) for ids in sequences]
        self.lengths = np.array([len(array) for array in arrays], dtype=np.int64)
        self._starts = np.cumsum(self.lengths) - self.lengths
        self._ids: NDArray[np.int32] = np.concatenate([*arrays, np.zeros(0, dtype=np.int32)])

    def padded(self, rows: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        """Return ids ``(B, longest)``, filled with ``PAD``, and lengths ``(B,)``."""
        lengths = self.lengths[rows]
        offsets = np.arange(lengths.max())
        real = offsets < lengths[:, None]
        places = np.where(real, self._starts[rows][:, None] + offsets, 0)
        ids = np.where(real, self._ids[places], Vocabulary.PAD).astype(np.int64)
        return torch.from_numpy(ids), torch.from_numpy(lengths)


@dataclass(frozen=True, eq=False)
class TreeBatch(_Batch):
    """Padded batch of ``B`` sentences; position 0 is the root.

    Attributes:
        words: ids, shape ``(B, n + 1)``; ``BOS`` at position 0, ``PAD`` after the sentence.
        tags: ids, shape ``(B, n + 1)``, with ``BOS`` and ``PAD`` likewise.
        heads: position of each word's head, shape ``(B, n + 1)``; -1 at the root and at padding,
            as in the vertices of ``Arborescence``.
        lengths: number of words without the root, shape ``(B,)``.
        host_lengths: the same, always on the CPU.
        indices: positions of the sentences in their split, shape ``(B,)``, always on the CPU.
    """

    on_host = frozenset({"indices", "host_lengths"})
    words: Tensor
    tags: Tensor
    heads: Tensor
    lengths: Tensor
    host_lengths: Tensor
    indices: Tensor


def collate_trees(trees: Sequence[Tree], indices: Sequence[int]) -> TreeBatch:
    """Pad the sentences at ``indices`` of a split, in this order, and prepend the root to each."""
    chosen = [trees[index] for index in indices]

    def padded(rows: Sequence[Sequence[int]], first: int, last: int = Vocabulary.PAD) -> Tensor:
        return _padded([[first, *row] for row in rows], last)[0]

    lengths = torch.tensor([len(tree.words) for tree in chosen])
    return TreeBatch(
        words=padded([tree.words for tree in chosen], Vocabulary.BOS),
        tags=padded([tree.tags for tree in chosen], Vocabulary.BOS),
        heads=padded([tree.heads for tree in chosen], NO_HEAD, NO_HEAD),
        lengths=lengths,
        host_lengths=lengths,
        indices=torch.tensor(list(indices)),
    )


def epoch_batches(
    lengths: Sequence[int], batch_size: int, seed: int, epoch: int
) -> list[list[int]]:
    """Draw shuffled batches of examples of similar length, every example once.

    The examples are shuffled, cut into pools of 50 batches, sorted by length inside each pool
    and cut into batches, whose order is shuffled again. One batch may be smaller than the others.
    """
    generator = np.random.default_rng([seed, epoch])
    batches = []
    for pool in _cut(generator.permutation(len(lengths)).tolist(), batch_size, POOL_BATCHES):
        batches += _cut(sorted(pool, key=lengths.__getitem__), batch_size)
    return [batches[index] for index in generator.permutation(len(batches))]


def ordered_batches(lengths: Sequence[int], batch_size: int) -> list[list[int]]:
    """Batch every example once by rising length, ties in the given order, for evaluation.

    Only the last batch may be smaller than ``batch_size``.
    """
    return _cut(sorted(range(len(lengths)), key=lengths.__getitem__), batch_size)


def _cut(indices: list[int], batch_size: int, batches: int = 1) -> list[list[int]]:
    """Cut indices into pieces of ``batches * batch_size``; the last one may be smaller."""
    size = batches * batch_size
    return [indices[start : start + size] for start in range(0, len(indices), size)]


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
