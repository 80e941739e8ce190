"""Rows on which root finding is hard: flat, tied, ladders, heavy tails."""

import torch
from torch import Tensor


def newton_ladder(n: int, kept: float) -> Tensor:
    """Sparsemax scores of which each Newton step from the left drops the same share."""
    counts = [n]
    while int(counts[-1] * kept) >= 1 and int(counts[-1] * kept) < counts[-1]:
        counts.append(int(counts[-1] * kept))
    thresholds = [0.0]
    for k, count in enumerate(counts):
        thresholds.append(thresholds[-1] - (1 - kept) ** k / count)
    scores, start = torch.zeros(n, dtype=torch.float64), 0
    for k in range(len(counts) - 1):
        stop = start + counts[k] - counts[k + 1]
        scores[start:stop] = -thresholds[k + 1]
        start = stop
    scores[start:] = -thresholds[-1] + 1 / max(1, n - start)
    return scores - scores.max()


def tied_tail(n: int, distance: float) -> Tensor:
    """One leader and ``n - 1`` entries tied at a distance."""
    row = torch.full((n,), -distance, dtype=torch.float64)
    row[0] = 0
    return row


def tied_above_two(n: int, alpha: float) -> tuple[Tensor, Tensor]:
    """Forty rows of a leader and entries tied ever closer to its threshold, and their α-entmax.

    The logarithm of the common height ``p^{α-1}`` of the tied entries is bisected, for ``α > 2``.
    """
    r, distances = alpha - 1, 10 ** -torch.linspace(0.3, 13, 40, dtype=torch.float64)
    leads = (1 - distances) / r
    low, high = torch.full((40,), -800.0, dtype=torch.float64), torch.zeros(40, dtype=torch.float64)
    for _ in range(80):
        middle = (low + high) / 2
        mass = (n - 1) * (middle / r).exp() + (middle.exp() + r * leads) ** (1 / r)
        low, high = torch.where(mass > 1, low, middle), torch.where(mass > 1, middle, high)
    scores = torch.zeros(40, n, dtype=torch.float64)
    scores[:, 0] = leads
    probs = (low / r).exp()[:, None].repeat(1, n)
    probs[:, 0] = (low.exp() + r * leads) ** (1 / r)
    return scores, probs


def hard_rows(n: int) -> Tensor:
    """Rows of length ``n`` in units of the support's width, float64."""
    generator = torch.Generator().manual_seed(n)
    index = torch.arange(n, dtype=torch.float64)
    rows = [torch.zeros(n, dtype=torch.float64)]
    for scale in (1e-6, 1e-3, 0.1, 1.0, 10.0):
        rows.append(torch.randn(n, generator=generator, dtype=torch.float64) * scale)
        heavy = torch.empty(n, dtype=torch.float64).cauchy_(generator=generator)
        rows.append(heavy.clamp(-1e6, 1e6) * scale)
        rows.append(torch.randint(0, 3, (n,), generator=generator).double() * scale)
    rows += [-(1 - q**index) for q in (0.1, 0.5, 0.9)]
    rows += [-(q ** index.flip(0)) for q in (0.1, 0.5, 0.9)]
    rows += [newton_ladder(n, kept) for kept in (0.3, 0.5, 0.6, 0.7, 0.8)]
    rows += [tied_tail(n, distance) for distance in (0.1, 0.5, 0.7, 0.9)]
    return torch.stack(rows)
