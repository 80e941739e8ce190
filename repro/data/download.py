"""Download corpora, unpack archives, and check what is on disk."""

import hashlib
import json
import logging
import lzma
import os
import re
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

from repro.atomic import atomic_path, atomic_write_json, temporary_beside
from repro.checksums import sha256_of_file
from repro.data.corpora import Corpus, Download, HubCorpus
from repro.data.parallel import check_size
from repro.errors import DataError

TIMEOUT_SECONDS = 60.0
MOST_BYTES = 8 << 30
"""Largest total size of the files unpacked from one archive."""
_PIECE = 1 << 20
_SAFE_PART = re.compile(r"[A-Za-z0-9_+-][A-Za-z0-9._+-]*")
_UNREADABLE = (
    tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError,
    RuntimeError,  # an encrypted member, or an unsupported compression
    ValueError,  # names that cannot be decoded
)  # fmt: skip

Progress = Callable[[int, int, str], None]
"""Called after each download with the number of downloads done, their total, and its name."""


@dataclass(frozen=True)
class Verification:
    """Number of correct files of a corpus, and the missing and corrupt ones."""

    right: int
    missing: list[str]
    corrupt: list[str]

    @property
    def complete(self) -> bool:
        """Whether there are files, none of them missing or corrupt."""
        return bool(self.right) and not self.missing and not self.corrupt


def fetch(corpus: Corpus, data_dir: Path, progress: Progress) -> tuple[int, int]:
    """Download the files of a corpus that are missing or corrupt.

    A file is moved into place atomically after its checksum is verified, so that an interrupted
    fetch can be resumed; archives are then downloaded again.

    Returns:
        Number of files written, and number of files that were already correct.

    Raises:
        DataError: a file cannot be downloaded, has another checksum, or is an archive that
            :func:`unpack` refuses.
    """
    receipt_file = receipt_path(corpus, data_dir)
    receipt = read_receipt(receipt_file)
    if receipt.files and verify(corpus, data_dir).complete:
        return 0, len(receipt.files)
    placed = present = 0
    origins: dict[str, str] = {}
    unpacked: list[Path] = []
    for done, download in enumerate(corpus.downloads, start=1):
        destination = None if download.path is None else data_dir / download.path
        if destination is not None and _is_right(destination, download.checksum):
            present += 1
        else:
            with TemporaryDirectory() as folder:
                file = _downloaded(download, Path(folder))
                if destination is None:
                    origins[download.url] = sha256_of_file(file)
                    if receipt.origins.get(download.url) not in (None, origins[download.url]):
                        raise DataError(
                            f"{download.url} has changed since the first fetch; delete "
                            f"{receipt_file} to accept the new version"
                        )
                    unpacked += unpack(file, data_dir, corpus.members, corpus.archive_folder)
                else:
                    with atomic_path(destination) as temporary:
                        shutil.move(file, temporary)
                    placed += 1
        progress(done, len(corpus.downloads), download.path or download.url)
    if unpacked:
        write_receipt(receipt_file, data_dir, origins, unpacked)
    return placed + len(set(unpacked)), present


def fetch_from_hub(
    corpus: Corpus, data_dir: Path, progress: Progress, folder: Path | None = None
) -> tuple[int, int]:
    """Write the Hub's copy of a corpus as the files that the corpus's reader expects.

    ``progress`` is called after each split. ``folder`` is a local copy of the repository; ``None``
    reads it from the Hub.

    Returns:
        Number of files written, and 0.

    Raises:
        DataError: files are missing or malformed, or a split has another size.
    """
    from datasets import load_dataset  # slow to import
    from huggingface_hub import HfApi

    hub = corpus.hub
    assert isinstance(corpus, HubCorpus)
    assert hub is not None
    commit, base = hub.revision, str(folder)
    if folder is None:
        try:
            commit = str(HfApi().dataset_info(hub.repository, revision=hub.revision).sha)
        except Exception as error:  # its HTTP library, hence the class, depends on the version
            raise DataError(f"cannot reach the Hub for {hub.repository}: {error}") from error
        base = f"hf://datasets/{hub.repository}@{commit}"

    def rows(files: str) -> Iterator[Mapping[str, object]]:
        try:
            yield from load_dataset(
                "parquet", data_files={"rows": files}, split="rows", streaming=True
            )
        except Exception as error:  # while rows are read, too
            raise DataError(f"cannot read {files}: {error}") from error

    paths: list[Path] = []
    for done, (split, pattern) in enumerate(hub.files.items(), start=1):
        written = corpus.write_hub_split(split, rows(f"{base}/{pattern}"), data_dir)
        if split in hub.sizes:
            check_size(written[0], hub.sizes[split], reducible=False)
        paths += written
        progress(done, len(hub.files), f"{hub.repository} {split}")
    origins = {f"https://huggingface.co/datasets/{hub.repository}": commit}
    write_receipt(receipt_path(corpus, data_dir, hub=True), data_dir, origins, paths)
    return len(paths), 0


