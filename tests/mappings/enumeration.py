"""Oracles for short rows: try every support, or every way to call entries empty, free or full."""

from itertools import combinations, product

import torch
from torch import Tensor

AT_ZERO, INTERIOR, AT_UPPER = range(3)
_ROOM = 1e-12


def entmax15_by_enumeration(scores: Tensor) -> Tensor:
    """The support whose quadratic equation gives a threshold below it and above the rest."""
    half, entries = scores / 2, range(scores.numel())
    for kept in (list(one) for size in entries for one in combinations(entries, size + 1)):
        mean = half[kept].mean()
        gap = (1 - (half[kept] - mean).square().sum()) / len(kept)
        if gap < 0:
            continue
        tau = mean - gap.sqrt()
        rest = [i for i in entries if i not in kept]
        if (half[kept] >= tau - 1e-12).all() and (half[rest] <= tau + 1e-12).all():
            return (half - tau).clamp(min=0).square()
    raise AssertionError("no support satisfies the conditions")


def box_by_enumeration(scores: Tensor, upper: Tensor, total: float) -> Tensor:
    """Nearest of all feasible points whose free entries are at one common distance."""
    points = [p for p in _points(scores, upper, total, _level) if _feasible(p, upper, total)]
    return min(points, key=lambda point: float((point - scores).square().sum()))


def csoftmax_by_enumeration(scores: Tensor, upper: Tensor) -> Tensor:
    """Closest of all feasible points whose free entries are proportional to ``exp(z)``."""
    target = scores.softmax(-1)
    points = [p for p in _points(scores, upper, 1.0, _proportional) if _feasible(p, upper, 1.0)]
    return min(points, key=lambda point: float(torch.xlogy(point, point / target).sum()))


def _points(scores, upper, total, spread):
    finite = upper.isfinite()
    for places in product((AT_ZERO, INTERIOR, AT_UPPER), repeat=scores.numel()):
        place = torch.tensor(places)
        free, full = place == INTERIOR, place == AT_UPPER
        if (full & ~finite).any():
            continue
        point = torch.where(full, upper, 0.0)
        if free.any():
            point[free] = spread(scores[free], total - float(point.sum()))
        yield point


def _level(scores: Tensor, mass: float) -> Tensor:
    return scores - (scores.sum() - mass) / scores.numel()


def _proportional(scores: Tensor, mass: float) -> Tensor:
    return scores.softmax(-1) * mass


def _feasible(point: Tensor, upper: Tensor, total: float) -> bool:
    inside = (point >= -_ROOM).all() and (point <= upper + _ROOM).all()
    return bool(inside) and abs(float(point.sum()) - total) < _ROOM
