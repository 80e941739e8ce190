"""Corpora that can be fetched: their address, licence and the checksum of every file."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import PurePosixPath

from repro.data.errors import DataError

_MANIFEST_LINE = re.compile(r"([0-9a-f]{64}) [ *](\S.*)")
_SAFE_PART = re.compile(r"[A-Za-z0-9_+-][A-Za-z0-9._+-]*")
SIGMORPHON_COMMIT = "490e2e0693241f708670d9d1c56803b754fab7cd"


@dataclass(frozen=True)
class CorpusSource:
    """A corpus on the web, pinned to one version.

    Attributes:
        name: what ``repro data fetch`` takes.
        title: the corpus in words.
        base_url: address of the folder that ``root`` mirrors.
        root: first folder of every path; paths below it are those below ``base_url``.
        licence: licence of the data, or that none is stated.
        citation: the publication to cite.
        size: bytes of all files together.
        files: path below the data folder to SHA-256 in hexadecimal digits.
    """

    name: str
    title: str
    base_url: str
    root: str
    licence: str
    citation: str
    size: int
    files: Mapping[str, str]


@cache
def corpus_sources() -> Mapping[str, CorpusSource]:
    """Every corpus that can be fetched, by name."""
    sigmorphon = CorpusSource(
        name="sigmorphon2018",
        title="CoNLL–SIGMORPHON 2018 task 1, morphological inflection, 103 languages",
        base_url=f"https://raw.githubusercontent.com/sigmorphon/conll2018/{SIGMORPHON_COMMIT}",
        root="conll2018",
        licence="none stated; derived from Wiktionary, so fetched and never redistributed here",
        citation="Cotterell et al. (2018), The CoNLL–SIGMORPHON 2018 Shared Task",
        size=38_755_281,
        files=_packaged_manifest("sigmorphon2018", "conll2018"),
    )
    return {source.name: source for source in (sigmorphon,)}


def read_manifest(text: str, root: str, origin: str) -> dict[str, str]:
    """Read checksums in the format of ``sha256sum``.

    Args:
        text: lines of 64 hexadecimal digits, two spaces and a path.
        root: the folder that every path begins with.
        origin: name of the manifest for messages.

    Returns:
        Path to checksum; every path is relative and stays below ``root``.

    Raises:
        DataError: a malformed line, an unsafe path, or a path that stands twice.
    """
    files: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        match = _MANIFEST_LINE.fullmatch(line)
        if match is None:
            raise DataError(f"{origin}:{number}: expected a SHA-256, two spaces and a path")
        checksum, path = match.groups()
        if not is_safe_path(path, root):
            raise DataError(f"{origin}:{number}: {path!r} is not a plain path below {root}/")
        if path in files:
            raise DataError(f"{origin}:{number}: {path} stands twice")
        files[path] = checksum
    return files


def is_plain_path(path: str) -> bool:
    """Whether ``path`` is relative and made of plain names, never ``..``."""
    return all(_SAFE_PART.fullmatch(part) for part in path.split("/"))


def is_safe_path(path: str, root: str) -> bool:
    """Whether a plain path is below ``root``."""
    return is_plain_path(path) and "/" in path and PurePosixPath(path).is_relative_to(root)


def _packaged_manifest(name: str, root: str) -> dict[str, str]:
    resource = resources.files("repro.data") / "checksums" / f"{name}.sha256"
    return read_manifest(resource.read_text(encoding="utf-8"), root, resource.name)
