"""Oracles: all structures of a small problem, their parts, sums over them, and SparseMAP."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import permutations, product

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot, pad

from repro.structures import Arborescence, LinearChain, Matching, Structure


def spread(first: Iterable[str], second: Iterable[object]) -> list[tuple[str, object]]:
    """Every other pair of two lists: each value is there, in half of the product."""
    pairs = product(enumerate(first), enumerate(second))
    return [(a, b) for (i, a), (j, b) in pairs if (i + j) % 2 == 0]


def is_tree(heads: tuple[int, ...]) -> bool:
    """Return whether all words reach the root; ``heads[m - 1]`` is the head of ``m``."""
    for word in range(1, len(heads) + 1):
        place, steps = word, 0
        while place and steps <= len(heads):
            place, steps = heads[place - 1], steps + 1
        if place:
            return False
    return True


def all_trees(words: int, single_root: bool) -> Iterator[tuple[int, ...]]:
    for heads in product(range(words + 1), repeat=words):
        if is_tree(heads) and not (single_root and heads.count(0) != 1):
            yield heads


def all_matchings(rows: int, columns: int) -> Iterator[tuple[int, ...]]:
    """The column of every row, -1 where it is unmatched; ``min(rows, columns)`` pairs."""
    if rows <= columns:
        yield from permutations(range(columns), rows)
        return
    for places in permutations(range(rows), columns):
        chosen = [-1] * rows
        for column, row in enumerate(places):
            chosen[row] = column
        yield tuple(chosen)


def dot(parts: Tensor, scores: Tensor) -> Tensor:
    """``parts @ scores`` where zero times infinity is zero."""
    return torch.where(parts != 0, parts * scores, 0.0).sum(-1)


@dataclass(frozen=True)
class Case:
    """All structures of one size.

    Attributes:
        structure: their family.
        vertices: each as ``structure.map`` returns it, ``(D, V)``.
        unary: ``M`` as rows, ``(D, ...)``.
        additional: ``N`` as rows, or None.
    """

    structure: Structure
    vertices: Tensor
    unary: Tensor
    additional: Tensor | None = None

    def scores(self, batch: int, seed: int = 0) -> tuple[Tensor, Tensor | None]:
        generator = torch.Generator().manual_seed(seed)
        unary = torch.randn(batch, *self.unary.shape[1:], generator=generator, dtype=torch.float64)
        if self.additional is None:
            return unary, None
        shape = batch, *self.additional.shape[1:]
        return unary, torch.randn(shape, generator=generator, dtype=torch.float64)

    def theta(self, unary: Tensor, additional: Tensor | None = None) -> Tensor:
        """Scores of all structures, ``(B, D)``; forbidden ones have ``-inf``."""
        total = dot(self.unary.flatten(1), unary.flatten(1).unsqueeze(1))
        if additional is None:
            return total
        return total + dot(self.additional.flatten(1), additional.flatten(1).unsqueeze(1))

    def sparsemap(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        """Marginals of unary parts, and the largest value of the objective."""
        matrix = self.unary.flatten(1)
        shares = [best_mixture(matrix.numpy(), row) for row in theta.numpy()]
        weights = torch.from_numpy(np.stack(shares))
        marginals = weights @ matrix
        value = (weights * theta).sum(-1) - marginals.square().sum(-1) / 2
        return marginals.view(-1, *self.unary.shape[1:]), value


def tree_case(words: int, single_root: bool) -> Case:
    heads = torch.tensor([*all_trees(words, single_root)])
    parts = pad(one_hot(heads, words + 1).mT, (1, 0))  # row = head, column = word, 0 = the root
    return Case(Arborescence(single_root), pad(heads, (1, 0), value=-1), parts.double())


def sequence_case(positions: int, tags: int) -> Case:
    vertices = torch.tensor([*product(range(tags), repeat=positions)])
    unary = one_hot(vertices, tags).double()
    pairs = unary[:, :-1, :, None] * unary[:, 1:, None, :]
    return Case(LinearChain(), vertices, unary, pairs)


def matching_case(rows: int, columns: int) -> Case:
    vertices = torch.tensor([*all_matchings(rows, columns)])
    return Case(Matching(), vertices, one_hot(vertices + 1, columns + 1)[..., 1:].double())


CASES = {
    "sequence": sequence_case(3, 3),
    "independent tags": replace(sequence_case(3, 3), additional=None),
    "tree": tree_case(3, False),
    "single root": tree_case(4, True),
    "square matching": matching_case(4, 4),
    "wide matching": matching_case(3, 4),
    "tall matching": matching_case(4, 3),
}


def best_mixture(matrix: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """``argmax θ'y - ½ ‖My‖²`` over the simplex, by pairwise steps on the weights of everything.

    The optimum is certified by its Frank–Wolfe gap, which bounds the error of the maximum.
    """
    gram = matrix @ matrix.T
    shares = np.zeros(len(theta))
    shares[theta.argmax()] = 1
    for _ in range(50_000):
        linear = theta - gram @ shares
        best, worst = linear.argmax(), np.where(shares > 0, linear, np.inf).argmin()
        if linear[best] - linear @ shares < 1e-11:
            return shares
        curvature = gram[best, best] + gram[worst, worst] - 2 * gram[best, worst]
        gain = linear[best] - linear[worst]
        step = min(shares[worst], gain / curvature if curvature > 0 else np.inf)
        shares[best] += step
        shares[worst] = 0 if step == shares[worst] else shares[worst] - step
    raise AssertionError("the oracle does not converge")
