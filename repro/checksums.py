"""Checksums beside files, to detect that a file changed on disk before it is used.

Two layouts, both in the format of ``sha256sum``, which can check them as well:

- ``<file>.sha256`` beside a file that may be replaced, see :mod:`repro.atomic`;
- ``SHA256SUMS`` in a folder whose files are final, with one line per file.

A file without either is accepted unverified: it was written by hand, or by an earlier version.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from repro.errors import UserError

MANIFEST = "SHA256SUMS"
_ENTRY = re.compile(r"([0-9a-f]{64})  (.+)")


class DamagedFileError(UserError, ValueError):
    """A file differs from its checksum, or is missing although it has one."""


def sha256_of_file(path: Path) -> str:
    """Compute the SHA-256 of a file in hexadecimal digits, reading it in chunks."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def sidecar(path: Path) -> Path:
    """Return the path of the checksum of a single file."""
    return path.with_name(f"{path.name}.sha256")


def pending_sidecar(path: Path) -> Path:
    """Return the path of the checksum of the next content, until that content is in place."""
    return path.with_name(f"{path.name}.sha256.new")


def checksum_line(digest: str, name: str) -> str:
    """Format one line of a file of checksums."""
    return f"{digest}  {name}\n"


def verify(path: Path) -> None:
    """Check a file against the checksum beside it; without a checksum, accept the file.

    Raises:
        DamagedFileError: the file differs, or is missing although it has a checksum.
    """
    # A writer may replace the file and then its checksum while this function reads: retry once.
    if not (_matches(path) or _matches(path)):
        raise DamagedFileError(
            f"{path} is damaged: it differs from its checksum in {sidecar(path).name} (delete that "
            "file if the change was made on purpose)"
        )


def _matches(path: Path) -> bool:
    if not sidecar(path).exists():
        return True
    if not path.is_file():
        return False
    found = checksum_line(sha256_of_file(path), path.name).encode()
    # A crash between the two renames of a write leaves the new file with the old checksum, and
    # the new checksum pending.
    kept = (side for side in (sidecar(path), pending_sidecar(path)) if side.exists())
    return any(side.read_bytes() == found for side in kept)


def remove(path: Path) -> None:
    """Delete a file and its checksum; neither needs to exist."""
    for each in (pending_sidecar(path), sidecar(path), path):
        each.unlink(missing_ok=True)


def checksums_of(folder: Path, wanted: Callable[[str], bool] = lambda name: True) -> dict[str, str]:
    """Compute the checksums of the files of a folder, sorted by their paths below it.

    Args:
        folder: the folder, which is searched recursively.
        wanted: returns whether a path is listed.
    """
    paths = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*")}
    return {
        name: sha256_of_file(path)
        for name, path in sorted(paths.items())
        if path.is_file() and wanted(name)
    }


def format_manifest(checksums: Mapping[str, str]) -> str:
    """Format checksums, by path, as the text of :data:`MANIFEST`."""
    return "".join(checksum_line(digest, name) for name, digest in checksums.items())


def read_manifest(folder: Path) -> dict[str, str]:
    """Read the checksums in the manifest of a folder, by path; empty without a manifest.

    Raises:
        DamagedFileError: the manifest is malformed.
    """
    path = folder / MANIFEST
    if not path.exists():
        return {}
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    found = [_ENTRY.fullmatch(line) for line in lines[:-1]]
    if lines[-1] or not all(found):
        raise DamagedFileError(f"{path} is damaged: expected lines of a checksum and a name")
    return {match[2]: match[1] for match in found if match is not None}


def damaged_files(folder: Path, names: Iterable[str] | None = None) -> list[str]:
    """List the paths below a folder whose files are missing or differ from its manifest.

    Args:
        folder: a folder; without a manifest, every file is accepted.
        names: paths to check; None for all.
    """
    try:
        checksums = read_manifest(folder)
    except DamagedFileError:
        return [MANIFEST]
    chosen = checksums if names is None else [name for name in names if name in checksums]
    return [
        name
        for name in chosen
        if not (folder / name).is_file() or sha256_of_file(folder / name) != checksums[name]
    ]
