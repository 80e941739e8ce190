"""One example of a sequence task, and links between its words; a module that needs no torch."""

from typing import NamedTuple


class Pair(NamedTuple):
    """Ids of one example; neither side holds ``PAD``, ``BOS`` or ``EOS``."""

    source: list[int]
    target: list[int]


Links = frozenset[tuple[int, int]]
"""Pairs of a source and a target position, counted from 0."""
