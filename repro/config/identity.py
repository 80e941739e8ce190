"""The identity of a run: a hash of everything that may change its numbers."""

import json
from dataclasses import asdict
from hashlib import sha256

from repro import NUMERIC_EPOCH
from repro.config.schema import RunConfig

NUISANCE = frozenset({"hardware", "logger", "data_dir", "results_dir", "fail_fast"})
"""Top-level keys that say where a run is computed and stored, not what it computes."""

_LENGTH = 12


def run_id(run: RunConfig, fingerprint: str) -> str:
    """Name a run by its resolved configuration, its corpus and the package's numeric epoch.

    Args:
        run: the resolved configuration.
        fingerprint: of the corpus that it reads.

    Returns:
        Twelve hexadecimal digits.
    """
    content = {key: value for key, value in asdict(run).items() if key not in NUISANCE}
    content["training"].pop("checkpoint_minutes")
    return _digest({"config": content, "corpus": fingerprint, "epoch": NUMERIC_EPOCH})


def ensemble_id(members: list[str]) -> str:
    """Name an ensemble by its members, whatever their order."""
    return _digest({"ensemble": sorted(members), "epoch": NUMERIC_EPOCH})


def _digest(content: dict[str, object]) -> str:
    text = json.dumps(content, sort_keys=True, ensure_ascii=True)
    return sha256(text.encode()).hexdigest()[:_LENGTH]
