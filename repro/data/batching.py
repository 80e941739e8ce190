"""Batches of source–target pairs; every order is a pure function of its arguments."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from repro.data.pair import Pair
from repro.data.vocabulary import Vocabulary

POOL_BATCHES = 50
"""Batches per pool of examples that are sorted by length together."""


@dataclass(frozen=True, eq=False)
class Seq2SeqBatch:
    """Padded batch of ``B`` examples.

    Attributes:
        source: ids, shape ``(B, S)``, filled with ``PAD``.
        source_lengths: number of real source symbols, shape ``(B,)``.
        target: ids, shape ``(B, T)``; each row ends in ``EOS``, then ``PAD``; no ``BOS``.
        indices: positions of the examples in their split, shape ``(B,)``.
    """

    source: Tensor
    source_lengths: Tensor
    target: Tensor
    indices: Tensor

    def __len__(self) -> int:
        return self.source.shape[0]

    @property
    def source_mask(self) -> Tensor:
        """Boolean mask of real symbols, shape ``(B, S)``."""
        positions = torch.arange(self.source.shape[1], device=self.source.device)
        return positions < self.source_lengths.unsqueeze(1)

    def to(self, device: torch.device | str) -> "Seq2SeqBatch":
        """Copy the batch to ``device``."""
        return Seq2SeqBatch(*(getattr(self, one.name).to(device) for one in fields(self)))


def collate(pairs: Sequence[Pair], indices: Sequence[int]) -> Seq2SeqBatch:
    """Pad the pairs at ``indices`` and append ``EOS`` to every target.

    Args:
        pairs: the whole split.
        indices: positions in ``pairs``, in the order of the rows.

    Raises:
        ValueError: no index, an empty source, or a target that holds ``EOS`` already.
    """
    if not indices:
        raise ValueError("a batch needs at least one example")
    chosen = [pairs[index] for index in indices]
    for index, pair in zip(indices, chosen, strict=True):
        if not pair.source or Vocabulary.EOS in pair.target:
            raise ValueError(f"example {index}: a nonempty source and a target without EOS needed")
    sources = [torch.tensor(pair.source) for pair in chosen]
    targets = [torch.tensor([*pair.target, Vocabulary.EOS]) for pair in chosen]
    return Seq2SeqBatch(
        source=pad_sequence(sources, batch_first=True, padding_value=Vocabulary.PAD),
        source_lengths=torch.tensor([len(source) for source in sources]),
        target=pad_sequence(targets, batch_first=True, padding_value=Vocabulary.PAD),
        indices=torch.tensor(list(indices)),
    )


def epoch_batches(
    lengths: Sequence[int], batch_size: int, seed: int, epoch: int
) -> list[list[int]]:
    """Draw shuffled batches of examples of similar length, every example once.

    The examples are shuffled, cut into pools of 50 batches, sorted by length inside each pool
    and cut into batches, whose order is shuffled again.

    Args:
        lengths: length of every example of the split.
        batch_size: examples per batch; one batch of the epoch may be smaller.
        seed: seed of the run, not negative.
        epoch: number of the epoch, not negative.
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
    if batch_size < 1:
        raise ValueError(f"batch_size is at least 1, not {batch_size}")
    size = batches * batch_size
    return [indices[start : start + size] for start in range(0, len(indices), size)]