def verify(corpus: Corpus, data_dir: Path, hub: bool = False) -> Verification:
    """Compare every file of a corpus below ``data_dir`` with its checksum.

    Files from archives, or of the Hub's copy if ``hub``, have theirs in the receipt of the fetch.
    A corpus that cannot be downloaded, or that was put there by hand instead of an archive, has no
    checksums: all files that are there count as correct. Without a receipt of archives that of the
    Hub's copy is taken, if there is one.

    Raises:
        DataError: the receipt is malformed.
    """
    lacking = [path for path in corpus.expected if not any(data_dir.glob(path))]
    if not (corpus.downloads or hub):
        return Verification(len(corpus.expected) - len(lacking), lacking, [])
    plain = () if hub else corpus.downloads
    known = {one.path: one.checksum for one in plain if one.path is not None}
    path = receipt_path(corpus, data_dir, hub)
    fetched = read_receipt(path).files
    if not known and not fetched:
        if not hub and receipt_path(corpus, data_dir, hub=True).exists():
            return verify(corpus, data_dir, hub=True)
        if corpus.expected and not lacking and not hub:
            return Verification(len(corpus.expected), [], [])
        return Verification(0, [path.name], [])
    known |= {name: f"sha256:{digest}" for name, digest in fetched.items()}
    wrong = [name for name, digest in known.items() if not _is_right(data_dir / name, digest)]
    missing = [name for name in wrong if not (data_dir / name).is_file()]
    corrupt = [name for name in wrong if name not in missing]
    return Verification(len(known) - len(wrong), missing, corrupt)


@dataclass(frozen=True)
class Receipt:
    """Record of a fetch, kept beside the files as ``<corpus>.fetched.json``.

    Attributes:
        origins: SHA-256 or commit of the content of each address.
        files: SHA-256 of each path, relative to the data folder.
    """

    origins: dict[str, str]
    files: dict[str, str]


def receipt_path(corpus: Corpus, data_dir: Path, hub: bool = False) -> Path:
    """Return the path of the receipt of a corpus, or of the Hub's copy of it."""
    return data_dir / f"{corpus.name}{'@hub' if hub else ''}.fetched.json"


def write_receipt(
    path: Path, data_dir: Path, origins: dict[str, str], paths: Iterable[Path]
) -> None:
    """Write a receipt with the checksums of fetched files."""
    files = {p.relative_to(data_dir).as_posix(): sha256_of_file(p) for p in sorted(set(paths))}
    atomic_write_json(path, {"origins": origins, "files": files})


def read_receipt(path: Path) -> Receipt:
    """Read a receipt that :func:`write_receipt` wrote; return an empty one if there is none.

    Raises:
        DataError: the file is not a receipt, or names a path that may leave the data folder.
    """
    if not path.is_file():
        return Receipt({}, {})
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        receipt = Receipt(dict(content["origins"]), dict(content["files"]))
        if not all(isinstance(text, str) for part in content.values() for text in part.values()):
            raise TypeError("expected texts by name")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        wanted = "expected the origins and files of a fetch; delete it and fetch again"
        raise DataError(f"{path}: {wanted} ({error})") from None
    unsafe = [name for name in receipt.files if not is_plain_path(name)]
    if unsafe:
        raise DataError(f"{path}: {unsafe[0]!r} is not a plain relative path")
    return receipt


def is_plain_path(path: str) -> bool:
    """Return whether ``path`` is relative and consists of plain names, without ``..``."""
    return all(_SAFE_PART.fullmatch(part) for part in path.split("/"))


def git_blob_id(content: bytes) -> str:
    """Compute the blob id of git for this content: 40 hexadecimal digits of SHA-1."""
    header = f"blob {len(content)}\0".encode()
    return hashlib.sha1(header + content, usedforsecurity=False).hexdigest()


