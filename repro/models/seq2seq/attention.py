"""Global attention, bilinear or by a feed-forward network, and its state between steps."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from repro.mappings import ProbabilityMap
from repro.models.seq2seq.step_products import StepProduct, product_dtype, step_products, sum_dtype


@dataclass
class AttentionState:
    """Encoded source and the attention it has received; one row for each hypothesis."""

    keys: Tensor  # projected memory, (rows, source, query)
    memory: Tensor  # encoder states, (rows, source, memory)
    penalty: Tensor  # added to scores: 0, and -inf at padding, (rows, source)
    coverage: Tensor | None = None  # cumulative attention β, (rows, source); None if unused
    fertility: Tensor | None = None  # upper bounds f of β, infinite for the sink; None if none
    slopes: Tensor | None = None  # products of coverage vector and memory, (rows, source)

    def select(self, rows: Tensor, same_sources: bool = False) -> "AttentionState":
        """Gather rows, which may repeat; with ``same_sources`` only their coverage differs."""
        parts = {name: part for name, part in vars(self).items() if part is not None}
        if same_sources:
            parts = {name: part for name, part in parts.items() if name == "coverage"}
        return replace(self, **{name: part[rows] for name, part in parts.items()})

    def after(self, weights: Tensor) -> "AttentionState":
        """Return the state after a step with the given attention weights."""
        if self.coverage is None:
            return self
        return replace(self, coverage=self.coverage + weights)


class AttentionNormalizer(nn.Module):
    """Module that turns attention scores into weights, by a mapping of the scores of a step."""

    reads_coverage = False
    """Whether the weights depend on the cumulative attention."""

    def __init__(self, mapping: ProbabilityMap) -> None:
        super().__init__()
        self.mapping = mapping

    def forward(self, scores: Tensor, source: AttentionState) -> Tensor:
        """Return weights, ``(rows, source)`` like ``scores``, zero where these are -inf."""
        weights: Tensor = self.mapping(scores)
        return weights


class BoundedNormalizer(AttentionNormalizer):
    r"""Normalizer whose weights never exceed the remaining fertility of each word.

    .. math:: \alpha_t = \mathrm{mapping}(z_t + c\, u_t;\ u_t), \quad u_t = f - \beta_{t-1}

    The sink, whose ``u`` is infinite, gets no bonus ``c u``.

    Args:
        mapping: csoftmax or csparsemax.
        exhaustion: ``c``, the bonus per unit of remaining fertility.
        detach: whether the bonus is a constant in the backward pass, as in the released program;
            the paper does not say.

    References:
        Malaviya et al. (2018), §3, Eq. 5, and §4, *Exhaustion strategies*.
    """

    reads_coverage = True

    def __init__(
        self, mapping: ProbabilityMap, exhaustion: float = 0.0, detach: bool = False
    ) -> None:
        super().__init__(mapping)
        self.exhaustion, self.detach = exhaustion, detach

    def forward(self, scores: Tensor, source: AttentionState) -> Tensor:
        """Apply the mapping with the remaining fertilities as upper bounds.

        Raises:
            ValueError: the model has no fertilities, or those of a row are used up.
        """
        if source.coverage is None or source.fertility is None:
            raise ValueError("bounded attention needs fertilities; the model has none")
        remaining = (source.fertility - source.coverage).clamp(min=0.0)
        if self.exhaustion:
            bonus = self.exhaustion * remaining.masked_fill(remaining == torch.inf, 0.0)
            scores = scores + (bonus.detach() if self.detach else bonus)
        return self.mapping(scores, remaining)


class AttentionProducts(NamedTuple):
    """Products of one step: query with keys (or weights), weights with memory, query with ``v``."""

    scores: StepProduct
    context: StepProduct
    coverage: StepProduct | None


class Attention(nn.Module, ABC):
    r"""Attention of a query ``s`` to a memory ``h``.

    .. math:: \pi = \mathrm{normalizer}(z), \quad c = \sum_j \pi_j h_j

    The scores ``z`` are those of the subclass. They depend on the cumulative attention ``β`` if
    there is a coverage vector ``v``.
    """

    def __init__(self, query_size: int, memory_size: int, normalizer: AttentionNormalizer) -> None:
        super().__init__()
        self.key = nn.Linear(memory_size, query_size, bias=False)
        self.weighting = normalizer  # keys of stored weights contain this name
        self.coverage: nn.Linear | None = None

    def attend_to(self, memory: Tensor, mask: Tensor, fertility: Tensor | None) -> AttentionState:
        """Return the state before the first step: keys ``W h_j`` and no coverage."""
        zeros = memory.new_zeros(mask.shape, dtype=sum_dtype(memory))
        # Once for all steps: a mask that the mapping applies takes three launches in each.
        penalty = zeros.masked_fill(~mask, -torch.inf)
        covers = self.coverage is not None or self.weighting.reads_coverage
        memory = memory.to(product_dtype(memory))
        return AttentionState(
            self.key(memory), memory, penalty, zeros if covers else None, fertility
        )

    @abstractmethod
    def products(self, source: AttentionState, steps: int) -> list[AttentionProducts]:
        """Return the products of every step of a sequence of queries to ``source``."""

    @abstractmethod
    def scores(self, query: Tensor, source: AttentionState, products: AttentionProducts) -> Tensor:
        """Return ``z``, shape ``(rows, source)``, in float32 at least; -inf at padding.

        Coverage and mapping are thus computed in float32. Under autocast the products themselves
        are rounded to bfloat16.
        """

    def forward(
        self, query: Tensor, source: AttentionState, products: AttentionProducts
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Attend with a query, ``(rows, query)``, using the products of its step.

        Returns:
            Context ``(rows, memory)``, weights ``(rows, source)``, which sum to one, and scores.
        """
        scores = self.scores(query, source, products)
        weights = self.weighting(scores, source)
        return products.context(weights.unsqueeze(1)).squeeze(1), weights, scores


