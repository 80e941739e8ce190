"""What solvers select: the structures of a batch, in the form of the kernels."""

from dataclasses import dataclass

import numpy as np
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
    def squares(self) -> Array:
        """``(B + 1,)`` where the inverse of an instance begins."""
        return starts(self.counts**2)


def starts(counts: Array) -> Array:
    """Where each group begins, and the end of the last."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