def _digest(path: Path, kind: str) -> str:
    if kind == "git":
        return git_blob_id(path.read_bytes())
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, kind).hexdigest()


def _is_right(path: Path, checksum: str | None) -> bool:
    if checksum is None or not path.is_file():
        return path.is_file()
    kind, _, expected = checksum.partition(":")
    return _digest(path, kind) == expected


def _downloaded(download: Download, folder: Path) -> Path:
    """Download a file into ``folder`` and verify its checksum."""
    import pooch  # imports requests, which only downloads need

    try:
        address = urlsplit(download.url)
    except ValueError:  # brackets without an IPv6 address
        address = urlsplit("")
    if address.scheme not in ("http", "https") or not address.hostname:
        raise DataError(
            f"expected an address that begins with https:// or http://, not {download.url}"
        )
    pooch.get_logger().setLevel(logging.ERROR)
    downloader = pooch.HTTPDownloader(timeout=TIMEOUT_SECONDS)
    last = PurePosixPath(address.path).name  # by which messages about an archive name it
    fname = last if _SAFE_PART.fullmatch(last) else "download"
    try:
        name = pooch.retrieve(
            download.url, known_hash=None, fname=fname, path=folder, downloader=downloader
        )
    except (OSError, ValueError) as error:
        raise DataError(
            f"cannot download {download.url} ({error}); run the same command again to resume"
        ) from error
    if download.checksum is not None:
        kind, _, expected = download.checksum.partition(":")
        found = _digest(Path(name), kind)
        if found != expected:
            raise DataError(f"{download.url}: wrong {kind}: expected {expected}, found {found}")
    return Path(name)


def unpack(file: Path, data_dir: Path, members: tuple[str, ...], inside: str = ".") -> list[Path]:
    """Unpack only the files of an archive whose names match; return those written.

    They are unpacked into a temporary folder and moved once the archive is read to its end, where
    compressed streams have their checksum.

    Args:
        file: zip archive, or tar archive with or without compression.
        data_dir: data folder.
        members: patterns of file names, without folders.
        inside: folder below ``data_dir`` to which the paths in the archive are relative.

    Raises:
        DataError: the archive is neither tar nor zip, or is damaged; a matching member is a link
            or a device, or its path is not plain and relative; no member matches, or all that do
            have more than :data:`MOST_BYTES`. In all of these cases no file is written.
    """

    def wanted(name: str, regular: bool = True) -> bool:
        found = any(fnmatchcase(PurePosixPath(name).name, pattern) for pattern in members)
        if found and not (regular and is_plain_path(name.removeprefix("./"))):
            raise DataError(f"{file.name}: {name!r} is not a plain file below a plain path")
        return found

    def require_room(sizes: Iterable[int]) -> None:
        # Neither format writes more of a member than the size in its header.
        if (size := sum(sizes)) > MOST_BYTES:
            raise DataError(
                f"{file.name}: unpacks to {size:,} bytes; expected at most {MOST_BYTES:,}"
            )

    # Not beside the data folder, which may be a mount or a link to another file system.
    data_dir.mkdir(parents=True, exist_ok=True)
    staging, folder = temporary_beside(data_dir / file.name), data_dir / inside
    try:
        if zipfile.is_zipfile(file):
            with zipfile.ZipFile(file) as zipped:
                entries = [one for one in zipped.infolist() if wanted(one.filename)]
                require_room(one.file_size for one in entries)
                zipped.extractall(staging, entries)
        else:
            with tarfile.open(file) as tar:
                chosen = [one for one in tar if not one.isdir() and wanted(one.name, one.isreg())]
                require_room(one.size for one in chosen)
                _read_to_the_end(tar)
                tar.extractall(staging, chosen, filter="data")
        names = [path.relative_to(staging) for path in staging.rglob("*") if path.is_file()]
        if not names:
            raise DataError(f"{file.name}: no file in it is named {' or '.join(members)}")
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


def _read_to_the_end(tar: tarfile.TarFile) -> None:
    """Read what follows the last member: only zeros, unless a damaged header ended the members."""
    assert tar.fileobj is not None
    tar.fileobj.seek(tar.offset)
    while piece := tar.fileobj.read(_PIECE):
        if piece.strip(b"\0"):
            raise ValueError(f"no header at byte {tar.offset:,}")
