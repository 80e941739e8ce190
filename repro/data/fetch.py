"""Download corpora and check what is on disk against their checksums."""

from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from urllib.parse import quote, urlsplit
from urllib.request import urlopen

from repro.data.errors import DataError
from repro.data.files import checksum_like, write_if_changed
from repro.data.sources import CorpusSource, is_safe_path

TIMEOUT_SECONDS = 60.0

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class FetchReport:
    """How many files were downloaded and how many were right already."""

    downloaded: int
    present: int


@dataclass(frozen=True)
class Verification:
    """Files of a corpus that are missing or whose bytes differ, and how many are right."""

    missing: list[str]
    corrupt: list[str]
    correct: int

    @property
    def complete(self) -> bool:
        """Whether every file is there with the right bytes."""
        return not self.missing and not self.corrupt


def fetch(
    source: CorpusSource, data_dir: Path, progress: Progress, base_url: str | None = None
) -> FetchReport:
    """Download the files that are missing or wrong; an interrupted fetch goes on where it stopped.

    A file is placed only after its bytes were checked, and in one step.

    Args:
        source: the corpus.
        data_dir: folder below which the files are placed.
        progress: called after each file with the number done, the number of all, and the path.
        base_url: a mirror to take instead of the source's own address.

    Raises:
        DataError: a file cannot be downloaded, or its checksum is wrong; nothing of it stays.
    """
    base = checked_address(source.base_url if base_url is None else base_url)
    downloaded = 0
    for done, (path, checksum) in enumerate(source.files.items(), start=1):
        place = _place(source, data_dir, path)
        if _checksum(place, checksum) != checksum:
            url = f"{base}/{quote(source.address(path))}"
            write_if_changed(place, _download(url, path, checksum))
            downloaded += 1
        progress(done, len(source.files), path)
    return FetchReport(downloaded, len(source.files) - downloaded)


def verify(source: CorpusSource, data_dir: Path) -> Verification:
    """Compare every file of a corpus below ``data_dir`` with its checksum."""
    missing, corrupt = [], []
    for path, checksum in source.files.items():
        found = _checksum(_place(source, data_dir, path), checksum)
        if found is None:
            missing.append(path)
        elif found != checksum:
            corrupt.append(path)
    return Verification(missing, corrupt, len(source.files) - len(missing) - len(corrupt))


def checked_address(base_url: str) -> str:
    """An address of the web without a slash at its end.

    Raises:
        DataError: it is none.
    """
    if urlsplit(base_url).scheme not in ("http", "https"):
        raise DataError(f"expected an address that begins with https:// or http://, not {base_url}")
    return base_url.rstrip("/")


def _place(source: CorpusSource, data_dir: Path, path: str) -> Path:
    if not is_safe_path(path, source.root):
        raise DataError(f"{source.name}: {path!r} is not a plain path below {source.root}/")
    return Path(data_dir) / path


def _checksum(path: Path, known: str) -> str | None:
    return checksum_like(known, path.read_bytes()) if path.is_file() else None


def _download(url: str, path: str, checksum: str) -> bytes:
    try:
        with urlopen(url, timeout=TIMEOUT_SECONDS) as response:
            content: bytes = response.read()
    except (OSError, HTTPException) as error:
        raise DataError(
            f"{path}: cannot download {url} ({error}); run the same command again to go on"
        ) from error
    found = checksum_like(checksum, content)
    if found != checksum:
        raise DataError(f"{path}: wrong checksum from {url}: expected {checksum}, found {found}")
    return content
