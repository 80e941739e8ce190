"""Corpora that come as archives: download, checksum, and extraction of plain files only."""

import bz2
import gzip
import hashlib
import lzma
import os
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from http.client import HTTPException
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast
from urllib.request import urlopen

from repro.atomic import scratch_folder, temporary_beside
from repro.checksums import sha256_of_file
from repro.data.errors import DataError
from repro.data.fetch import TIMEOUT_SECONDS, FetchReport, Progress, Verification, checked_address
from repro.data.receipts import Receipt, read_receipt, receipt_of, write_receipt
from repro.data.sources import is_plain_path

MOST_BYTES = 8 << 30
"""Most bytes that one archive may unpack to; more is taken for an attack."""
MOST_FILES = 100_000
"""Most files that are extracted from one archive, likewise."""
_OPENERS: dict[bytes, Callable[[Path], Any]] = {
    b"\x1f\x8b": gzip.GzipFile,
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ\x00": lzma.LZMAFile,
}
"""Decompressors of tar files by the first bytes of the file."""
_UNREADABLE = (
    tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError,
    RuntimeError,  # an encrypted member, or a compression that is not supported
    ValueError,  # names that cannot be decoded
)  # fmt: skip
_BLOCK = 1 << 20


@dataclass(frozen=True)
class Archive:
    """A tar or zip file on the web.

    Attributes:
        url: its address.
        digest: ``sha256:…`` or ``md5:…`` in hexadecimal digits as its publisher states it; without
            one, what the first fetch found must be found again.
    """

    url: str
    digest: str | None = None


@dataclass(frozen=True)
class ArchivedCorpus:
    """A corpus of archives.

    Attributes:
        name: what ``repro data fetch`` takes.
        title: the corpus in words.
        licence: licence of the data, or that none is stated.
        citation: the publication to cite.
        folder: below the data folder, where the archives are unpacked.
        wanted: patterns of the names of files that are extracted.
        archives: all of them.
    """

    name: str
    title: str
    licence: str
    citation: str
    folder: str
    wanted: tuple[str, ...]
    archives: tuple[Archive, ...]

    @property
    def receipt(self) -> str:
        """Path of the receipt below the data folder."""
        return f"{self.name}.fetched.json"


def fetch_archives(corpus: ArchivedCorpus, data_dir: Path, progress: Progress) -> FetchReport:
    """Download and unpack the archives of a corpus, unless everything is there and right.

    Args:
        corpus: what to fetch.
        data_dir: folder below which the files are placed.
        progress: called after each archive with the number done, the number of all, its address.

    Raises:
        DataError: an archive cannot be downloaded, has another checksum, or holds something that
            is not a plain file below a plain path; files of archives before it stay.
    """
    kept = read_receipt(Path(data_dir) / corpus.receipt)
    if kept is not None and verify_receipt(kept, data_dir).complete:
        return FetchReport(0, len(kept.files))
    origins: dict[str, str] = {}
    paths: set[Path] = set()
    for done, archive in enumerate(corpus.archives, start=1):
        with _downloaded(archive) as (file, sha256):
            _check_again(archive, sha256, kept)
            paths |= set(extract(file, Path(data_dir) / corpus.folder, corpus.wanted))
        origins[archive.url] = sha256
        progress(done, len(corpus.archives), archive.url)
    write_receipt(Path(data_dir) / corpus.receipt, receipt_of(origins, Path(data_dir), paths))
    return FetchReport(len(paths), 0)


def verify_receipt(receipt: Receipt, data_dir: Path) -> Verification:
    """Compare every file of a receipt with its checksum."""
    missing, corrupt = [], []
    for name, checksum in receipt.files.items():
        path = Path(data_dir) / name
        if not path.is_file():
            missing.append(name)
        elif sha256_of_file(path) != checksum:
            corrupt.append(name)
    return Verification(missing, corrupt, len(receipt.files) - len(missing) - len(corrupt))


@contextmanager
def _downloaded(archive: Archive) -> Iterator[tuple[Path, str]]:
    """The archive as a temporary file, with its SHA-256."""
    with scratch_folder() as folder:
        file = folder / "archive"
        try:
            with (
                urlopen(checked_address(archive.url), timeout=TIMEOUT_SECONDS) as response,
                file.open("wb") as stream,
            ):
                shutil.copyfileobj(response, stream, _BLOCK)
        except (OSError, HTTPException) as error:
            raise DataError(f"cannot download {archive.url} ({error})") from error
        announced, received = response.headers.get("Content-Length"), file.stat().st_size
        if announced is not None and announced != str(received):
            raise DataError(
                f"cannot download {archive.url} (received {received} of {announced} bytes)"
            )
        if archive.digest is not None:
            _check_digest(file, archive)
        yield file, sha256_of_file(file)


