"""User-defined structures: any set of 0/1 vectors with a MAP oracle written in Python."""

from typing import Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from repro.structures.kernels.codes import PARTS
from repro.structures.structure import (
    Inputs,
    Problem,
    Structure,
    checked_lengths,
    checked_unary,
    no_additional,
)


@runtime_checkable
class MapOracle(Protocol):
    """Interface of a structure for :func:`repro.structures.sparsemap`.

    Attributes:
        unary_parts: number of parts whose marginals enter the quadratic term of SparseMAP.
        additional_parts: number of parts that enter the linear term only.
    """

    unary_parts: int
    additional_parts: int

    def map(self, scores: Tensor) -> Tensor:
        """Find the highest-scoring structure.

        Args:
            scores: ``(unary_parts + additional_parts,)`` in double precision.

        Returns:
            0/1 vector of the same shape: the parts of a structure with the largest total score.
        """


class OracleStructure(Structure):
    """Adapter from a Python oracle to a structure; it is called once per instance and iteration.

    Scores are ``(B, unary_parts)`` and ``(B, additional_parts)``; vertices are 0/1 vectors of all
    parts, the unary ones first. Lengths are not supported.

    Args:
        oracle: see :class:`MapOracle`.
    """

    def __init__(self, oracle: MapOracle) -> None:
        self.oracle = oracle

    def checked(self, inputs: Inputs) -> Problem:
        """Check scores; see the base class."""
        unary, additional, lengths, mask = inputs
        if lengths is not None:
            raise ValueError("structures of an oracle have no lengths")
        scores = checked_unary(unary, mask, "B parts")
        batch, parts = scores.shape
        further = self.oracle.additional_parts
        if not further:
            no_additional(additional, type(self.oracle).__name__)
        if additional is None:
            more = torch.zeros(batch, further, dtype=torch.float64)
        elif additional.shape != (batch, further):
            raise ValueError(
                f"additional scores {(batch, further)} expected, got {tuple(additional.shape)}"
            )
        else:
            more = additional.detach().to("cpu", torch.float64).contiguous()
        if parts != self.oracle.unary_parts:
            raise ValueError(f"{self.oracle.unary_parts} unary parts expected, got {parts}")
        sizes = checked_lengths(None, batch, (parts, 1)).contiguous()
        return Problem(PARTS, scores.unsqueeze(-1), more, sizes, parts + more.size(1))

    def map(
        self,
        unary: Tensor,
        additional: Tensor | None = None,
        lengths: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        """Call the oracle for each instance, ``(B, parts)``; see the base class."""
        problem = self.problem(unary, additional, lengths, mask)
        scores = problem.all_scores.numpy()
        found = np.empty(scores.shape, np.int32)
        for b in range(len(scores)):
            if not np.all(scores[b] < np.inf):
                raise ValueError(f"instance {b}: a score is NaN or +inf")
            found[b] = self.best(scores[b])
        return self.vertices(torch.from_numpy(found), problem).to(unary.device)

    def vertices(self, stored: Tensor, problem: Problem) -> Tensor:
        """Convert stored parts, 0 if chosen and else -1, to 0/1 vectors; see the base class."""
        return stored.to(torch.int64) + 1

    def score(self, vertex: Tensor, unary: Tensor, additional: Tensor | None = None) -> Tensor:
        """Sum the scores of the chosen parts; see the base class."""
        scores = unary if additional is None else torch.cat([unary, additional], dim=-1)
        scores = scores.view(scores.size(0), *[1] * (vertex.dim() - 2), scores.size(-1))
        chosen = vertex[..., : scores.size(-1)] > 0
        return torch.where(chosen, scores, 0.0).sum(-1)

    def unary_mixture(self, vertices: Tensor, weights: Tensor, like: Tensor) -> Tensor:
        """Sum the weights of the structures that contain each part; see the base class."""
        parts = vertices[..., : like.size(-1)].to(weights.dtype)
        return (weights.unsqueeze(1) @ parts).view(like.shape)

    def mixture(self, vertices: Tensor, weights: Tensor, like: Tensor) -> Tensor:
        """Compute the marginals ``(B, additional_parts)`` of weighted structures."""
        parts = vertices[..., -self.oracle.additional_parts :].to(weights.dtype)
        return (weights.unsqueeze(-1) * parts).sum(1)

    def best(self, scores: np.ndarray) -> np.ndarray:
        """Call the oracle and check its answer; 0 where a part is chosen and -1 elsewhere.

        Raises:
            ValueError: the answer is not a 0/1 vector of all parts.
        """
        found = torch.as_tensor(self.oracle.map(torch.from_numpy(scores.copy()))).detach().cpu()
        binary = found.shape == scores.shape and bool(((found == 0) | (found == 1)).all())
        if not binary:
            raise ValueError(
                f"the oracle {type(self.oracle).__name__} must return a vector of"
                f" {scores.shape[0]} zeros and ones"
            )
        stored: np.ndarray = found.to(torch.int32).numpy() - 1
        return stored.astype(np.int32)
