"""Helpers shared by tasks: lazy batches, autocast, checks of the corpus, reading of inputs."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

from repro.config.paths import files_below
from repro.config.schema import RunConfig
from repro.data.files import each_line as each_line  # part of the interface for tasks
from repro.data.files import numbered_lines
from repro.errors import DataError
from repro.prediction import shorten

if TYPE_CHECKING:
    import torch

BatchT = TypeVar("BatchT")
ExampleT = TypeVar("ExampleT")

LONGEST_INPUT = 500
"""Maximum number of symbols or words of an input to predict; memory grows with its square."""


class LazyBatches(Sequence[BatchT]):
    """Sequence of batches that are padded and moved to the device only when they are indexed.

    Args:
        batches: positions of the examples of each batch.
        collate: builds a batch from the positions of its examples.
        summed: whether the loss of a batch is the sum of the losses of its examples, not the mean.
    """

    def __init__(
        self, batches: list[list[int]], collate: Callable[[list[int]], BatchT], summed: bool = False
    ) -> None:
        self.summed = summed
        self._batches, self.collate = batches, collate

    def __len__(self) -> int:
        return len(self._batches)

    def __getitem__(self, index: int) -> BatchT:  # type: ignore[override]  # no slices
        return self.collate(self._batches[index])

    def positions(self, index: int) -> list[int]:
        """Return the positions of the examples of a batch."""
        return self._batches[index]


def autocast(config: RunConfig, device: "torch.device") -> AbstractContextManager[None]:
    """Return a context that computes in bfloat16 if ``config.precision`` is ``bf16``."""
    import torch

    if config.precision != "bf16":
        return nullcontext()
    return torch.autocast(device.type, dtype=torch.bfloat16)


class Stopwatch:
    """Total time of a part of the updates: ``with stopwatch: ...``.

    CUDA devices measure it themselves, between events, for which the host does not wait.
    """

    def __init__(self, device: "torch.device") -> None:
        self._on_cuda = device.type == "cuda"
        self._seconds, self._started = 0.0, 0.0
        self._events: list[list[torch.cuda.Event]] = []

    def __enter__(self) -> None:
        if self._on_cuda:
            self._events.append([_recorded()])
        self._started = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        if not self._on_cuda:
            self._seconds += time.perf_counter() - self._started
            return
        self._events[-1].append(_recorded())
        if len(self._events) > _MOST_EVENTS and self._events[0][1].query():
            self._add(self._events.pop(0))

    def _add(self, events: "list[torch.cuda.Event]") -> None:
        started, ended = events
        ended.synchronize()
        self._seconds += started.elapsed_time(ended) / 1000

    def seconds(self) -> float:
        """Return the total, when the device has done what was asked of it before."""
        while self._events:
            self._add(self._events.pop())
        return self._seconds


_MOST_EVENTS = 100
"""Pairs of events that wait to be read: more than an accelerator lags behind."""


def _recorded() -> "torch.cuda.Event":
    """Return an event at the end of what the device was asked for so far."""
    import torch

    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


class FolderState(NamedTuple):
    """Folder of a corpus and names, sizes and times of its files: a key of what was read there."""

    path: Path
    files: tuple[tuple[Path, int, int], ...]

    @classmethod
    def of(cls, folder: Path) -> Self:
        """Look at the files below a folder, whose links are resolved."""
        folder = folder.resolve()
        files = ((path, path.stat()) for path in files_below(folder) if path.is_file())
        return cls(folder, tuple((path, one.st_size, one.st_mtime_ns) for path, one in files))


_generated: dict[tuple[Any, ...], list[Path]] = {}
"""Files of the corpora that this process has generated."""


def corpus_folder(
    config: RunConfig,
    published: str,
    demo: str,
    write: Callable[..., object],
    *settings: Any,
    inside: str = "",
) -> Path:
    """Return the folder of the corpus of a run: ``data.folder``, a generated or a published one.

    ``write(folder, *settings)`` generates a corpus, a pure function of ``settings``, unless this
    process has done so and all its files are there. Its folder, ``inside`` that of the seed, holds
    no other: runs of one folder of results may read different corpora at the same time.

    Raises:
        DataError: ``data.folder`` is not a folder, or ``data.corpus`` is neither that nor the
            name of the corpus that the task reads: ``published``, or ``demo`` if generated.
    """
    data = config.data
    if data.folder is not None:
        folder = (config.data_path / data.folder).resolve()
        if not folder.is_dir():
            raise DataError(f"data.folder={data.folder}: {folder} is not a folder")
        return folder
    expected = demo if data.generated else published
    if data.corpus != expected:
        raise DataError(
            f"data.corpus={data.corpus}: task={config.task.name} reads {expected}; for files of "
            "your own set data.folder"
        )
    if not data.generated:
        return config.corpus_path
    folder = config.corpus_path.resolve() / inside
    written = _generated.get((write, folder, *settings), [])
    if not written or not all(path.is_file() for path in written):
        write(folder, *settings)
        found = [path for path in folder.rglob("*") if path.is_file()]
        _generated[write, folder, *settings] = found
    return folder


def check_length(symbols: Sequence[object]) -> None:
    """Raise ValueError if an input to predict has more than :data:`LONGEST_INPUT` symbols."""
    if len(symbols) > LONGEST_INPUT:
        raise ValueError(
            f"{len(symbols):,} symbols; an input has at most {LONGEST_INPUT}: split it"
        )


def own_examples(
    read: Callable[[Iterable[tuple[int, str]], Path], Iterator[ExampleT]], path: Path
) -> list[tuple[ExampleT, str]]:
    """Read inputs and their gold outputs, the lines of ``<stem>.gold.txt``.

    ``read`` reads the inputs, as ``Predictor.read``.

    Raises:
        DataError: an input is malformed, or the number of outputs differs.
    """
    gold = path.with_name(f"{path.stem}.gold.txt")
    outputs = [line for _, line in numbered_lines(gold)]
    inputs = [*read(numbered_lines(path), path)]
    if len(inputs) != len(outputs):
        raise DataError(f"{gold}: expected {len(inputs)} lines, one for each input of {path.name}")
    return [*zip(inputs, outputs, strict=True)]


def heaviest(
    weights: Iterable[float], vertices: Iterable[list[int]]
) -> list[tuple[float, list[int]]]:
    """Return the structures of an instance with nonzero weight, largest weight first.

    Each comes with its weight, rounded to seven digits.
    """
    pairs = [pair for pair in zip(weights, vertices, strict=True) if pair[0] > 0]
    pairs.sort(key=lambda pair: (-pair[0], pair[1]))
    return [(shorten(weight), vertex) for weight, vertex in pairs]
