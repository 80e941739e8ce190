"""Encoded pairs in Arrow files, written in pieces and read by memory mapping."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate, islice
from pathlib import Path

import pyarrow as pa
import pyarrow.compute

from repro.atomic import atomic_path
from repro.data.pair import Pair

_PIECE = 10_000
_SCHEMA = pa.schema([("source", pa.list_(pa.int32(), -1)), ("target", pa.list_(pa.int32(), -1))])


def write_pairs(path: Path, pairs: Iterable[Pair]) -> None:
    """Write pairs in pieces of ten thousand, in constant memory."""
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


class ArrowPairs(Sequence[Pair]):
    """Memory-mapped pairs of a file that :func:`write_pairs` wrote, and the lengths of sources."""

    def __init__(self, path: Path) -> None:
        table = pa.ipc.open_stream(pa.memory_map(str(path))).read_all()
        self.source_lengths = pa.compute.list_value_length(table["source"]).to_numpy()
        # Views of the file: to convert Arrow's lists takes ten times as long.
        self._pieces = [
            [(column.offsets.to_numpy(), column.values.to_numpy()) for column in piece.columns]
            for piece in table.to_batches()
        ]
        self._ends = list(accumulate(piece.num_rows for piece in table.to_batches()))

    def __len__(self) -> int:
        return len(self.source_lengths)

    def __getitem__(self, index: int) -> Pair:  # type: ignore[override]  # no slices
        if not 0 <= index < len(self):
            raise IndexError(f"pair {index} of {len(self)}")
        piece = bisect_right(self._ends, index)
        row = index - self._ends[piece]  # from the end, where one more offset stands
        return Pair(
            *(ids[offsets[row - 1] : offsets[row]].tolist() for offsets, ids in self._pieces[piece])
        )
