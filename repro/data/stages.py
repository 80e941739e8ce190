"""Cached stages of preparation, each a folder named by a digest of all that determines it."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from repro.atomic import atomic_write_json, temporary_beside

_DIGITS = 16
_IDENTITY = "identity.json"


def identity_digest(identity: Mapping[str, object]) -> str:
    """Return a short digest of an identity of JSON values, irrespective of the order of keys."""
    text = json.dumps(identity, sort_keys=True, ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def cached_stage(
    root: Path, name: str, identity: Mapping[str, object], build: Callable[[Path], None]
) -> Path:
    """Build the folder of a stage, unless it exists.

    The folder appears only once it is complete. Two processes may build it at the same time: the
    first result is kept.

    Args:
        root: folder of cached stages.
        name: name of the stage, the first part of the folder's name.
        identity: all that determines the content, preceding stages included.
        build: function that fills an empty folder.
    """
    folder = root / f"{name}-{identity_digest(identity)}"
    if folder.is_dir():
        return folder
    root.mkdir(parents=True, exist_ok=True)
    temporary = temporary_beside(folder)
    temporary.mkdir()
    try:
        build(temporary)
        atomic_write_json(temporary / _IDENTITY, dict(identity))
        try:
            os.rename(temporary, folder)
        except OSError:
            # A nonempty folder cannot be replaced: another process was faster.
            if not folder.is_dir():
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return folder
