"""Slow implementations of the mappings, by name, which share no code with the package.

All act on the last axis, in float64.
"""

import math
from collections.abc import Callable

import torch
from scipy.optimize import isotonic_regression
from torch import Tensor


def at_threshold(
    response: Callable[[Tensor], Tensor], scores: Tensor, total: float, passes: int = 200
) -> Tensor:
    """Return ``response(z - τ)`` for the ``τ`` at which it sums to the total; zero at ``-inf``."""
    top = scores.double().amax(-1, keepdim=True)
    centered = scores.double() - top
    finite = centered.masked_fill(centered == -torch.inf, 0.0)
    reach = 1 + math.log(scores.size(-1))
    low, high = finite.amin(-1, keepdim=True) - reach, torch.full_like(top, reach)
    for _ in range(passes):
        middle = (low + high) / 2
        enough = response(centered - middle).sum(-1, keepdim=True) >= total
        narrow = (middle == low) | (middle == high)
        low, high = torch.where(enough, middle, low), torch.where(enough, high, middle)
        if narrow.all():
            break
    return response(centered - low)


def softmax_by_definition(scores: Tensor) -> Tensor:
    """Compute softmax of the last axis."""
    powers = (scores.double() - scores.double().amax(-1, keepdim=True)).exp()
    return powers / powers.sum(-1, keepdim=True)


def sparsemax_by_sorting(scores: Tensor) -> Tensor:
    """Compute sparsemax of the last axis; Martins & Astudillo (2016), Algorithm 1."""
    centered = scores.double() - scores.double().amax(-1, keepdim=True)
    ordered = centered.sort(-1, descending=True).values
    ranks = torch.arange(1, ordered.size(-1) + 1, dtype=torch.float64)
    thresholds = (ordered.cumsum(-1) - 1) / ranks
    size = (ordered > thresholds).sum(-1, keepdim=True)
    return (centered - thresholds.gather(-1, size - 1)).clamp(min=0)


def entmax_by_bisection(scores: Tensor, alpha: float = 1.5, passes: int = 200) -> Tensor:
    """Compute α-entmax of the last axis; Peters et al. (2019), Algorithm 1."""
    exponent = 1 / (alpha - 1)
    scaled = (scores.double() - scores.double().amax(-1, keepdim=True)) / exponent
    powers = at_threshold(lambda heights: heights.clamp(min=0) ** exponent, scaled, 1.0, passes)
    return powers / powers.sum(-1, keepdim=True)


def sq_pnorm_max_by_bisection(scores: Tensor, p: float = 1.5) -> Tensor:
    """Compute sq-pnorm-max of the last axis from its optimality conditions."""
    dual = p / (p - 1)

    def response(heights: Tensor) -> Tensor:
        above = heights.clamp(min=0)
        return above.pow(dual - 1) * above.pow(dual).sum(-1, keepdim=True).pow(2 / dual - 1)

    powers = at_threshold(response, scores, 1.0)
    return powers / powers.sum(-1, keepdim=True)


def normmax_by_bisection(scores: Tensor, alpha: float = 2.0) -> Tensor:
    """Compute α-normmax of the last axis from its optimality conditions."""
    exponent = alpha / (alpha - 1)
    filled = at_threshold(lambda heights: heights.clamp(min=0) ** exponent, scores, 1.0)
    powers = filled ** (1 / alpha)
    return powers / powers.sum(-1, keepdim=True)


def fusedmax_by_splitting(scores: Tensor, lam: float = 0.1) -> Tensor:
    """Compute fusedmax of the last axis: total variation by its level sets, then sparsemax."""
    centered = scores.double() - scores.double().amax(-1, keepdim=True)
    rows = centered.reshape(-1, scores.size(-1)).tolist()
    levels = [_split(row, 0, 0, lam) for row in rows]
    return sparsemax_by_sorting(torch.tensor(levels, dtype=torch.float64).view(scores.shape))


