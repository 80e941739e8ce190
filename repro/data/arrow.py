"""Encoded pairs in Arrow files: written in pieces, read from disk where they lie."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from repro.atomic import atomic_path
from repro.data.batching import Pair

_PIECE = 10_000
_SCHEMA = pa.schema([("source", pa.list_(pa.int32(), -1)), ("target", pa.list_(pa.int32(), -1))])


def write_pairs(path: Path, pairs: Iterable[Pair]) -> None:
    """Write pairs in pieces of ten thousand; memory does not grow with their number."""
    rest = iter(pairs)
    with (
        atomic_path(path) as temporary,
        pa.OSFile(str(temporary), "wb") as sink,
        pa.ipc.new_stream(sink, _SCHEMA) as writer,
    ):
        while piece := list(islice(rest, _PIECE)):
            columns = [[pair.source for pair in piece], [pair.target for pair in piece]]
            arrays = [pa.array(c, f.type) for c, f in zip(columns, _SCHEMA, strict=True)]
            writer.write_batch(pa.record_batch(arrays, schema=_SCHEMA))


class _Ragged:
    """A column of lists, as views of the memory-mapped file."""

    def __init__(self, column: pa.ChunkedArray) -> None:
        chunks = [chunk for chunk in column.chunks if len(chunk)]
        self._offsets = [chunk.offsets.to_numpy() for chunk in chunks]
        self._values = [chunk.values.to_numpy() for chunk in chunks]
        self._starts = np.cumsum([0, *map(len, chunks)]).tolist()
        self.lengths: NDArray[np.int32] = np.concatenate(
            [np.diff(offsets) for offsets in self._offsets] or [np.empty(0, np.int32)]
        )

    def __getitem__(self, index: int) -> list[int]:
        piece = bisect_right(self._starts, index) - 1
        row, offsets = index - self._starts[piece], self._offsets[piece]
        ids: list[int] = self._values[piece][offsets[row] : offsets[row + 1]].tolist()
        return ids


class ArrowPairs(Sequence[Pair]):
    """Pairs in a file that :func:`write_pairs` wrote; the file stays on disk.

    Args:
        path: the file.

    Attributes:
        source_lengths: number of symbols of every source.
        target_lengths: number of symbols of every target.
    """

    def __init__(self, path: Path) -> None:
        from datasets import Dataset  # slow to import, and few runs read such files

        table = Dataset.from_file(str(path)).data.table
        self._source, self._target = (_Ragged(table.column(name)) for name in _SCHEMA.names)
        self.source_lengths = self._source.lengths
        self.target_lengths = self._target.lengths

    def __len__(self) -> int:
        return len(self.source_lengths)

    def __getitem__(self, index: int) -> Pair:  # type: ignore[override]  # no slices
        if not 0 <= index < len(self):
            raise IndexError(f"pair {index} of {len(self)}")
        return Pair(self._source[index], self._target[index])

    def __iter__(self) -> Iterator[Pair]:
        return (self[index] for index in range(len(self)))
