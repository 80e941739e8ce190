"""Batches of premise–hypothesis pairs, made by indexing and never pair by pair."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from repro.data.nli import NliExample
from repro.data.vocabulary import Vocabulary


@dataclass(frozen=True, eq=False)
class NliBatch:
    """A padded batch of ``B`` pairs.

    Attributes:
        premise: ids, shape ``(B, m)``, filled with ``PAD``.
        premise_lengths: number of real words, at least 1, shape ``(B,)``.
        hypothesis: ids, shape ``(B, n)``, filled with ``PAD``.
        hypothesis_lengths: likewise.
        labels: indices into :data:`repro.data.nli.LABELS`, shape ``(B,)``.
        indices: positions of the pairs in their split, shape ``(B,)``.
    """

    premise: Tensor
    premise_lengths: Tensor
    hypothesis: Tensor
    hypothesis_lengths: Tensor
    labels: Tensor
    indices: Tensor

    def __len__(self) -> int:
        return self.labels.shape[0]

    def to(self, device: torch.device | str) -> "NliBatch":
        """Copy the batch to ``device``."""
        return NliBatch(*(getattr(self, one.name).to(device) for one in fields(self)))


class EncodedPairs:
    """The pairs of a split as ids in flat arrays.

    Args:
        examples: examples of the split; an empty sentence counts as one unknown word.
        vocabulary: shared by both sentences.
    """

    def __init__(self, examples: Sequence[NliExample], vocabulary: Vocabulary) -> None:
        self._premises = _Ragged(vocabulary.encode(e.premise) for e in examples)
        self._hypotheses = _Ragged(vocabulary.encode(e.hypothesis) for e in examples)
        self._labels = np.array([example.label for example in examples], dtype=np.int64)

    def __len__(self) -> int:
        return len(self._labels)

    @property
    def sort_keys(self) -> list[int]:
        """One number a pair, for batches of like lengths: by premise, then by hypothesis.

        :func:`repro.data.batching.epoch_batches` takes them in place of lengths.
        """
        if not len(self):
            return []
        step = int(self._hypotheses.lengths.max()) + 1
        keys: list[int] = (self._premises.lengths * step + self._hypotheses.lengths).tolist()
        return keys

    def collate(self, indices: Sequence[int]) -> NliBatch:
        """The chosen pairs as a batch, in the order of ``indices``.

        Raises:
            ValueError: no index.
        """
        if not indices:
            raise ValueError("a batch needs at least one pair")
        rows = np.asarray(indices, dtype=np.int64)
        labels = torch.from_numpy(self._labels[rows])
        premises, hypotheses = self._premises.padded(rows), self._hypotheses.padded(rows)
        return NliBatch(*premises, *hypotheses, labels, torch.from_numpy(rows))


class _Ragged:
    """Sequences of ids, one after the other."""

    def __init__(self, sequences: Iterable[Sequence[int]]) -> None:
        arrays = [np.array(ids or [Vocabulary.UNK], dtype=np.int32) for ids in sequences]
        self.lengths = np.array([len(array) for array in arrays], dtype=np.int64)
        self._starts = np.concatenate([[0], np.cumsum(self.lengths)[:-1]]).astype(np.int64)
        self._ids: NDArray[np.int32] = np.concatenate([*arrays, np.zeros(0, dtype=np.int32)])

    def padded(self, rows: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        """Ids ``(B, longest)`` filled with ``PAD``, and lengths ``(B,)``."""
        lengths = self.lengths[rows]
        offsets = np.arange(lengths.max())
        real = offsets < lengths[:, None]
        places = np.where(real, self._starts[rows][:, None] + offsets, 0)
        ids = np.where(real, self._ids[places], Vocabulary.PAD).astype(np.int64)
        return torch.from_numpy(ids), torch.from_numpy(lengths)
