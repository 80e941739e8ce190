"""Line-aligned text files: sentence ``n`` of one side belongs to sentence ``n`` of the other."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from repro.atomic import atomic_path
from repro.checksums import sha256_of_file
from repro.data.files import numbered_lines, require_files, sha256_of
from repro.errors import DataError

LONGEST = 20_000
"""Most characters of a line of user-supplied text: memory of a batch grows with its longest."""


class ParallelText(NamedTuple):
    """Source and target file of one split."""

    source: Path
    target: Path


@dataclass(frozen=True)
class ParallelCorpus:
    """A corpus of text pairs.

    Attributes:
        name: name of the corpus.
        source: language code or kind of text of the source.
        target: language code or kind of text of the target.
        splits: files of each split; names of test sets start with ``test``.
        tokenised: whether words and punctuation are separated by spaces.
        fingerprint: digest that identifies the content of all files.
        references: additional targets of each test set, in files aligned with it.
        unknown: words of the text that denote an unknown word.
        checksums: SHA-256 of the files, from which the fingerprint was computed.
    """

    name: str
    source: str
    target: str
    splits: Mapping[str, ParallelText]
    tokenised: bool
    fingerprint: str
    references: Mapping[str, tuple[Path, ...]] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()
    checksums: Mapping[Path, str] = field(default_factory=dict)

    @property
    def tests(self) -> tuple[str, ...]:
        """Names of the test sets."""
        return tuple(split for split in self.splits if split.startswith("test"))


def open_folder(
    folder: Path, source: str, target: str, *, tokenised: bool = False
) -> ParallelCorpus:
    """Find a user's own corpus: ``<split>.<source>`` and ``<split>.<target>``, one text per line.

    Splits are ``train``, ``dev``, ``test`` and all others whose names start with ``test_``. The
    extensions may be language codes.

    Raises:
        DataError: a file is missing, malformed or empty; names the file and the line.
    """
    if source == target:
        raise DataError(f"data.source and data.target are both {source}; expected two languages")
    end = f".{source}"  # may have several points
    further = sorted(path.name.removesuffix(end) for path in folder.glob(f"test_*{end}"))
    splits = {
        split: ParallelText(folder / f"{split}.{source}", folder / f"{split}.{target}")
        for split in ("train", "dev", "test", *further)
    }
    names = [path.name for text in splits.values() for path in text]
    require_files(folder, names, "; each has one text on each line")
    for text in splits.values():
        for number, pair in enumerate(read_pairs(text), start=1):
            for path, line in zip(text, pair, strict=True):
                if len(line) > LONGEST:
                    raise DataError(
                        f"{path}:{number}: {len(line):,} characters; expected at most {LONGEST:,}"
                    )
    digest, checksums = digests_of(splits)
    return ParallelCorpus(
        folder.name, source, target, splits, tokenised, digest, checksums=checksums
    )


def about(size: int) -> range:
    """Return the range of sizes within 1 % of ``size``."""
    return range(size - size // 100, size + size // 100 + 1)


def check_size(path: Path, expected: int | range, reducible: bool = True) -> None:
    """Check that the number of lines of a file is the published one or in the given range.

    Raises:
        DataError: the file has another number of lines; if it is ``reducible``, the message
            names the setting that accepts any number.
    """
    count = sum(1 for _ in stream_lines(path))
    numbers = range(expected, expected + 1) if isinstance(expected, int) else expected
    if count not in numbers:
        size = numbers.start if len(numbers) == 1 else f"{numbers.start} to {numbers.stop - 1}"
        remedy = "; to use a part of it, set data.check_size=false" if reducible else ""
        raise DataError(f"{path} has {count} lines, the corpus has {size}{remedy}")


def stream_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a text file; see :func:`~repro.data.files.decoded_lines`.

    Raises:
        DataError: the file is missing, or a line is not UTF-8.
    """
    if not path.is_file():
        raise DataError(f"{path} is missing")
    for _, text in numbered_lines(path):
        yield text


def read_pairs(text: ParallelText) -> Iterator[tuple[str, str]]:
    """Yield pairs of lines, stripped of surrounding whitespace.

    Raises:
        DataError: a file is missing, empty or not UTF-8, a line is blank, or one file is shorter.
    """
    sides = stream_lines(text.source), stream_lines(text.target)
    number = 0
    for number, (source, target) in enumerate(in_step(*sides, text), start=1):
        pair = source.strip(), target.strip()
        if not all(pair):
            path = text.source if not pair[0] else text.target
            raise DataError(f"{path}:{number}: a blank line; every line must be a sentence")
        yield pair
    if number == 0:
        raise DataError(f"{text.source} is empty: expected one sentence on each line")


def in_step(
    source: Iterator[str], target: Iterator[str], text: ParallelText
) -> Iterator[tuple[str, str]]:
    """Yield pairs of lines of both sides; ``text`` names their files in messages.

    Raises:
        DataError: one side has fewer lines.
    """
    for number, (first, second) in enumerate(zip_longest(source, target)):
        if first is None or second is None:
            short, long = (text.source, text.target) if first is None else text[::-1]
            raise DataError(f"{short} ends after {number} lines, but {long} continues")
        yield first, second


def write_lines(pairs: Iterable[tuple[str, str]], into: ParallelText) -> None:
    """Write both sides of all pairs, one pair at a time; an error leaves neither file."""
    with (
        atomic_path(into.source) as first,
        atomic_path(into.target) as second,
        first.open("w", encoding="utf-8", newline="\n") as source_stream,
        second.open("w", encoding="utf-8", newline="\n") as target_stream,
    ):
        for source, target in pairs:
            source_stream.write(source + "\n")
            target_stream.write(target + "\n")


def digests_of(splits: Mapping[str, ParallelText]) -> tuple[str, dict[Path, str]]:
    """Compute the SHA-256 of every file, and first that over the names of the splits and these.

    Raises:
        DataError: a file is missing.
    """
    paths = {path for text in splits.values() for path in text}
    for path in sorted(paths):
        if not path.is_file():
            raise DataError(f"{path} is missing")
    checksums = {path: sha256_of_file(path) for path in paths}
    lines = [
        f"{name} {side} {checksums[path]}\n"
        for name, text in sorted(splits.items())
        for side, path in zip(("source", "target"), text, strict=True)
    ]
    return sha256_of("".join(lines).encode()), checksums
