"""Cached stages of preparation, each a folder named by a digest of all that determines it."""

import fcntl
import hashlib
import json
import logging
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType

from repro.atomic import atomic_write_json, atomic_write_text, temporary_beside
from repro.checksums import MANIFEST, format_manifest, sha256_of_file
from repro.errors import DataError

_log = logging.getLogger(__name__)
_DIGITS = 16
_IDENTITY = "identity.json"


def identity_digest(identity: Mapping[str, object]) -> str:
    """Return a short digest of an identity of JSON values, irrespective of the order of keys."""
    text = json.dumps(identity, sort_keys=True, ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def cached_stage(
    root: Path,
    name: str,
    identity: Mapping[str, object],
    build: Callable[[Path], None],
    sources: Mapping[Path, str] = MappingProxyType({}),
) -> Path:
    """Build the folder of a stage, unless it exists and matches its checksums.

    The folder appears only once it is complete. Two processes may build it at the same time: the
    first result is kept. A damaged stage is named in a warning and replaced.

    Args:
        root: folder of cached stages.
        name: name of the stage, the first part of the folder's name.
        identity: all that determines the content, preceding stages included.
        build: function that fills an empty folder.
        sources: files that ``build`` reads, with the SHA-256 by which the identity names them.

    Raises:
        DataError: one of ``sources`` has another content when the stage has been built.
    """
    folder = root / f"{name}-{identity_digest(identity)}"
    if folder.is_dir():
        if _is_whole(folder):
            return folder
        _log.warning("%s differs from its %s; it is built anew", folder, MANIFEST)
    root.mkdir(parents=True, exist_ok=True)
    temporary, aside = temporary_beside(folder), temporary_beside(folder)
    temporary.mkdir()
    try:
        build(temporary)
        for path, checksum in sources.items():
            if sha256_of_file(path) != checksum:
                raise DataError(f"{path} changed while it was read; start again")
        atomic_write_json(temporary / _IDENTITY, dict(identity))
        atomic_write_text(temporary / MANIFEST, format_manifest(temporary))
        with _locked(root):
            if folder.is_dir() and not _is_whole(folder):
                os.rename(folder, aside)
            try:
                os.rename(temporary, folder)
            except OSError:
                # A nonempty folder cannot be replaced: another process was faster.
                if not folder.is_dir():
                    raise
    finally:
        for left in (temporary, aside):
            shutil.rmtree(left, ignore_errors=True)
    return folder


def _is_whole(folder: Path) -> bool:
    """Return whether the files of a stage are exactly those of its manifest."""
    try:
        return (folder / MANIFEST).read_bytes() == format_manifest(folder).encode()
    except OSError:  # no manifest, a file that cannot be read, or another process replaces them
        return False


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock a folder against other processes, where the file system has locks."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
