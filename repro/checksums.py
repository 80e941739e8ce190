"""SHA-256 of files, and the manifest by which damage of a finished folder is noticed later.

``SHA256SUMS`` lists the files of a folder, in the format of ``sha256sum``, which can check them as
well. :func:`damaged_files` accepts a file that it does not list unverified.
"""

import hashlib
import re
from collections.abc import Iterable
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


def format_manifest(folder: Path, unlisted: tuple[str, ...] = ()) -> str:
    """Format the manifest of a folder, without paths that begin with one of ``unlisted``."""
    paths = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*")}
    return "".join(
        f"{sha256_of_file(path)}  {name}\n"
        for name, path in sorted(paths.items())
        if path.is_file() and not name.startswith((MANIFEST, *unlisted))
    )


def damaged_files(folder: Path, names: Iterable[str] | None = None) -> list[str]:
    """List the paths below a folder whose files are missing or differ from its manifest.

    Without a manifest every file is accepted; of a malformed one, only the manifest is listed.

    Args:
        folder: the folder.
        names: paths to check; None for all.
    """
    manifest = folder / MANIFEST
    if not manifest.exists():
        return []
    lines = manifest.read_text(encoding="utf-8", errors="replace").split("\n")
    entries = [_ENTRY.fullmatch(line) for line in lines[:-1]]
    if lines[-1] or not all(entries):
        return [MANIFEST]
    checksums = {entry[2]: entry[1] for entry in entries if entry is not None}
    return [
        name
        for name in (checksums if names is None else checksums.keys() & {*names})
        if not (folder / name).is_file() or sha256_of_file(folder / name) != checksums[name]
    ]
