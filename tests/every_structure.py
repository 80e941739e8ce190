"""Oracles: all structures of a small problem, their parts, and sums over them."""

from collections.abc import Iterable, Iterator
from itertools import permutations, product

import torch
from torch import Tensor


def spread(first: Iterable[str], second: Iterable[object]) -> list[tuple[str, object]]:
    """Every other pair of two lists: each value is there, in half of the product."""
    pairs = product(enumerate(first), enumerate(second))
    return [(a, b) for (i, a), (j, b) in pairs if (i + j) % 2 == 0]


def is_tree(heads: tuple[int, ...]) -> bool:
    """Return whether all words reach the root; ``heads[m - 1]`` is the head of ``m``."""
    for word in range(1, len(heads) + 1):
        place, steps = word, 0
        while place and steps <= len(heads):
            place, steps = heads[place - 1], steps + 1
        if place:
            return False
    return True


def all_trees(words: int, single_root: bool) -> Iterator[tuple[int, ...]]:
    for heads in product(range(words + 1), repeat=words):
        if is_tree(heads) and not (single_root and heads.count(0) != 1):
            yield heads


def tree_parts(heads: tuple[int, ...], size: int) -> Tensor:
    """The arcs of a tree in a matrix with ``size`` rows."""
    parts = torch.zeros(size, size, dtype=torch.float64)
    for word, head in enumerate(heads, start=1):
        parts[head, word] = 1
    return parts


def tree_matrix(words: int, size: int, single_root: bool) -> Tensor:
    """``M``: one row for every tree, ``(D, size * size)``."""
    trees = all_trees(words, single_root)
    return torch.stack([tree_parts(heads, size).flatten() for heads in trees])


def all_tag_sequences(positions: int, tags: int) -> list[tuple[int, ...]]:
    return list(product(range(tags), repeat=positions))


def sequence_parts(sequence: tuple[int, ...], positions: int, tags: int) -> tuple[Tensor, Tensor]:
    """Tags ``(positions, tags)`` and pairs ``(positions - 1, tags, tags)`` of a sequence."""
    unary = torch.zeros(positions, tags, dtype=torch.float64)
    pairs = torch.zeros(max(positions - 1, 0), tags, tags, dtype=torch.float64)
    for place, tag in enumerate(sequence):
        unary[place, tag] = 1
        if place:
            pairs[place - 1, sequence[place - 1], tag] = 1
    return unary, pairs


def all_matchings(rows: int, columns: int) -> Iterator[tuple[int, ...]]:
    """The column of every row, -1 where it is unmatched; ``min(rows, columns)`` pairs."""
    if rows <= columns:
        yield from permutations(range(columns), rows)
        return
    for places in permutations(range(rows), columns):
        chosen = [-1] * rows
        for column, row in enumerate(places):
            chosen[row] = column
        yield tuple(chosen)


def matching_parts(columns_of_rows: tuple[int, ...], rows: int, columns: int) -> Tensor:
    parts = torch.zeros(rows, columns, dtype=torch.float64)
    for row, column in enumerate(columns_of_rows):
        if column >= 0:
            parts[row, column] = 1
    return parts


def dot(parts: Tensor, scores: Tensor) -> Tensor:
    """``parts @ scores`` where zero times infinity is zero."""
    return torch.where(parts != 0, parts * scores, 0.0).sum(-1)
