"""Global attention with bilinear scores, and its state between steps."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from repro.mappings import Csoftmax, Csparsemax, ProbabilityMap
from repro.models.seq2seq.step_products import StepProduct, product_dtype, step_products, sum_dtype

BoundedMap = Csoftmax | Csparsemax


@dataclass
class AttentionState:
    """Encoded source and the attention it has received; one row for each hypothesis."""

    keys: Tensor  # projected memory, (rows, source, query)
    memory: Tensor  # encoder states, (rows, source, memory)
    mask: Tensor  # true at real source positions, (rows, source)
    coverage: Tensor | None = None  # cumulative attention β, (rows, source); None if unused
    fertility: Tensor | None = None  # upper bounds f of β, infinite for the sink; None if none

    def select(self, rows: Tensor) -> "AttentionState":
        """Gather rows, which may repeat."""
        return AttentionState(
            self.keys[rows],
            self.memory[rows],
            self.mask[rows],
            None if self.coverage is None else self.coverage[rows],
            None if self.fertility is None else self.fertility[rows],
        )

    def after(self, weights: Tensor) -> "AttentionState":
        """Return the state after a step with the given attention weights."""
        if self.coverage is None:
            return self
        return replace(self, coverage=self.coverage + weights)


class AttentionNormalizer(nn.Module, ABC):
    """Base class of modules that turn attention scores into weights."""

    reads_coverage = False
    """Whether the weights depend on the cumulative attention."""

    @abstractmethod
    def forward(self, scores: Tensor, source: AttentionState) -> Tensor:
        """Return weights in the shape ``(rows, source)`` of ``scores``, zero at padding."""


class FreeNormalizer(AttentionNormalizer):
    """Normalizer whose mapping depends on the scores of the current step only."""

    def __init__(self, mapping: ProbabilityMap) -> None:
        super().__init__()
        self.mapping = mapping

    def forward(self, scores: Tensor, source: AttentionState) -> Tensor:
        """Apply the mapping to the scores."""
        weights: Tensor = self.mapping(scores, mask=source.mask)
        return weights


class BoundedNormalizer(AttentionNormalizer):
    r"""Normalizer whose weights never exceed the remaining fertility of each word.

    .. math:: \alpha_t = \mathrm{mapping}(z_t + c\, u_t;\ u_t), \quad u_t = f - \beta_{t-1}

    The sink, whose ``u`` is infinite, gets no bonus ``c u``.

    Args:
        mapping: csoftmax or csparsemax.
        exhaustion: ``c``, the bonus per unit of remaining fertility.

    References:
        Malaviya et al. (2018), §3, Eq. 5, and §4, *Exhaustion strategies*.
    """

    reads_coverage = True

    def __init__(self, mapping: BoundedMap, exhaustion: float = 0.0) -> None:
        super().__init__()
        self.mapping, self.exhaustion = mapping, exhaustion

    def forward(self, scores: Tensor, source: AttentionState) -> Tensor:
        """Apply the mapping with the remaining fertilities as upper bounds.

        Raises:
            ValueError: the model has no fertilities, or those of a row are used up.
        """
        if source.coverage is None or source.fertility is None:
            raise ValueError("bounded attention needs fertilities; the model has none")
        remaining = (source.fertility - source.coverage).clamp(min=0.0)
        if self.exhaustion:
            scores = scores + self.exhaustion * remaining.masked_fill(remaining == torch.inf, 0.0)
        return self.mapping(scores, remaining, mask=source.mask)


class AttentionProducts(NamedTuple):
    """Products of one step: query with keys, weights with memory, query with coverage vector."""

    scores: StepProduct
    context: StepProduct
    coverage: StepProduct | None


class GlobalAttention(nn.Module):
    r"""Global attention with bilinear scores from a query ``s`` to a memory ``h``.

    .. math:: z_j = s^\top (W h_j + v\, \beta_j), \quad \pi = \mathrm{normalizer}(z), \quad
              c = \sum_j \pi_j h_j

    The term with the cumulative attention ``β`` is present only with a coverage vector ``v``.

    Args:
        query_size: size of ``s``.
        memory_size: size of ``h``.
        normalizer: turns scores into weights.
        coverage_vector: whether to learn ``v``.

    References:
        Peters et al. (2019), §2, Eq. 1; Luong et al. (2015), "general"; Malaviya et al. (2018),
        §5, COVVECTOR.
    """

    def __init__(
        self,
        query_size: int,
        memory_size: int,
        normalizer: AttentionNormalizer,
        coverage_vector: bool = False,
    ) -> None:
        super().__init__()
        self.key = nn.Linear(memory_size, query_size, bias=False)
        self.weighting = normalizer  # keys of stored weights contain this name
        self.coverage = nn.Linear(query_size, 1, bias=False) if coverage_vector else None

    def attend_to(self, memory: Tensor, mask: Tensor, fertility: Tensor | None) -> AttentionState:
        """Return the state before the first step: keys ``W h_j`` and no coverage."""
        coverage = None
        if self.coverage is not None or self.weighting.reads_coverage:
            coverage = memory.new_zeros(mask.shape, dtype=sum_dtype(memory))
        memory = memory.to(product_dtype(memory))
        return AttentionState(self.key(memory), memory, mask, coverage, fertility)

    def products(self, source: AttentionState, steps: int) -> list[AttentionProducts]:
        """Return the products of every step of a sequence of queries to ``source``."""
        rows, words, size = source.memory.shape
        zeros = source.memory.new_zeros(rows, steps, 1, dtype=sum_dtype(source.memory))
        scores = step_products(zeros.expand(-1, -1, words), source.keys, steps)
        context = step_products(zeros.expand(-1, -1, size), source.memory.mT, steps)
        coverage: Sequence[StepProduct | None] = [None] * steps
        if self.coverage is not None:
            base = zeros.view(steps * rows, 1)
            coverage = step_products(base, self.coverage.weight, steps)
        return [AttentionProducts(*step) for step in zip(scores, context, coverage, strict=True)]

    def forward(
        self, query: Tensor, source: AttentionState, products: AttentionProducts
    ) -> tuple[Tensor, Tensor]:
        """Attend with a query, ``(rows, query)``, using the products of its step.

        Returns:
            Context ``(rows, memory)`` and weights ``(rows, source)``; the weights sum to one.
        """
        # Scores are in float32 at least: rounding to bfloat16 would change which weights are zero.
        scores = products.scores(query.unsqueeze(1)).squeeze(1)
        if products.coverage is not None and source.coverage is not None:
            scores = scores + products.coverage(query) * source.coverage
        weights = self.weighting(scores, source)
        return products.context(weights.unsqueeze(1)).squeeze(1), weights
