"""Inference in a structure as a structured loss sees it: a regulariser and its conjugate."""

import warnings
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from repro.structures import ConvergenceWarning, Solution, Structure, sparsemap


class ScoredBatch(NamedTuple):
    """A structure with the scores of a batch of instances.

    Attributes:
        structure: whose oracles are called.
        scores: ``η``, ``(B, ...)``.
        additional: additional scores, or None.
        lengths: ``(B, ...)``, or None.
    """

    structure: Structure
    scores: Tensor
    additional: Tensor | None
    lengths: Tensor | None


@dataclass(frozen=True)
class Prediction:
    """Result of inference at some scores.

    Attributes:
        marginals: ``u``, like the scores.
        additional: ``v``, like the additional scores, or None.
        solution: the selected structures and their weights, from SparseMAP alone.
    """

    marginals: Tensor
    additional: Tensor | None
    solution: Solution | None = None


class Inference(Protocol):
    """The maximiser of ``⟨η, Ay⟩ - Ω(y)`` over mixtures ``y`` of structures."""

    def predict(self, batch: ScoredBatch) -> Prediction:
        """``A y*``."""

    def conjugate(self, batch: ScoredBatch) -> Tensor:
        """The maximum ``Ω*(Aᵀη)``, ``(B,)``, whose gradient is ``A y*``."""

    def omega(self, vertex: Tensor) -> Tensor:
        """``Ω`` of single structures, from their unary parts ``(B, ...)`` to ``(B,)``."""


@dataclass(frozen=True)
class MapInference:
    """``Ω = 0``: the best structure."""

    def predict(self, batch: ScoredBatch) -> Prediction:
        """The parts of the best structure."""
        structure, scores, additional, lengths = batch
        best = structure.map(scores, additional, lengths)
        one = scores.new_ones(len(scores), 1)
        pairs = None if additional is None else structure.mixture(best[:, None], one, additional)
        return Prediction(structure.indicator(best, scores), pairs)

    def conjugate(self, batch: ScoredBatch) -> Tensor:
        """The score of the best structure."""
        structure, scores, additional, lengths = batch
        best = structure.map(scores, additional, lengths)
        return structure.score(best, scores, additional)

    def omega(self, vertex: Tensor) -> Tensor:
        """Zero."""
        return vertex.new_zeros(vertex.size(0))


@dataclass(frozen=True)
class MarginalInference:
    """``Ω = -H``: every structure, in proportion to the exponential of its score."""

    def predict(self, batch: ScoredBatch) -> Prediction:
        """The probabilities of the parts."""
        return Prediction(*batch.structure.marginals(*batch[1:]))

    def conjugate(self, batch: ScoredBatch) -> Tensor:
        """The log-partition function."""
        return batch.structure.log_partition(*batch[1:])

    def omega(self, vertex: Tensor) -> Tensor:
        """Zero: a single structure has no entropy."""
        return vertex.new_zeros(vertex.size(0))


@dataclass(frozen=True)
class SparsemapInference:
    """``Ω(y) = ½ ‖M y‖²``: a mixture of few structures.

    Attributes:
        max_iter: the solver's iterations at most.
        tol: the gap at which it stops; None as in :func:`repro.structures.sparsemap`.
    """

    max_iter: int
    tol: float | None

    def predict(self, batch: ScoredBatch) -> Prediction:
        """The mixture's parts, and the solution behind them, which says whether it converged."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            solution = sparsemap(
                *batch[:3], lengths=batch.lengths, max_iter=self.max_iter, tol=self.tol
            )
        return Prediction(solution.marginals, solution.additional, solution)

    def conjugate(self, batch: ScoredBatch) -> Tensor:
        """The mixture's score less its penalty."""
        with torch.no_grad():
            found = self.predict(batch)
        parts = found.marginals.detach()  # no_grad leaves tangents of forward mode
        value = _inner_product(parts, batch.scores) - self.omega(parts)
        if batch.additional is None or found.additional is None:
            return value
        return value + _inner_product(found.additional.detach(), batch.additional)

    def omega(self, vertex: Tensor) -> Tensor:
        """Half the squared norm of the unary parts."""
        return vertex.flatten(1).square().sum(-1) / 2


def _inner_product(parts: Tensor, scores: Tensor) -> Tensor:
    """``⟨parts, scores⟩`` of each instance, ``(B,)``; zero times infinity is zero."""
    return torch.where(parts != 0, parts * scores, 0.0).flatten(1).sum(-1)
