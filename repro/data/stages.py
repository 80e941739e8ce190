"""Cached stages of preparation, each a folder named by a digest of all that determines it."""

import hashlib
import json
import logging
import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from repro.atomic import atomic_write_json, atomic_write_text, temporary_beside
from repro.checksums import MANIFEST, checksums_of, damaged_files, format_manifest

_log = logging.getLogger(__name__)
_DIGITS = 16
_IDENTITY = "identity.json"


def identity_digest(identity: Mapping[str, object]) -> str:
    """Return a short digest of an identity of JSON values, irrespective of the order of keys."""
    text = json.dumps(identity, sort_keys=True, ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def cached_stage(
    root: Path, name: str, identity: Mapping[str, object], build: Callable[[Path], None]
) -> Path:
    """Build the folder of a stage, unless it exists and matches its checksums.

    The folder is created atomically, with the checksums of its files. Two processes may build it
    at the same time: the first result is kept. A damaged folder is replaced with a warning.

    Args:
        root: folder of cached stages.
        name: name of the stage, the first part of the folder's name.
        identity: all that determines the content, preceding stages included.
        build: function that fills an empty folder.
    """
    folder = root / f"{name}-{identity_digest(identity)}"
    damaged = damaged_files(folder)
    if folder.is_dir() and not damaged:
        return folder
    if damaged:
        _log.warning("%s: damaged (%s); it is built anew", folder, ", ".join(damaged))
    root.mkdir(parents=True, exist_ok=True)
    temporary, aside = temporary_beside(folder), temporary_beside(folder)
    temporary.mkdir()
    try:
        build(temporary)
        atomic_write_json(temporary / _IDENTITY, dict(identity))
        atomic_write_text(temporary / MANIFEST, format_manifest(checksums_of(temporary)))
        if damaged:
            with suppress(FileNotFoundError):  # another process is replacing it as well
                os.rename(folder, aside)
        try:
            os.rename(temporary, folder)
        except OSError:
            # A nonempty folder cannot be replaced: another process was faster.
            if not folder.is_dir():
                raise
    finally:
        for leftover in (temporary, aside):
            shutil.rmtree(leftover, ignore_errors=True)
    return folder