class GlobalAttention(Attention):
    r"""Attention with bilinear scores.

    .. math:: z_j = s^\top W h_j + \beta_j\, v^\top s

    ``v`` is learned if there is a ``coverage_vector``. With ``of_memory`` it multiplies ``h_j``, as
    in the program released by Malaviya et al. (2018), instead of ``s``, as printed in their paper.

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
        of_memory: bool = False,
    ) -> None:
        super().__init__(query_size, memory_size, normalizer)
        self.of_memory = of_memory
        if coverage_vector:
            self.coverage = nn.Linear(memory_size if of_memory else query_size, 1, bias=False)

    def attend_to(self, memory: Tensor, mask: Tensor, fertility: Tensor | None) -> AttentionState:
        """Return the state before the first step, with ``v h_j`` if the scores contain it."""
        state = super().attend_to(memory, mask, fertility)
        if self.coverage is None or not self.of_memory:
            return state
        return replace(state, slopes=self.coverage(state.memory).squeeze(-1))

    def products(self, source: AttentionState, steps: int) -> list[AttentionProducts]:
        """Return the products of every step of a sequence of queries to ``source``."""
        rows, _, size = source.memory.shape
        zeros = source.memory.new_zeros(rows, steps, 1, dtype=sum_dtype(source.memory))
        penalties = source.penalty.unsqueeze(1).expand(-1, steps, -1)
        scores = step_products(penalties, source.keys, steps)
        context = step_products(zeros.expand(-1, -1, size), source.memory.mT, steps)
        coverage: Sequence[StepProduct | None] = [None] * steps
        if self.coverage is not None and not self.of_memory:
            base = zeros.view(steps * rows, 1)
            coverage = step_products(base, self.coverage.weight, steps)
        return [AttentionProducts(*step) for step in zip(scores, context, coverage, strict=True)]

    def scores(self, query: Tensor, source: AttentionState, products: AttentionProducts) -> Tensor:
        """Return the bilinear scores."""
        scores = products.scores(query.unsqueeze(1)).squeeze(1)
        slopes = source.slopes if products.coverage is None else products.coverage(query)
        if slopes is None or source.coverage is None:
            return scores
        return scores + slopes * source.coverage


class FeedForwardAttention(Attention):
    r"""Attention with scores of a network with one hidden layer.

    .. math:: z_j = u^\top \tanh(W h_j + U s + b + \beta_j v)

    The hidden layer has the size of ``s``; ``v`` is learned if there is a ``coverage_vector``.

    References:
        Bahdanau et al. (2015), §A.1.2; Malaviya et al. (2018), footnote 2.
    """

    def __init__(
        self,
        query_size: int,
        memory_size: int,
        normalizer: AttentionNormalizer,
        coverage_vector: bool = False,
    ) -> None:
        super().__init__(query_size, memory_size, normalizer)
        self.query = nn.Linear(query_size, query_size)
        self.score = nn.Linear(query_size, 1, bias=False)
        if coverage_vector:
            self.coverage = nn.Linear(1, query_size, bias=False)

    def products(self, source: AttentionState, steps: int) -> list[AttentionProducts]:
        """Return the products of every step of a sequence of queries to ``source``."""
        rows, _, size = source.memory.shape
        dtype = sum_dtype(source.memory)
        base = self.query.bias.to(dtype).expand(steps * rows, -1)
        queries = step_products(base, self.query.weight, steps, source.memory.dtype)
        zeros = source.memory.new_zeros(rows, steps, 1, dtype=dtype)
        context = step_products(zeros.expand(-1, -1, size), source.memory.mT, steps)
        return [AttentionProducts(*step, None) for step in zip(queries, context, strict=True)]

    def scores(self, query: Tensor, source: AttentionState, products: AttentionProducts) -> Tensor:
        """Return the scores of the network."""
        hidden = source.keys + products.scores(query).unsqueeze(1)
        if self.coverage is not None and source.coverage is not None:
            hidden = hidden + source.coverage.unsqueeze(-1) * self.coverage.weight.squeeze(-1)
        return self.score(hidden.tanh()).squeeze(-1).to(sum_dtype(hidden)) + source.penalty
