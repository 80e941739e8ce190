"""Links of both directions combined into one alignment."""

from collections.abc import Callable, Iterable
from typing import Literal

Links = frozenset[tuple[int, int]]
"""Pairs of a source and a target position, counted from 0."""
Symmetry = Literal["forward", "reverse", "grow-diag-final-and"]
"""Which links of two directions are kept."""

_NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def combine(forward: Links, reverse: Links, symmetry: Symmetry) -> Links:
    """Links of one direction, or symmetric links by :func:`grow_diag_final_and`.

    Args:
        forward: links of the source-to-target model.
        reverse: links of the target-to-source model, also as ``(source, target)``.
        symmetry: which of them are kept.
    """
    if symmetry == "grow-diag-final-and":
        return grow_diag_final_and(forward, reverse)
    return forward if symmetry == "forward" else reverse


def grow_diag_final_and(forward: Links, reverse: Links) -> Links:
    """Grow the intersection of both directions along neighbours, then add isolated links.

    A link of either direction next to a link (also diagonally) is added while its source or its
    target word has no link. At the end, links of one direction are added where both words have
    none, the forward ones first. Candidates are visited in order of their positions until a pass
    adds none, as by ``atools``, the program that comes with fast_align.

    Args:
        forward: links of the source-to-target model.
        reverse: links of the target-to-source model, also as ``(source, target)``.

    References:
        Koehn et al. (2005), Edinburgh system description for the 2005 IWSLT evaluation.
    """
    links = set(forward & reverse)
    sources, targets = {j for j, _ in links}, {i for _, i in links}

    def add_where(candidates: Iterable[tuple[int, int]], wanted: Callable[[int, int], bool]) -> int:
        before = len(links)
        for j, i in sorted(set(candidates) - links):
            if wanted(j, i):
                links.add((j, i))
                sources.add(j)
                targets.add(i)
        return len(links) - before

    def grows(j: int, i: int) -> bool:
        free = j not in sources or i not in targets
        return free and any((j + a, i + b) in links for a, b in _NEIGHBOURS)

    while add_where(forward | reverse, grows):
        pass
    for direction in (forward, reverse):
        add_where(direction, lambda j, i: j not in sources and i not in targets)
    return frozenset(links)
