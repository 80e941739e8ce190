"""Chains with scores of very different scales; run as a script, this solves all of them.

python tests/structures/chain_problems.py 500
"""

import sys
import time

import numpy as np
import torch
from torch import Tensor

from repro.structures import LinearChain, sparsemap

HARD = (0, 26, 80, 106, 153, 178, 299, 461)
"""Problems where exchanging single paths does not reach a gap of 1e-5 in 10,000 iterations."""


def chain_problem(seed: int) -> tuple[Tensor, Tensor]:
    """Scores ``(1, n, m)`` and transitions ``(1, n-1, m, m)``, up to 40 items and 20 tags.

    Standard deviations are drawn log-uniformly from 1e-4 to 1e3, independently for both. A fifth
    of the problems each: half of the scores zero; scores rounded, so that many are tied; no unary
    scores, or the same transitions everywhere; the rest is normal.
    """
    random = np.random.default_rng(seed)
    n, m = int(random.integers(2, 41)), int(random.integers(2, 21))
    unary_scale, pair_scale = 10 ** random.uniform(-4, 3, 2)
    unary = random.standard_normal((n, m)) * unary_scale
    pairs = random.standard_normal((n - 1, m, m)) * pair_scale
    if seed % 5 == 1:
        unary *= random.random(unary.shape) < 0.5
        pairs *= random.random(pairs.shape) < 0.5
    elif seed % 5 == 2:
        unary = np.round(unary / unary_scale) * unary_scale
        pairs = np.round(pairs / pair_scale) * pair_scale
    elif seed % 5 == 3 and seed % 2:
        unary *= 0
    elif seed % 5 == 3:
        pairs = np.broadcast_to(pairs[:1], pairs.shape).copy()
    return torch.from_numpy(unary)[None], torch.from_numpy(pairs)[None]


def certified_gap(unary: Tensor, pairs: Tensor, marginals: Tensor, additional: Tensor) -> float:
    """Bound the distance of marginals from the optimum by the Frank-Wolfe gap's definition."""
    lowered = unary - marginals
    best = LinearChain().score(LinearChain().map(lowered, pairs), lowered, pairs)
    mean = (lowered * marginals).sum() + (pairs * additional).sum()
    return float(best - mean)


def gap_limit(unary: Tensor, pairs: Tensor) -> float:
    """1e-9, or what rounding does to the score of a path where that is more."""
    return 1e-9 + 2.0**-48 * float(unary.abs().amax(-1).sum() + pairs.abs().amax((-1, -2)).sum())


def main(problems: int) -> None:
    """Solve the first problems and print what is not solved."""
    iterations, gaps, begin = [], [], time.perf_counter()
    for seed in range(problems):
        unary, pairs = chain_problem(seed)
        solution = sparsemap(LinearChain(), unary, pairs, tol=1e-9)
        gap = certified_gap(unary, pairs, solution.marginals, solution.additional)
        iterations.append(int(solution.iterations))
        gaps.append(gap / gap_limit(unary, pairs))
        if not solution.converged.all() or gaps[-1] > 1:
            print(f"problem {seed} {tuple(unary.shape[1:])}: gap {gap:.1e}")
    seconds = time.perf_counter() - begin
    print(f"{sum(g <= 1 for g in gaps)} of {problems} solved in {seconds:.0f} s")
    print(f"iterations: {np.mean(iterations):.0f} on average, {max(iterations)} at most")


if __name__ == "__main__":
    main(int(sys.argv[1]))
