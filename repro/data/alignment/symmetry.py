"""Alignments of both directions made into one."""

from collections.abc import Callable

Links = frozenset[tuple[int, int]]
"""Pairs of a source and a target position, counted from 0."""

_NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def grow_diag_final_and(forward: Links, backward: Links) -> Links:
    """Start at the links of both directions, grow along neighbours, then add what is left over.

    A neighbour (also a diagonal one) that one direction has is added while its source or its
    target word has no link. At the end, links of one direction join where both words have none,
    the forward ones first.

    Args:
        forward: links of the source-to-target model.
        backward: links of the target-to-source model, also as ``(source, target)``.

    References:
        Koehn et al. (2005), Edinburgh system description for the 2005 IWSLT evaluation.
    """
    union, links = forward | backward, set(forward & backward)
    sources, targets = {j for j, _ in links}, {i for _, i in links}

    def add_where(candidates: list[tuple[int, int]], wanted: Callable[[int, int], bool]) -> bool:
        before = len(links)
        for j, i in candidates:
            if (j, i) not in links and wanted(j, i):
                links.add((j, i))
                sources.add(j)
                targets.add(i)
        return len(links) > before

    def grows() -> bool:
        near = [(j + a, i + b) for j, i in sorted(links) for a, b in _NEIGHBOURS]
        candidates = [link for link in near if link in union]
        return add_where(candidates, lambda j, i: j not in sources or i not in targets)

    while grows():
        pass
    for direction in (forward, backward):
        add_where(sorted(direction), lambda j, i: j not in sources and i not in targets)
    return frozenset(links)
