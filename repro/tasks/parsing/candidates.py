"""The trees with nonzero weight in SparseMAP solutions: how many, and which."""

import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import torch
from torch import Tensor

from repro.structures import Arborescence, ConvergenceWarning, Solution, sparsemap

Distribution = list[list[float]]
"""Values with how often they occur, by rising value."""


@dataclass
class CandidateStatistics:
    """Sparsity of SparseMAP solutions, one value for each sentence.

    Attributes:
        trees: number of trees with nonzero weight.
        parents: heads with nonzero marginal probability, averaged over the words of the sentence.
    """

    trees: list[int] = field(default_factory=list)
    parents: list[float] = field(default_factory=list)

    def add(self, solution: Solution, lengths: Tensor) -> None:
        """Count the solutions of one batch."""
        self.trees += (solution.weights > 0).sum(1).tolist()
        heads = (solution.marginals > 0).sum((1, 2)).cpu()
        self.parents += (heads / lengths).tolist()

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Statistics of the sentences of all parts."""
        return cls(
            [n for one in parts for n in one.trees], [n for one in parts for n in one.parents]
        )

    def means(self) -> dict[str, float]:
        """Means over sentences, and the share of sentences with a single tree in percent."""
        count = len(self.trees)
        return {
            "trees": sum(self.trees) / count,
            "parents": sum(self.parents) / count,
            "single_tree": 100.0 * self.trees.count(1) / count,
        }

    def distributions(self) -> dict[str, Distribution]:
        """Shares of examples by number of trees, and by number of parents, to 0.01."""
        parents = [round(value, 2) for value in self.parents]
        return {
            "trees_counts": _distribution(self.trees),
            "parents_counts": _distribution(parents),
        }


def _distribution(values: Iterable[float]) -> Distribution:
    return [[value, count] for value, count in sorted(Counter(values).items())]


class CandidateTrees:
    """SparseMAP inference for analysis, without gradients.

    Args:
        structure: the trees that the loss compares.
        max_iter: bound on the iterations of the active set method.
    """

    def __init__(self, structure: Arborescence, max_iter: int) -> None:
        self.structure, self.max_iter = structure, max_iter

    @torch.no_grad()
    def solve(self, scores: Tensor, lengths: Tensor) -> Solution:
        """Solutions of one batch of arc scores; some may have stopped at ``max_iter``."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return sparsemap(self.structure, scores, lengths=lengths, max_iter=self.max_iter)


def heads_of(vertices: Tensor, lengths: Tensor) -> list[list[int]]:
    """Heads of the words of each sentence, without root and padding.

    Args:
        vertices: shape ``(B, n + 1)``, as ``Arborescence.map`` returns them.
        lengths: number of words, shape ``(B,)``.
    """
    pairs = zip(vertices.tolist(), lengths.tolist(), strict=True)
    return [row[1 : 1 + length] for row, length in pairs]


def weighted_trees(solution: Solution, lengths: Tensor) -> list[list[dict[str, Any]]]:
    """The trees of each sentence with nonzero weight, the heaviest first."""
    found = []
    for trees, weights, length in zip(
        solution.structures.tolist(), solution.weights.tolist(), lengths.tolist(), strict=True
    ):
        pairs = [
            (weight, tree[1 : 1 + length]) for tree, weight in zip(trees, weights, strict=True)
        ]
        kept = sorted((pair for pair in pairs if pair[0] > 0), key=lambda pair: (-pair[0], pair[1]))
        found.append([{"heads": heads, "weight": float(f"{w:.7g}")} for w, heads in kept])
    return found