def _check_digest(file: Path, archive: Archive) -> None:
    kind, expected = str(archive.digest).split(":")
    with file.open("rb") as stream:
        found = hashlib.file_digest(stream, kind).hexdigest()
    if found != expected:
        raise DataError(f"{archive.url}: wrong {kind}: expected {expected}, found {found}")


def _check_again(archive: Archive, sha256: str, kept: Receipt | None) -> None:
    before = None if kept is None else kept.origins.get(archive.url)
    if before not in (None, sha256):
        raise DataError(
            f"{archive.url} has another content than at the first fetch: SHA-256 was {before}, "
            f"now {sha256}"
        )


def extract(file: Path, folder: Path, wanted: tuple[str, ...]) -> list[Path]:
    """Unpack the files of an archive whose names match; nothing else of it is created.

    The archive is read to its end, where compressed streams keep their checksum, into a temporary
    folder; the files are moved only after that.

    Args:
        file: tar (also compressed) or zip.
        folder: where the paths of the archive begin.
        wanted: patterns of file names, without folders.

    Returns:
        The files that were written.

    Raises:
        DataError: neither tar nor zip, or damaged; a wanted member is a link or a device, or its
            path is not plain and relative, or leads through a symbolic link on disk; the archive
            holds more than :data:`MOST_BYTES` or :data:`MOST_FILES`; nothing is wanted. No file
            is written then.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    staging = temporary_beside(folder)
    try:
        names = _extracted(file, staging, wanted)
        if not names:
            raise DataError(f"{file.name}: no file in it is named {' or '.join(wanted)}")
        for name in names:
            _refuse_obstacles(folder, name)
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            os.replace(staging / name, folder / name)
    except DataError:
        raise
    except _UNREADABLE as error:
        raise DataError(f"{file.name}: cannot be unpacked ({error})") from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return [folder / name for name in names]


def _refuse_obstacles(folder: Path, name: str) -> None:
    """Refuse to write through a symbolic link, or where there is something else than a file."""
    parents = [folder, *(folder / parent for parent in PurePosixPath(name).parents)]
    for path in (*parents, folder / name):
        if path.is_symlink():
            raise DataError(f"{path} is a symbolic link; files are not unpacked through links")
    wrong = [path for path in parents if path.exists() and not path.is_dir()]
    if wrong or (folder / name).is_dir():
        raise DataError(f"{[*wrong, folder / name][0]} is in the way of unpacking {name}")


def _extracted(file: Path, folder: Path, wanted: tuple[str, ...]) -> list[str]:
    """Write the wanted members below ``folder``; return their names."""
    written: dict[str, None] = {}
    left = MOST_BYTES
    for name, stream in _members(file):
        if not any(fnmatchcase(PurePosixPath(name).name, pattern) for pattern in wanted):
            continue
        if stream is None or not is_plain_path(name):
            raise DataError(f"{file.name}: {name!r} is not a plain file below a plain path")
        left -= _copy(_Bounded(stream, left), folder / name)
        written[name] = None
        if len(written) > MOST_FILES:
            raise DataError(f"{file.name}: the archive holds more than {MOST_FILES} files")
    return list(written)


def _members(file: Path) -> Iterator[tuple[str, IO[bytes] | None]]:
    """Yield the names of all members but folders, with a stream where a member is a plain file."""
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as zipped:
            for entry in zipped.infolist():
                if not entry.is_dir():
                    yield entry.filename, zipped.open(entry)
        return
    with _decompressed(file) as raw:
        stream = _Bounded(raw, MOST_BYTES)
        with tarfile.open(fileobj=cast(IO[bytes], stream), mode="r|") as tar:
            for member in tar:
                if not member.isdir():
                    name = member.name.removeprefix("./")
                    yield name, tar.extractfile(member) if member.isreg() else None
        while stream.read(_BLOCK):  # gzip and xz compare their checksums at the end
            pass


def _decompressed(file: Path) -> IO[bytes]:
    """Open a file, through the decompressor that its first bytes ask for."""
    with file.open("rb") as stream:
        start = stream.read(max(map(len, _OPENERS)))
    for magic, opener in _OPENERS.items():
        if start.startswith(magic):
            return cast(IO[bytes], opener(file))
    return file.open("rb")


class _Bounded:
    """A stream that refuses to give more than ``most`` bytes, whatever the archive announces."""

    def __init__(self, stream: IO[bytes], most: int) -> None:
        self._stream, self._left = stream, most

    def read(self, size: int) -> bytes:
        """Read up to ``size`` bytes.

        Raises:
            DataError: the stream holds more than its bound.
        """
        block = self._stream.read(size)
        self._left -= len(block)
        if self._left < 0:
            raise DataError(f"the archive unpacks to more than {MOST_BYTES} bytes")
        return block


def _copy(stream: _Bounded, path: Path) -> int:
    """Write a member; return its size."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as sink:
        while block := stream.read(_BLOCK):
            sink.write(block)
        return sink.tell()
