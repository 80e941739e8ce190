"""Upper bounds of the attention that source words may get in a whole translation."""

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class Fertility(nn.Module, ABC):
    """Fertilities of source words.

    Args:
        sink: id of the sink token, which is unbounded; None if sources have none.
    """

    def __init__(self, sink: int | None) -> None:
        super().__init__()
        self.sink = sink

    def forward(self, source: Tensor, mask: Tensor) -> Tensor:
        """Return bounds, infinite for the sink.

        Args:
            source: ids, ``(batch, source)``.
            mask: true at real positions, same shape.
        """
        bounds = self.bounds(source, mask)
        return bounds if self.sink is None else bounds.masked_fill(source == self.sink, torch.inf)

    @abstractmethod
    def bounds(self, source: Tensor, mask: Tensor) -> Tensor:
        """Return bounds of ordinary words, ``(batch, source)``, floating point."""


class ConstantFertility(Fertility):
    """The same bound for every word.

    References:
        Malaviya et al. (2018), §4, CONSTANT.
    """

    def __init__(self, value: float, sink: int | None) -> None:
        super().__init__(sink)
        if not value > 0:
            raise ValueError(f"a fertility is positive, got {value}")
        self.value = value

    def bounds(self, source: Tensor, mask: Tensor) -> Tensor:
        """Return the constant."""
        return torch.full(source.shape, self.value, device=source.device)


class TableFertility(Fertility):
    """A bound for every word of the vocabulary.

    Args:
        table: bound of each id, shape ``(vocabulary,)``.
        sink: id of the sink token.

    References:
        Malaviya et al. (2018), §4, GUIDED: the largest fertility that an aligner found.
    """

    table: Tensor

    def __init__(self, table: Tensor, sink: int | None) -> None:
        super().__init__(sink)
        self.register_buffer("table", table.float())

    def bounds(self, source: Tensor, mask: Tensor) -> Tensor:
        """Look the words up."""
        return self.table[source]


class FertilityTagger(nn.Module):
    """Bidirectional LSTM tagger that classifies words by their fertility.

    Args:
        vocabulary: number of source symbols.
        embedding_size: of a symbol.
        hidden_size: of a state, both directions together; even.
        classes: fertilities ``0 .. classes - 1``; larger ones count as the last.

    References:
        Malaviya et al. (2018), §4, PREDICTED.
    """

    def __init__(
        self, vocabulary: int, embedding_size: int, hidden_size: int, classes: int
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embedding_size, padding_idx=0)
        self.lstm = nn.LSTM(embedding_size, hidden_size // 2, bidirectional=True, batch_first=True)
        self.scores = nn.Linear(hidden_size, classes)

    def forward(self, source: Tensor, mask: Tensor) -> Tensor:
        """Return scores of the fertilities of every word, ``(batch, source, classes)``."""
        lengths = mask.sum(1).cpu()
        packed = pack_padded_sequence(self.embedding(source), lengths, True, enforce_sorted=False)
        states, _ = pad_packed_sequence(
            self.lstm(packed)[0], batch_first=True, total_length=source.shape[1]
        )
        scores: Tensor = self.scores(states)
        return scores

    def expected(self, source: Tensor, mask: Tensor) -> Tensor:
        """Return the expected fertility of every word, ``(batch, source)``."""
        probs = self(source, mask).softmax(-1)
        return probs @ torch.arange(probs.shape[-1], device=probs.device, dtype=probs.dtype)


class PredictedFertility(Fertility):
    """Expected fertility under a trained tagger, and a constant for what aligners miss.

    Args:
        tagger: trained before; it is not trained further.
        sink: id of the sink token.
        margin: the constant.

    References:
        Malaviya et al. (2018), §4, PREDICTED; the margin is 1 in their experiments.
    """

    def __init__(self, tagger: FertilityTagger, sink: int | None, margin: float = 1.0) -> None:
        super().__init__(sink)
        self.tagger, self.margin = tagger.requires_grad_(False), margin

    @torch.no_grad()
    def bounds(self, source: Tensor, mask: Tensor) -> Tensor:
        """Ask the tagger."""
        return self.tagger.expected(source, mask) + self.margin