def _split(row: list[float], left: int, right: int, lam: float) -> list[float]:
    """Return the proximal operator of ``λ Σ |y_{i+1} - y_i|`` at a part of a row.

    The neighbors outside it, ``left`` and ``right``, are above (1), below (-1) or missing (0). The
    optimal set of entries above the best constant level is found. If it is empty or everything, the
    solution is that constant; otherwise each run inside or outside the set is solved on its own.
    """
    level = (sum(row) + lam * (left + right)) / len(row)
    above = _cheapest_labels([level - x for x in row], left, right, lam)
    if len(set(above)) == 1:
        return [level] * len(row)
    ends = [i for i in range(1, len(row)) if above[i] != above[i - 1]]
    levels: list[float] = []
    for start, stop in zip([0, *ends], [*ends, len(row)], strict=True):
        before = left if start == 0 else 2 * above[start - 1] - 1
        after = right if stop == len(row) else 2 * above[stop] - 1
        levels += _split(row[start:stop], before, after, lam)
    return levels


def _cheapest_labels(costs: list[float], left: int, right: int, lam: float) -> list[int]:
    """Find the 0/1 labels of least cost: that of the ones plus ``λ`` per change (Viterbi)."""
    best = [lam * (left == 1), lam * (left == -1) + costs[0]]
    pointers = []
    for cost in costs[1:]:
        stay = [best[b] <= best[1 - b] + lam + 1e-13 for b in (0, 1)]
        pointers.append([b if stay[b] else 1 - b for b in (0, 1)])
        best = [min(best[0], best[1] + lam), min(best[1], best[0] + lam) + cost]
    ends = best[0] + lam * (right == 1), best[1] + lam * (right == -1)
    labels = [int(ends[1] < ends[0] - 1e-13)]
    for pointer in reversed(pointers):
        labels.append(pointer[labels[-1]])
    return labels[::-1]


def oscarmax_by_pooling(scores: Tensor, lam: float = 0.01) -> Tensor:
    """Compute oscarmax of the last axis: sort, pool adjacent violators, project."""
    centered = scores.double() - scores.double().amax(-1, keepdim=True)
    ordered, permutation = centered.sort(-1, descending=True)
    raised = ordered + lam * torch.arange(scores.size(-1), dtype=torch.float64)
    rows = raised.reshape(-1, scores.size(-1)).tolist()
    levels = [isotonic_regression(row, increasing=False).x.tolist() for row in rows]
    pooled = torch.tensor(levels, dtype=torch.float64).view(scores.shape)
    return sparsemax_by_sorting(pooled.gather(-1, permutation.argsort(-1)))


def csoftmax_by_bisection(scores: Tensor, upper: Tensor) -> Tensor:
    """Compute constrained softmax of the last axis: ``min(exp(z - τ), u)``."""
    bound = upper.double()
    return at_threshold(lambda heights: torch.minimum(heights.exp(), bound), scores, 1.0)


def csparsemax_by_bisection(scores: Tensor, upper: Tensor) -> Tensor:
    """Compute constrained sparsemax of the last axis: ``clip(z - τ, 0, u)``."""
    bound = upper.double()
    return at_threshold(lambda heights: torch.minimum(heights.clamp(min=0), bound), scores, 1.0)


def budget_by_bisection(scores: Tensor, k: float = 1.0) -> Tensor:
    """Compute the budget mapping of the last axis: ``clip(z - τ, 0, 1)``, which sums to ``k``."""
    return at_threshold(lambda heights: heights.clamp(0, 1), scores, k)


REFERENCES: dict[str, Callable[..., Tensor]] = {
    "softmax": softmax_by_definition,
    "sparsemax": sparsemax_by_sorting,
    "entmax": entmax_by_bisection,
    "fusedmax": fusedmax_by_splitting,
    "oscarmax": oscarmax_by_pooling,
    "sq_pnorm_max": sq_pnorm_max_by_bisection,
    "csoftmax": csoftmax_by_bisection,
    "csparsemax": csparsemax_by_bisection,
    "normmax": normmax_by_bisection,
    "budget": budget_by_bisection,
}
"""Reference of each of :data:`repro.mappings.MAPPINGS`; bounded ones take bounds second."""
