"""Oracles for short rows: try every support, keep the one that satisfies the conditions."""

from itertools import combinations

import torch
from torch import Tensor


def supports(size: int) -> list[list[int]]:
    return [list(s) for k in range(1, size + 1) for s in combinations(range(size), k)]


def sparsemax_by_enumeration(scores: Tensor) -> Tensor:
    """Nearest feasible point among the projections onto the face of some support."""
    feasible = []
    for kept in supports(scores.numel()):
        point = torch.zeros_like(scores)
        point[kept] = scores[kept] - (scores[kept].sum() - 1) / len(kept)
        if (point >= 0).all():
            feasible.append(point)
    return min(feasible, key=lambda point: float((point - scores).square().sum()))


def entmax15_by_enumeration(scores: Tensor) -> Tensor:
    """The support whose quadratic equation gives a threshold below it and above the rest."""
    half, found = scores / 2, []
    for kept in supports(scores.numel()):
        mean = half[kept].mean()
        gap = (1 - (half[kept] - mean).square().sum()) / len(kept)
        if gap < 0:
            continue
        tau = mean - gap.sqrt()
        rest = [i for i in range(scores.numel()) if i not in kept]
        if (half[kept] >= tau - 1e-12).all() and (half[rest] <= tau + 1e-12).all():
            found.append((half - tau).clamp(min=0).square())
    return found[0]
