"""Fertilities: upper bounds of the total attention that a source word receives."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from repro.config.schema.seq2seq import FertilityConfig
from repro.data.vocabulary import Vocabulary
from repro.models.layers import lstm_states


class Fertility(nn.Module, ABC):
    """Base class of modules that compute the fertilities of source words.

    Args:
        sink: id of the sink token, which is unbounded; None if sources have none.
    """

    def __init__(self, sink: int | None) -> None:
        super().__init__()
        self.sink = sink

    def forward(self, source: Tensor, lengths: Tensor, known: Tensor | None = None) -> Tensor:
        """Return the bounds of ids ``(batch, source)``, infinite for the sink.

        ``lengths`` ``(batch,)`` are those without padding. ``known`` are the bounds of ordinary
        words if they came with the batch.
        """
        bounds = self.bounds(source, lengths) if known is None else known
        return bounds if self.sink is None else bounds.masked_fill(source == self.sink, torch.inf)

    @property
    def aligned(self) -> "AlignedFertility | None":
        """Fertilities of training data that are looked up on the host, for each batch; or None."""
        return None

    @abstractmethod
    def bounds(self, source: Tensor, lengths: Tensor) -> Tensor:
        """Return the bounds of ordinary words, ``(batch, source)``, as floating point numbers."""


class ConstantFertility(Fertility):
    """Fertility that is the same constant for every word.

    References:
        Malaviya et al. (2018), §4, CONSTANT.
    """

    def __init__(self, value: float, sink: int | None) -> None:
        super().__init__(sink)
        self.value = value

    def bounds(self, source: Tensor, lengths: Tensor) -> Tensor:
        """Return the constant for every position."""
        return torch.full(source.shape, self.value, device=source.device)


class TableFertility(Fertility):
    """Fertility looked up in a table with a bound for every id, shape ``(vocabulary,)``.

    References:
        Malaviya et al. (2018), §4, GUIDED: the largest fertility that an aligner found.
    """

    table: Tensor

    def __init__(self, table: Tensor, sink: int | None) -> None:
        super().__init__(sink)
        self.register_buffer("table", table.float())

    def bounds(self, source: Tensor, lengths: Tensor) -> Tensor:
        """Look up each word in the table."""
        return self.table[source]


class AlignedFertility(Fertility):
    """Fertilities of aligned sentences, plus a constant for links that the aligner misses.

    ``sentences`` are ids with the fertilities of their first words (0 for the others). Sentences
    with the same source get the maximum for each word. ``margin`` is added to each fertility.

    References:
        Malaviya et al. (2018), §4.
    """

    def __init__(
        self,
        sentences: Iterable[tuple[Sequence[int], Sequence[int]]],
        sink: int | None,
        margin: float = 1.0,
    ) -> None:
        super().__init__(sink)
        self.margin = margin
        self._known: dict[bytes, NDArray[np.int16]] = {}
        for words, fertilities in sentences:
            found = np.zeros(len(words), np.int16)
            found[: len(fertilities)] = fertilities
            key = _key(words)
            self._known[key] = np.maximum(found, self._known.get(key, 0))

    @property
    def aligned(self) -> "AlignedFertility":
        """The module itself."""
        return self

    def bounds(self, source: Tensor, lengths: Tensor) -> Tensor:
        """Look up each sentence.

        Raises:
            ValueError: a sentence was not aligned.
        """
        ids = source.cpu().numpy()
        bounds = np.zeros(ids.shape, np.float32)
        for row, words, length in zip(bounds, ids, lengths.tolist(), strict=True):
            found = self._known.get(_key(words[:length]))
            if found is None:
                raise ValueError(
                    f"no aligned fertilities for the source sentence {words[:length].tolist()}"
                )
            row[:length] = found + self.margin
        return torch.from_numpy(bounds).to(source.device)


def _key(words: Sequence[int] | NDArray[np.int64]) -> bytes:
    return np.asarray(words, np.int32).tobytes()


class FertilityTagger(nn.Module):
    """Bidirectional LSTM tagger that classifies words by their fertility.

    The ``classes`` are the fertilities from ``least`` on; the last one includes all larger ones.

    References:
        Malaviya et al. (2018), §4, PREDICTED.
    """

    def __init__(self, vocabulary: int, config: FertilityConfig) -> None:
        super().__init__()
        size, layers = config.embedding_size, config.layers
        self.least = config.least
        self.embedding = nn.Embedding(vocabulary, size, padding_idx=Vocabulary.PAD)
        self.lstm = nn.LSTM(
            size,
            config.hidden_size // 2,
            num_layers=layers,
            dropout=config.dropout if layers > 1 else 0.0,  # PyTorch would warn with one layer
            bidirectional=True,
            batch_first=True,
        )
        self.scores = nn.Linear(config.hidden_size, config.classes)

    def forward(self, source: Tensor, lengths: Tensor) -> Tensor:
        """Return the scores of the classes for every word, ``(batch, source, classes)``."""
        states, _ = lstm_states(self.lstm, self.embedding(source), lengths)
        scores: Tensor = self.scores(states)
        return scores

    def expected(self, source: Tensor, lengths: Tensor) -> Tensor:
        """Return the expected fertility of every word, ``(batch, source)``."""
        probs = self(source, lengths).softmax(-1)
        classes = torch.arange(probs.shape[-1], device=probs.device, dtype=probs.dtype)
        return probs @ (self.least + classes)


class PredictedFertility(Fertility):
    """Expected fertility under a trained tagger, plus a constant for links that aligners miss.

    The tagger is frozen and always in evaluation mode. While the model is in training mode,
    ``aligned`` fertilities, if given, replace it. ``margin`` is added to each fertility.

    References:
        Malaviya et al. (2018), §4, PREDICTED; the margin is 1 in their experiments.
    """

    def __init__(
        self,
        tagger: FertilityTagger,
        sink: int | None,
        margin: float = 1.0,
        aligned: AlignedFertility | None = None,
    ) -> None:
        super().__init__(sink)
        self.tagger, self.margin = tagger.requires_grad_(False).eval(), margin
        self._aligned = aligned

    @property
    def aligned(self) -> AlignedFertility | None:
        """Stand-in for the tagger in training."""
        return self._aligned

    def train(self, mode: bool = True) -> Self:
        """Set the mode, but keep the tagger in evaluation mode, without dropout."""
        super().train(mode)
        self.tagger.eval()
        return self

    @torch.no_grad()
    def bounds(self, source: Tensor, lengths: Tensor) -> Tensor:
        """Return aligned fertilities in training mode if there are some, else expected ones."""
        if self.training and self.aligned is not None:
            return self.aligned.bounds(source, lengths)
        return self.tagger.expected(source, lengths) + self.margin
