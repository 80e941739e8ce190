"""Examples of sequence tasks, and links between their words; does not import torch."""

from typing import NamedTuple


class Pair(NamedTuple):
    """Ids of both sides of an example, without ``PAD``, ``BOS`` and ``EOS``."""

    source: list[int]
    target: list[int]


Links = frozenset[tuple[int, int]]
"""Pairs of a source and a target position, counted from 0."""
