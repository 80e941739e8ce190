"""Translation probabilities of the word pairs that occur together, in an open hash table."""

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from repro.data.alignment.corpus import NULL, FlatCorpus

_EMPTY = -1
_MIXER = np.uint64(0x9E3779B97F4A7C15)
UNSEEN = 1e-9
"""Probability of a pair of words that never occurred together."""


@dataclass(frozen=True)
class PairTable:
    """Slots of word pairs.

    Attributes:
        keys: ``source * width + target`` of each slot; -1 where empty. A power of two many.
        width: more than any target number.
    """

    keys: NDArray[np.int64]
    width: int


@njit(nogil=True)
def find(keys, key):
    """Slot of a key, or the empty slot where it would go."""
    mask = np.uint64(len(keys) - 1)
    slot = (np.uint64(key) * _MIXER >> np.uint64(20)) & mask
    while keys[slot] != _EMPTY and keys[slot] != key:
        slot = (slot + np.uint64(1)) & mask
    return np.int64(slot)


@njit(nogil=True)
def _grown(keys):
    """The same keys in a table twice as large."""
    larger = np.full(2 * len(keys), _EMPTY, np.int64)
    for key in keys:
        if key != _EMPTY:
            larger[find(larger, key)] = key
    return larger


@njit(nogil=True)
def _collect(source, target, source_starts, target_starts, width):
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
                        keys = _grown(keys)
    return keys


def collect_pairs(corpus: FlatCorpus, targets: int) -> PairTable:
    """Find every pair of a source word (or NULL) and a target word in one sentence pair.

    Args:
        corpus: without unknown words.
        targets: number of target words.
    """
    width = targets + 1
    keys = _collect(corpus.source, corpus.target, corpus.source_starts, corpus.target_starts, width)
    return PairTable(keys, width)
