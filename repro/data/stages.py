"""Preparation in cached stages: each makes a folder, named by all that its content depends on."""

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
    """A short name for an identity: values of JSON, in any order."""
    text = json.dumps(identity, sort_keys=True, ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def cached_stage(
    root: Path, name: str, identity: Mapping[str, object], build: Callable[[Path], None]
) -> Path:
    """The folder of a stage; built if it is not there yet.

    The folder appears whole or not at all. Two processes may build it at the same time: what the
    first one finishes is kept.

    Args:
        root: where stages are kept.
        name: what the stage does, the first part of the folder's name.
        identity: all that the content depends on, the stage before it included.
        build: fills an empty folder.
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
        _take_place(temporary, folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return folder


def _take_place(temporary: Path, folder: Path) -> None:
    try:
        os.rename(temporary, folder)
    except OSError:
        # A folder that is not empty cannot be replaced: somebody else was faster.
        if not folder.is_dir():
            raise
