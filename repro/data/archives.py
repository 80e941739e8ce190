"""Corpora that come as archives: download, checksum, and extraction of plain files only."""

import hashlib
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from http.client import HTTPException
from pathlib import Path, PurePosixPath
from typing import IO
from urllib.request import urlopen

from repro.atomic import atomic_path, scratch_folder
from repro.checksums import sha256_of_file
from repro.data.errors import DataError
from repro.data.fetch import TIMEOUT_SECONDS, FetchReport, Progress, Verification, checked_address
from repro.data.receipts import Receipt, read_receipt, receipt_of, write_receipt
from repro.data.sources import is_plain_path

MOST_BYTES = 8 << 30
"""Most bytes that are extracted from one archive; more is taken for an attack."""
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
    """Unpack the files of an archive whose names fit; nothing else of it is created.

    Args:
        file: tar (also compressed) or zip.
        folder: where the paths of the archive begin.
        wanted: patterns of file names, without folders.

    Returns:
        The files that were written.

    Raises:
        DataError: neither tar nor zip; a wanted member is a link or a device, or its path is not
            plain and relative; more than :data:`MOST_BYTES` come out of it; nothing is wanted.
    """
    try:
        written = _extracted(file, folder, wanted)
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, OSError) as error:
        raise DataError(f"{file.name}: cannot be unpacked ({error})") from error
    if not written:
        raise DataError(f"{file.name}: no file in it is named {' or '.join(wanted)}")
    return written


def _extracted(file: Path, folder: Path, wanted: tuple[str, ...]) -> list[Path]:
    written: list[Path] = []
    left = MOST_BYTES
    for name, stream in _members(file):
        if not any(fnmatchcase(PurePosixPath(name).name, pattern) for pattern in wanted):
            continue
        if stream is None or not is_plain_path(name):
            raise DataError(f"{file.name}: {name!r} is not a plain file below a plain path")
        left -= _copy(stream, folder / name, left)
        written.append(folder / name)
    return written


def _members(file: Path) -> Iterator[tuple[str, IO[bytes] | None]]:
    """Names of all members but folders; a stream where a member is a plain file."""
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as zipped:
            for entry in zipped.infolist():
                if not entry.is_dir():
                    yield entry.filename, zipped.open(entry)
        return
    with tarfile.open(file, "r:*") as tar:
        for member in tar:
            if not member.isdir():
                name = member.name.removeprefix("./")
                yield name, tar.extractfile(member) if member.isreg() else None


def _copy(stream: IO[bytes], path: Path, most: int) -> int:
    """Write a member, as much as it really holds; returns its size."""
    size = 0
    with atomic_path(path) as temporary, temporary.open("wb") as sink:
        while block := stream.read(_BLOCK):
            size += len(block)
            if size > most:
                raise DataError(f"{path.name}: the archive unpacks to more than {MOST_BYTES} bytes")
            sink.write(block)
    return size
