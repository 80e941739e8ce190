r"""Compiled loops of the aligner: table of word pairs, expectation maximization, best links.

Links close to the diagonal are likely: target position ``i`` of ``m`` aligns to source position
``j`` of ``n`` with the prior probability

.. math:: \delta(0) = p_0, \qquad
          \delta(j) = (1 - p_0) \frac{e^{\lambda h(i, j)}}{\sum_k e^{\lambda h(i, k)}}, \qquad
          h(i, j) = - \left| \frac{i}{m} - \frac{j}{n} \right|

References:
    Dyer, Chahuneau & Smith (2013), A simple, fast, and effective reparameterization of IBM
    Model 2, §2.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from repro.compilation import compiled_on_disk

Integers = NDArray[np.int32] | NDArray[np.int64]

NULL = 0
"""Number of the NULL word, to which target words without a counterpart align."""
NULL_PROBABILITY = 0.08
"""``p_0`` of ``fast_align -d -o -v``."""
UNKNOWN = -1
"""Number of a word that was not seen in training."""
_EMPTY = -1
_MIXER = np.uint64(0x9E3779B97F4A7C15)
UNSEEN = 1e-9
"""Probability of a pair of words that never occurred in one sentence pair."""
LEAST_TENSION, MOST_TENSION = 0.1, 14.0
_ASCENT_STEPS, _ASCENT_RATE = 8, 20.0
"""Number of gradient steps of fast_align after each pass, and their step size."""


class FlatCorpus(NamedTuple):
    """Sentence pairs, concatenated: 4 bytes per word and 16 bytes per pair.

    A named tuple, because Numba accepts it as an argument; ``len`` is that of the tuple.

    Both sides are word numbers; starts are the offset of each sentence, then the end of the last.
    """

    source: Integers
    target: Integers
    source_starts: Integers
    target_starts: Integers

    @property
    def pairs(self) -> int:
        """Number of sentence pairs."""
        return len(self.source_starts) - 1

    def turned(self) -> "FlatCorpus":
        """Return the corpus with source and target exchanged; the arrays are shared."""
        return FlatCorpus(self.target, self.source, self.target_starts, self.source_starts)


class PairTable(NamedTuple):
    """Hash table of word pairs with open addressing.

    Attributes:
        keys: ``source * width + target`` of each slot, or -1 if empty; the length is a power of 2.
        width: greater than any target number.
    """

    keys: NDArray[np.int64]
    width: int


class LinkModel(NamedTuple):
    """Parameters of the distribution of alignment links.

    Attributes:
        table: the word pairs that occurred together.
        probabilities: ``t(target | source)`` of every slot of the table.
        tension: ``λ`` of the diagonal prior.
    """

    table: PairTable
    probabilities: NDArray[np.float64]
    tension: float


@njit(nogil=True)
def closeness(i, m, j, n):
    """Return ``h(i, j)``, with positions counted from one."""
    return -abs(i / m - j / n)


@njit(nogil=True)
def diagonal_weights(i, m, n, tension, weights):
    """Write ``e^{λh}`` of all ``n`` source positions to ``weights``; return the sum."""
    total = 0.0
    for j in range(n):
        weights[j] = math.exp(tension * closeness(i, m, j + 1, n))
        total += weights[j]
    return total


@njit(nogil=True)
def find(keys, key):
    """Return the slot of a key, or the empty slot at which to insert it."""
    mask = np.uint64(len(keys) - 1)
    slot = (np.uint64(key) * _MIXER >> np.uint64(20)) & mask
    while keys[slot] != _EMPTY and keys[slot] != key:
        slot = (slot + np.uint64(1)) & mask
    return np.int64(slot)


@compiled_on_disk(nogil=True)
def collect_pairs(corpus, targets):
    """Collect every pair of a source word (or NULL) and a target word of one sentence pair.

    The corpus has ``targets`` distinct target words and no unknown word.
    """
    width = targets + 1
    source, target, source_starts, target_starts = corpus
    keys, used = np.full(1 << 12, _EMPTY, np.int64), 0
    for s in range(len(source_starts) - 1):
        for i in range(target_starts[s], target_starts[s + 1]):
            for j in range(source_starts[s] - 1, source_starts[s + 1]):
                word = NULL if j < source_starts[s] else source[j]
                key = word * width + target[i]
                slot = find(keys, key)
                if keys[slot] == _EMPTY:
                    keys[slot], used = key, used + 1
                    if 2 * used > len(keys):
                        larger = np.full(2 * len(keys), _EMPTY, np.int64)
                        for known in keys:
                            if known != _EMPTY:
                                larger[find(larger, known)] = known
                        keys = larger
    return PairTable(keys, width)


@njit(nogil=True)
def _probability(model, source, target):
    """Return ``t(target | source)``, or :data:`UNSEEN` for words or pairs not seen in training."""
    if source == UNKNOWN or target == UNKNOWN:
        return UNSEEN
    slot = find(model.table.keys, source * model.table.width + target)
    return model.probabilities[slot] if model.table.keys[slot] >= 0 else UNSEEN


@njit(nogil=True)
def joint(model, words, target, i, m, out):
    """Write ``δ(j) t(e | f_j)`` of NULL (index 0) and all source positions; return the sum."""
    n = len(words)
    scale = (1.0 - NULL_PROBABILITY) / diagonal_weights(i, m, n, model.tension, out[1:])
    out[0] = NULL_PROBABILITY * _probability(model, NULL, target)
    evidence = out[0]
    for j in range(n):
        out[j + 1] *= scale * _probability(model, words[j], target)
        evidence += out[j + 1]
    return evidence


@compiled_on_disk(nogil=True)
def expected_counts(corpus, model, counts):
    """Add the expected number of links of every word pair to ``counts``.

    Returns:
        Log-likelihood, and expected sum of ``h`` with target positions counted from zero.
    """
    source, target, source_starts, target_starts = corpus
    keys, width = model.table
    likelihood = closeness_sum = 0.0
    longest = np.max(source_starts[1:] - source_starts[:-1]) + 1
    share = np.empty(longest)
    for s in range(len(source_starts) - 1):
        words = source[source_starts[s] : source_starts[s + 1]]
        n, m = len(words), target_starts[s + 1] - target_starts[s]
        for i in range(m):
            word = target[target_starts[s] + i]
            evidence = joint(model, words, word, i + 1, m, share[: n + 1])
            likelihood += math.log(evidence)
            counts[find(keys, NULL * width + word)] += share[0] / evidence
            for j in range(n):
                posterior = share[j + 1] / evidence
                counts[find(keys, words[j] * width + word)] += posterior
                closeness_sum += posterior * closeness(i, m, j + 1, n)
    return likelihood, closeness_sum


@njit(nogil=True)
def _digamma(x):
    """Compute ``ψ(x)`` for ``x > 0`` by recurrence up to 6, then by the asymptotic series."""
    value = 0.0
    while x < 6.0:
        value -= 1.0 / x
        x += 1.0
    r = 1.0 / (x * x)
    series = r * (1 / 12 - r * (1 / 120 - r * (1 / 252 - r * (1 / 240 - r / 132))))
    return value + math.log(x) - 0.5 / x - series


@compiled_on_disk(nogil=True)
def normalize(table, counts, sources, concentration, probabilities):
    """Estimate ``t`` from counts and write it to ``probabilities``.

    With a symmetric Dirichlet prior of this concentration, ``t`` is the exponential of the
    variational mean of ``log t``; with concentration zero it is the relative frequency.
    """
    keys, width = table
    totals = np.zeros(sources + 1)
    for slot in range(len(keys)):
        if keys[slot] >= 0:
            totals[keys[slot] // width] += counts[slot] + concentration
    for slot in range(len(keys)):
        if keys[slot] >= 0:
            total, count = totals[keys[slot] // width], counts[slot] + concentration
            if concentration > 0.0:
                probabilities[slot] = math.exp(_digamma(count) - _digamma(total))
            else:
                probabilities[slot] = count / total if total > 0.0 else 0.0


@compiled_on_disk(nogil=True)
def best_links(corpus, model):
    """Return the most probable source position of every target word, from 0, or -1 for NULL.

    Ties are resolved in favor of NULL, then of the first position.
    """
    source, target, source_starts, target_starts = corpus
    links = np.empty(len(target), np.int64)
    share = np.empty(np.max(source_starts[1:] - source_starts[:-1]) + 1)
    for s in range(len(source_starts) - 1):
        words = source[source_starts[s] : source_starts[s + 1]]
        m = target_starts[s + 1] - target_starts[s]
        places = share[: len(words) + 1]
        for i in range(m):
            place = target_starts[s] + i
            joint(model, words, target[place], i + 1, m, places)
            links[place] = np.argmax(places) - 1
    return links


def sentence_sizes(corpus: FlatCorpus) -> np.ndarray:
    """Count sentence pairs by their lengths: distinct rows ``(m, n, count)``."""
    lengths = np.stack([np.diff(corpus.target_starts), np.diff(corpus.source_starts)], axis=1)
    sizes, counts = np.unique(lengths, axis=0, return_counts=True)
    return np.concatenate([sizes, counts[:, None]], axis=1)


@njit(nogil=True)
def _geometric(nearest, tension, steps, count):
    """Sum ``e^{λh}`` over ``count`` values of ``h``, from ``nearest`` by ``-1 / steps``."""
    ratio = math.exp(-tension / steps)
    return math.exp(tension * nearest) * (1.0 - ratio**count) / (1.0 - ratio)


@compiled_on_disk(nogil=True)
def _prior_mean(sizes, tension):
    """Sum ``Σ_j h e^{λh}``, divided by the normalizer of fast_align, over all target words.

    The program exchanges the two lengths in the normalizer: it sums over ``m`` positions, those
    above and those below the diagonal point ``i m / n``. If the point lies above all of them, the
    unsigned number of positions above it wraps around, so that their geometric series is summed to
    infinity.
    """
    result = 0.0
    for k in range(sizes.shape[0]):
        m, n, count = sizes[k]
        for i in range(1, m + 1):
            total = 0.0
            for j in range(1, n + 1):
                h = closeness(i, m, j, n)
                total += h * math.exp(tension * h)
            below = int(i * m / n)
            above = m - below if m >= below else math.inf
            normalizer = 0.0
            if above:
                normalizer += _geometric(closeness(i, n, below + 1, m), tension, m, above)
            if below:
                normalizer += _geometric(closeness(i, n, below, m), tension, m, below)
            result += count * total / normalizer
    return result


def fast_align_tension(sizes: np.ndarray, closeness_sum: float, tension: float) -> float:
    """Update ``λ`` as the program fast_align does, to reproduce its alignments.

    Takes eight steps along the gradient of the expected log-likelihood, the posterior mean of ``h``
    minus the prior mean, with three errors of the program: the posterior mean counts target
    positions from zero (see ``closeness_sum``), the normalizer of the prior exchanges the two
    lengths, and words aligned to NULL count in the prior mean only. The result is far from the
    maximum of the likelihood: 7.2 instead of 13.7 on Multi30k (German to English).

    Args:
        sizes: result of :func:`sentence_sizes`.
        closeness_sum: expected sum of ``h`` over links, target positions counted from zero.
        tension: initial value.

    References:
        https://github.com/clab/fast_align, options ``-d -o``.
    """
    words = float((sizes[:, 0] * sizes[:, 2]).sum())
    for _ in range(_ASCENT_STEPS):
        gradient = (closeness_sum - _prior_mean(sizes, tension)) / words
        tension += _ASCENT_RATE * gradient
        tension = min(max(tension, LEAST_TENSION), MOST_TENSION)
    return tension
