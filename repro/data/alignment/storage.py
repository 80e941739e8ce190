"""Alignment links in Arrow files: written as they come, read from disk where they lie."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from repro.data.alignment.symmetry import Links
from repro.data.arrow import ArrowPairs, write_pairs
from repro.data.batching import Pair


def write_links(path: Path, alignments: Iterable[Links]) -> None:
    """Write the links of sentence pairs; memory does not grow with their number."""
    write_pairs(path, (_positions(links) for links in alignments))


def _positions(links: Links) -> Pair:
    """The source and the target position of every link, in order."""
    ordered = sorted(links)
    return Pair([j for j, _ in ordered], [i for _, i in ordered])


class StoredLinks(Sequence[Links]):
    """Links in a file that :func:`write_links` wrote; the file stays on disk.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        self._positions = ArrowPairs(path)

    def __len__(self) -> int:
        return len(self._positions)

    def __getitem__(self, index: int) -> Links:  # type: ignore[override]  # no slices
        """The links of one sentence pair.

        Raises:
            IndexError: no such pair.
        """
        return frozenset(zip(*self._positions[index], strict=True))
