"""Inference in a structure as a structured loss sees it: a regulariser and its conjugate."""

import warnings
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from repro.structures import ConvergenceWarning, Solution, Structure, sparsemap


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

    def predict(
        self,
        structure: Structure,
        scores: Tensor,
        additional: Tensor | None,
        lengths: Tensor | None,
    ) -> Prediction:
        """``A y*``."""

    def conjugate(
        self,
        structure: Structure,
        scores: Tensor,
        additional: Tensor | None,
        lengths: Tensor | None,
    ) -> Tensor:
        """The maximum ``Ω*(Aᵀη)``, ``(B,)``, whose gradient is ``A y*``."""

    def omega(self, vertex: Tensor) -> Tensor:
        """``Ω`` of single structures, from their unary parts ``(B, ...)`` to ``(B,)``."""


@dataclass(frozen=True)
class MapInference:
    """``Ω = 0``: the best structure."""

    def predict(
        self,
        structure: Structure,
        scores: Tensor,
        additional: Tensor | None,
        lengths: Tensor | None,
    ) -> Prediction:
        """The parts of the best structure."""
        best = structure.map(scores, additional, lengths)
        one = scores.new_ones(len(scores), 1)
        pairs = None if additional is None else structure.mixture(best[:, None], one, additional)
        return Prediction(structure.indicator(best, scores), pairs)

    def conjugate(
        self,
        structure: Structure,
        scores: Tensor,
        additional: Tensor | None,
        lengths: Tensor | None,
    ) -> Tensor:
        """The score of the best structure."""
        best = structure.map(scores, additional, lengths)
        return structure.score(best, scores, additional)

    def omega(self, vertex: Tensor) -> Tensor:
        """Zero."""
        return vertex.new_zeros(vertex.size(0))


@dataclass(frozen=True)
class MarginalInference:
    """``Ω = -H``: every structure, in proportion to the exponential of its score."""

    def predict(
        self,
        structure: Structure,
        scores: Tensor,
        additional: Tensor | None,
        lengths: Tensor | None,
    ) -> Prediction:
        """The probabilities of the parts."""
        return Prediction(*structure.marginals(scores, additional, lengths))

    def conjugate(
        self,
        structure: Structure,
        scores: Tensor,
        additional: Tensor | None,
        lengths: Tensor | None,
    ) -> Tensor:
        """The log-partition function."""
        return structure.log_partition(scores, additional, lengths)

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

    def predict(
        self,
        structure: Structure,
        scores: Tensor,
        additional: Tensor | None,
        lengths: Tensor | None,
    ) -> Prediction:
        """The mixture's parts, and the solution behind them, which says whether it converged."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            solution = sparsemap(
                structure, scores, additional, lengths=lengths, max_iter=self.max_iter, tol=self.tol
            )
        return Prediction(solution.marginals, solution.additional, solution)

    def conjugate(
        self,
        structure: Structure,
        scores: Tensor,
        additional: Tensor | None,
        lengths: Tensor | None,
    ) -> Tensor:
        """The mixture's score less its penalty."""
        with torch.no_grad():
            found = self.predict(structure, scores, additional, lengths)
        parts = found.marginals.detach()  # no_grad leaves tangents of forward mode
        value = _inner_product(parts, scores) - self.omega(parts)
        if additional is None or found.additional is None:
            return value
        return value + _inner_product(found.additional.detach(), additional)

    def omega(self, vertex: Tensor) -> Tensor:
        """Half the squared norm of the unary parts."""
        return vertex.flatten(1).square().sum(-1) / 2


def _inner_product(parts: Tensor, scores: Tensor) -> Tensor:
    """``⟨parts, scores⟩`` of each instance, ``(B,)``; zero times infinity is zero."""
    return torch.where(parts != 0, parts * scores, 0.0).flatten(1).sum(-1)
