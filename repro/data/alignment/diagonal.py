r"""The prior over alignments: links close to the diagonal are likely.

Target position ``i`` of ``m`` aligns to source position ``j`` of ``n`` with probability

.. math:: \delta(0) = p_0, \qquad
          \delta(j) = (1 - p_0) \frac{e^{\lambda h(i, j)}}{\sum_k e^{\lambda h(i, k)}}, \qquad
          h(i, j) = - \left| \frac{i}{m} - \frac{j}{n} \right|

References:
    Dyer, Chahuneau & Smith (2013), A simple, fast, and effective reparameterization of IBM
    Model 2, §2.
"""

import math

import numpy as np
from numba import njit

from repro.data.alignment.corpus import FlatCorpus

LEAST_TENSION, MOST_TENSION = 0.1, 14.0
_STEPS = 50
_SETTLED = 1e-6


@njit(nogil=True)
def closeness(i, m, j, n):
    """``h``, positions counted from one."""
    return -abs(i / m - j / n)


@njit(nogil=True)
def diagonal_weights(i, m, n, tension, weights):
    """Write ``e^{λh}`` for all ``n`` source positions; return the sum."""
    total = 0.0
    for j in range(n):
        weights[j] = math.exp(tension * closeness(i, m, j + 1, n))
        total += weights[j]
    return total


@njit(nogil=True)
def _moments(sizes, tension):
    """Sums over target words of the mean of ``h`` under the prior, and of its variance."""
    mean_sum = variance_sum = 0.0
    for k in range(sizes.shape[0]):
        m, n, count = sizes[k]
        weights = np.empty(n)
        for i in range(1, m + 1):
            total = diagonal_weights(i, m, n, tension, weights)
            mean = square = 0.0
            for j in range(n):
                h = closeness(i, m, j + 1, n)
                mean += weights[j] / total * h
                square += weights[j] / total * h * h
            mean_sum += count * mean
            variance_sum += count * (square - mean * mean)
    return mean_sum, variance_sum


def sentence_sizes(corpus: FlatCorpus) -> np.ndarray:
    """Each pair of lengths ``(m, n)`` once, with the number of sentence pairs that have it."""
    lengths = np.stack([np.diff(corpus.target_starts), np.diff(corpus.source_starts)], axis=1)
    sizes, counts = np.unique(lengths, axis=0, return_counts=True)
    return np.concatenate([sizes, counts[:, None]], axis=1)


def best_tension(sizes: np.ndarray, links: float, closeness_sum: float, tension: float) -> float:
    """The ``λ`` under which the expected links are most likely.

    The expected log-likelihood is concave in ``λ``, with gradient "observed less prior mean of
    ``h``" and minus the prior's variance as second derivative: Newton's method, kept in range.

    Args:
        sizes: what :func:`sentence_sizes` returns.
        links: expected number of target words that are not aligned to NULL.
        closeness_sum: expected sum of ``h`` over these links.
        tension: where to start.
    """
    words = float((sizes[:, 0] * sizes[:, 2]).sum())
    share = links / words
    for _ in range(_STEPS):
        mean, variance = _moments(sizes, tension)
        step = (closeness_sum - share * mean) / max(share * variance, 1e-12)
        moved = min(max(tension + step, LEAST_TENSION), MOST_TENSION)
        if abs(moved - tension) < _SETTLED:
            return moved
        tension = moved
    return tension
