"""Preparation in cached stages: each makes a folder, named by all that its content depends on."""

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
    """A short name for an identity: values of JSON, in any order."""
    text = json.dumps(identity, sort_keys=True, ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def cached_stage(
    root: Path, name: str, identity: Mapping[str, object], build: Callable[[Path], None]
) -> Path:
    """Build the folder of a stage, unless it is there with every file as it was written.

    The folder appears whole or not at all, with the checksums of its files. Two processes may build
    it at the same time: what the first one finishes is kept. A damaged folder is named in a warning
    and replaced.

    Args:
        root: where stages are kept.
        name: what the stage does, the first part of the folder's name.
        identity: all that the content depends on, the stage before it included.
        build: fills an empty folder.
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
            # A folder that is not empty cannot be replaced: another process was faster.
            if not folder.is_dir():
                raise
    finally:
        for leftover in (temporary, aside):
            shutil.rmtree(leftover, ignore_errors=True)
    return folder
