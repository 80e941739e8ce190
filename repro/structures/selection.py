"""Selections of solvers: the structures of a batch, in the form of the kernels."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from repro.structures.kernels.codes import Array
from repro.structures.structure import Problem


@dataclass(frozen=True)
class Selection:
    """The selected structures of a batch, one instance after the other.

    Args:
        problem: what was solved.
        marginals: ``(B, R, C)`` in double precision.
        vertices: ``(N, width)`` structures in the form of the kernels.
        weights: ``(N,)``.
        inverses: for each instance the square inverse of ``H`` (see ``kernels/gram.py``), flat.
        counts: ``(B,)`` structures of each instance.
        rounds: ``(B,)`` oracle calls.
        gaps: ``(B,)`` Frank-Wolfe gaps.
        converged: ``(B,)``.
    """

    problem: Problem
    marginals: Tensor
    vertices: Array
    weights: Array
    inverses: Array
    counts: Array
    rounds: Array
    gaps: Array
    converged: Array

    @property
    def offsets(self) -> Array:
        """``(B + 1,)`` where the structures of an instance begin."""
        return starts(self.counts)

    @property
    def places(self) -> tuple[Array, Array]:
        """Instance and position of each structure in a padded array."""
        rows = np.repeat(np.arange(len(self.counts)), self.counts)
        return rows, np.arange(len(rows)) - self.offsets[rows]

    @property
    def squares(self) -> Array:
        """``(B + 1,)`` where the inverse of an instance begins."""
        return starts(self.counts**2)

    def replaced(self, rows: Array, by: "Selection") -> "Selection":
        """Selection with the solutions of some instances replaced.

        Args:
            rows: which instances.
            by: their solutions, in this order; its problem is not used.
        """

        def values(own: Array, other: Array) -> Array:
            own = own.copy()
            own[rows] = other
            return own

        def pieces(own: Array, ends: Array, other: Array, other_ends: Array) -> Array:
            parts = np.split(own, ends[1:-1])
            for row, part in zip(rows, np.split(other, other_ends[1:-1]), strict=True):
                parts[row] = part
            return np.concatenate(parts)

        return Selection(
            problem=self.problem,
            marginals=torch.from_numpy(values(self.marginals.numpy(), by.marginals.numpy())),
            vertices=pieces(self.vertices, self.offsets, by.vertices, by.offsets),
            weights=pieces(self.weights, self.offsets, by.weights, by.offsets),
            inverses=pieces(self.inverses, self.squares, by.inverses, by.squares),
            counts=values(self.counts, by.counts),
            rounds=values(self.rounds, by.rounds),
            gaps=values(self.gaps, by.gaps),
            converged=values(self.converged, by.converged),
        )


def starts(counts: Array) -> Array:
    """Start offsets of the groups, then the end of the last."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
