"""Alignment links: symmetrization of two directions, fertilities, storage on disk."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from repro.data.arrow import ArrowPairs, write_pairs
from repro.data.pair import Links, Pair

_NEIGHBORS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def grow_diag_final_and(forward: Links, reverse: Links) -> Links:
    """Grow the intersection of both directions along neighbors, then add isolated links.

    A link of either direction that neighbors an accepted link (also diagonally) is added if its
    source or its target word has no link yet. Passes over the candidates, in order of their
    positions, are repeated until one adds none. Then links are added whose two words both have
    none, the forward ones first. ``atools``, which comes with fast_align, does the same. Links of
    both directions are ``(source, target)``.

    References:
        Koehn et al. (2005), Edinburgh system description for the 2005 IWSLT speech translation
        evaluation.
    """
    links = set(forward & reverse)
    sources, targets = {j for j, _ in links}, {i for _, i in links}

    def add_where(candidates: Links, wanted: Callable[[int, int], bool]) -> bool:
        """Add the wanted candidates in order; return whether any was added."""
        before = len(links)
        for j, i in sorted(candidates - links):
            if wanted(j, i):
                links.add((j, i))
                sources.add(j)
                targets.add(i)
        return len(links) > before

    def grows(j: int, i: int) -> bool:
        free = j not in sources or i not in targets
        return free and any((j + a, i + b) in links for a, b in _NEIGHBORS)

    while add_where(forward | reverse, grows):
        pass
    for direction in (forward, reverse):
        add_where(direction, lambda j, i: j not in sources and i not in targets)
    return frozenset(links)


def fertilities(links: Links, length: int) -> list[int]:
    """Count the links of each of ``length`` source positions."""
    counts = [0] * length
    for j, _ in links:
        counts[j] += 1
    return counts


def largest_fertilities(
    sentences: Iterable[Sequence[str]], alignments: Iterable[Links]
) -> dict[str, int]:
    """Find the largest fertility of every source word, at least 1.

    References:
        Malaviya et al. (2018), §4, GUIDED: the largest value observed in the training data, or 1
        if no alignment was observed.
    """
    largest: dict[str, int] = {}
    for words, links in zip(sentences, alignments, strict=True):
        for word, count in zip(words, fertilities(links, len(words)), strict=True):
            largest[word] = max(largest.get(word, 1), count)
    return largest


def write_links(path: Path, alignments: Iterable[Links]) -> None:
    """Write the links of sentence pairs; memory does not grow with their number."""
    in_order = (sorted(links) for links in alignments)
    write_pairs(path, (Pair([j for j, _ in one], [i for _, i in one]) for one in in_order))


class StoredLinks(Sequence[Links]):
    """Links in a file that :func:`write_links` wrote; the file stays on disk."""

    def __init__(self, path: Path) -> None:
        self._positions = ArrowPairs(path)

    def __len__(self) -> int:
        return len(self._positions)

    def __getitem__(self, index: int) -> Links:  # type: ignore[override]  # no slices
        """Return the links of one sentence pair; raise ``IndexError`` if there is none."""
        return frozenset(zip(*self._positions[index], strict=True))
