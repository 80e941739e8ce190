"""Structures with compiled oracles and solvers; see :mod:`repro.structures.kernels`."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from repro.structures.kernels.codes import SEQUENCE
from repro.structures.problem import (
    Instances,
    Layout,
    Problem,
    Selection,
    check_target,
    no_additional,
    refuse_targets,
)
from repro.structures.structure import Structure

NO_TRANSITIONS = torch.zeros(1, 0, 0, 0, dtype=torch.float64)
"""Empty placeholder for the additional scores of structures without additional parts."""


class CompiledStructure(Structure):
    """Base class of the structures with kernels.

    A vertex has one integer for each of ``V`` decisions: the tag of an item, the head of a word,
    the column of a row. Entries of padding are -1.
    """

    def best(self, scores: Tensor, lengths: Tensor | None, *additional: Tensor) -> Any:
        """Return the parts of the best structures; see the base class."""
        vertex = self.map(scores, additional[0] if additional else None, lengths)
        parts = self.indicator(vertex, scores)
        if not additional:
            return parts
        return parts, self.mixture(vertex[:, None], scores.new_ones(len(scores), 1), *additional)

    def best_stored(self, problem: Problem) -> Tensor:
        """Call the compiled oracle; see the base class."""
        from repro.structures.solving import best_vertices

        return best_vertices(problem)

    def solve(
        self, problem: Problem, tol: float, max_iter: int, start: Selection | None = None
    ) -> Selection:
        """Solve SparseMAP with the compiled active set method; see the base class."""
        from repro.structures.solving import solve

        return solve(problem, tol, max_iter, start)

    def vertices(self, stored: Tensor, problem: Problem) -> Tensor:
        """Convert stored structures to int64; see the base class."""
        return stored.to(torch.int64)

    def score(self, vertex: Tensor, unary: Tensor, additional: Tensor | None = None) -> Tensor:
        """Sum the scores of the chosen parts; see the base class."""
        no_additional(additional, type(self).__name__)
        return gathered(unary, vertex)

    def unary_mixture(self, vertices: Tensor, weights: Tensor, like: Tensor) -> Tensor:
        """Sum the weights of the structures that contain each part; see the base class."""
        return weighted_parts(like, vertices, weights)

    def choices(self, vertices: Tensor, like: Tensor) -> Tensor:
        """Return the vertices; see the base class."""
        return vertices

    def checked_target(
        self,
        target: Tensor,
        unary: Tensor,
        additional: Tensor | None = None,
        lengths: Tensor | None = None,
    ) -> Tensor:
        """Check a target ``(B, S)``, and set its padding to -1; see the base class."""
        rows = self.problem(Instances(unary, lengths=lengths)).sizes[:, :1]
        vertex = checked_choices(target, unary, rows)
        self.refuse_invalid(vertex, lengths, 2 * self.indicator(vertex, unary.detach()) - 1)
        return vertex

    def layouts(self, selection: Selection) -> list[Layout]:
        """Return the layouts of unary parts and, for sequences, of transitions; see the base."""
        problem, vertices = selection.problem, selection.vertices
        own = Layout(problem.code, problem.sizes.numpy(), vertices, tuple(problem.unary.shape))
        if problem.code != SEQUENCE:
            return [own]
        batch, n, m = problem.unary.shape
        # A transition is a slot between two items, with a value for each pair of tags.
        pairs = np.where(vertices[:, 1:] >= 0, vertices[:, :-1] * m + vertices[:, 1:], -1)
        shape = (len(problem.additional), max(n - 1, 0), m * m)
        return [own, Layout(SEQUENCE, np.full((batch, 2), shape[1:]), pairs, shape)]


def checked_choices(target: Tensor, unary: Tensor, rows: Tensor, first: int = 0) -> Tensor:
    """Check the entries ``first`` to ``rows``, ``(B, 1)``, of a target; set the others to -1."""
    check_target(target, tuple(unary.shape[:2]), unary)
    positions = torch.arange(target.size(1), device=target.device)
    vertex = target.masked_fill((positions < first) | (positions >= rows.to(target.device)), -1)
    outside = ((vertex < -1) | (vertex >= unary.size(2))).any(-1)
    refuse_targets(vertex, outside, f"has entries outside 0..{unary.size(2) - 1}")
    return vertex


def gathered(scores: Tensor, vertex: Tensor) -> Tensor:
    """Sum the scores ``(B, S, A)`` of the values that vertices ``(B, ..., S)`` choose."""
    batch = torch.arange(vertex.size(0), device=vertex.device)
    batch = batch.view(-1, *[1] * (vertex.dim() - 1))
    slots = torch.arange(vertex.size(-1), device=vertex.device)
    chosen = scores[batch, slots, vertex.clamp(min=0)]
    return torch.where(vertex >= 0, chosen, 0.0).sum(-1)


def weighted_parts(like: Tensor, vertices: Tensor, weights: Tensor) -> Tensor:
    """Sum ``weights (B, K)`` at the values that ``vertices (B, K, S)`` choose.

    The result has the shape ``(B, S, A)`` of ``like`` and the dtype of the weights.
    """
    shares = torch.where(vertices >= 0, weights.unsqueeze(-1), 0.0)
    places = vertices.clamp(min=0).transpose(1, 2)
    return weights.new_zeros(like.shape).scatter_add(-1, places, shares.transpose(1, 2))
