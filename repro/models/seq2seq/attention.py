"""Global attention with bilinear scores, and what it remembers from step to step."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from repro.mappings import Csoftmax, Csparsemax, ProbabilityMap

BoundedMap = Csoftmax | Csparsemax


@dataclass
class Attended:
    """A source and how much of it has been attended; one row for each hypothesis.

    Attributes:
        keys: projected memory, ``(rows, source, query)``.
        memory: encoder states, ``(rows, source, memory)``.
        mask: true at real source positions, ``(rows, source)``.
        spent: cumulative attention ``β``, ``(rows, source)``; None where nobody reads it.
        fertility: upper bounds ``f`` of the cumulative attention, ``(rows, source)``, infinite
            for the sink; None where attention has no bounds.
    """

    keys: Tensor
    memory: Tensor
    mask: Tensor
    spent: Tensor | None = None
    fertility: Tensor | None = None

    def select(self, rows: Tensor) -> "Attended":
        """Gather rows, which may repeat."""
        return Attended(
            self.keys[rows],
            self.memory[rows],
            self.mask[rows],
            None if self.spent is None else self.spent[rows],
            None if self.fertility is None else self.fertility[rows],
        )

    def after(self, weights: Tensor) -> "Attended":
        """What is known once these weights have been spent."""
        return self if self.spent is None else replace(self, spent=self.spent + weights)


class Weighting(nn.Module, ABC):
    """Turns attention scores into weights."""

    remembers = False
    """Whether it reads the cumulative attention."""

    @abstractmethod
    def forward(self, scores: Tensor, source: Attended) -> Tensor:
        """Return weights like ``scores``, ``(rows, source)``, zero at padding."""


class FreeWeighting(Weighting):
    """Weights by a mapping that knows nothing but the scores of this step."""

    def __init__(self, mapping: ProbabilityMap) -> None:
        super().__init__()
        self.mapping = mapping

    def forward(self, scores: Tensor, source: Attended) -> Tensor:
        """Apply the mapping."""
        weights: Tensor = self.mapping(scores, mask=source.mask)
        return weights


class BoundedWeighting(Weighting):
    r"""Weights that never exceed what is left of each word's fertility.

    .. math:: \alpha_t = \mathrm{mapping}(z_t + c\, u_t;\ u_t), \quad u_t = f - \beta_{t-1}

    The sink, whose ``u`` is infinite, gets no bonus.

    Args:
        mapping: csoftmax or csparsemax.
        exhaustion: ``c``, what words with credit left gain.

    References:
        Malaviya et al. (2018), §3, Eq. 5, and §4, *Exhaustion strategies*.
    """

    remembers = True

    def __init__(self, mapping: BoundedMap, exhaustion: float = 0.0) -> None:
        super().__init__()
        self.mapping, self.exhaustion = mapping, exhaustion

    def forward(self, scores: Tensor, source: Attended) -> Tensor:
        """Apply the mapping.

        Raises:
            ValueError: there is no fertility, or the fertilities of a row are used up.
        """
        if source.spent is None or source.fertility is None:
            raise ValueError("bounded attention needs fertilities; the model has none")
        left = (source.fertility - source.spent).clamp(min=0.0)
        if self.exhaustion:
            scores = scores + self.exhaustion * left.masked_fill(left == torch.inf, 0.0)
        return self.mapping(scores, left, mask=source.mask)


class GlobalAttention(nn.Module):
    r"""Attend to a memory with a query.

    .. math:: z_j = s^\top (W h_j + v\, \beta_j), \quad \pi = \mathrm{weighting}(z), \quad
              c = \sum_j \pi_j h_j

    The term with the cumulative attention ``β`` is there only with a coverage vector.

    Args:
        query_size: of ``s``.
        memory_size: of ``h``.
        weighting: from scores to weights.
        coverage_vector: learn ``v``.

    References:
        Peters et al. (2019), §2, Eq. 1; Luong et al. (2015), "general"; Malaviya et al. (2018),
        §5, COVVECTOR.
    """

    def __init__(
        self, query_size: int, memory_size: int, weighting: Weighting, coverage_vector: bool = False
    ) -> None:
        super().__init__()
        self.key = nn.Linear(memory_size, query_size, bias=False)
        self.weighting = weighting
        self.coverage = nn.Linear(query_size, 1, bias=False) if coverage_vector else None

    @property
    def remembers(self) -> bool:
        """Whether steps depend on the cumulative attention."""
        return self.coverage is not None or self.weighting.remembers

    def attend_to(self, memory: Tensor, mask: Tensor, fertility: Tensor | None) -> Attended:
        """What the steps read: keys ``W h_j``, computed once for a sentence, nothing spent."""
        spent = memory.new_zeros(mask.shape) if self.remembers else None
        memory = _in_precision_of_products(memory)
        return Attended(self.key(memory), memory, mask, spent, fertility)

    def forward(self, query: Tensor, source: Attended) -> tuple[Tensor, Tensor]:
        """Return the context and the weights.

        Args:
            query: shape ``(rows, query)``.
            source: of the same rows.

        Returns:
            Context ``(rows, memory)`` and weights ``(rows, source)``; the weights sum to one.
        """
        scores = torch.bmm(source.keys, query.unsqueeze(-1)).squeeze(-1)
        if self.coverage is not None and source.spent is not None:
            scores = scores + self.coverage(query) * source.spent
        # Half precision would decide which weights are zero, and round what has been spent.
        whole = torch.promote_types(scores.dtype, torch.float32)
        weights = self.weighting(scores.to(whole), source)
        context = torch.bmm(weights.unsqueeze(1), source.memory).squeeze(1)
        return context, weights


def _in_precision_of_products(memory: Tensor) -> Tensor:
    """As autocast would turn it for a product, but once instead of at every step."""
    device = memory.device.type
    if not torch.is_autocast_enabled(device):
        return memory
    return memory.to(torch.get_autocast_dtype(device))
