"""Records of finished runs: configuration, metrics and provenance."""

import hashlib
import json
import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cache, cached_property
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from repro.checksums import DamagedFileError
from repro.config.identity import flattened
from repro.errors import ResultsError

T = TypeVar("T")
KINDS = ("run", "ensemble")
_WORDS = {
    str: "a text",
    int: "an integer",
    float: "a finite number",
    bool: "true or false",
    dict: "an object",
    list: "a list",
}
_DIVERGED = 1000.0
"""Larger losses count as divergence: they are means over symbols, pairs or trees, and of models
that learn hundreds at most."""
_TOO_LARGE = 1e308
"""Integers of JSON above it become no float."""


@dataclass(frozen=True)
class Record:
    """Record of a run or an ensemble, with everything needed to verify or repeat it.

    Attributes:
        run_id: name of the run, or of the ensemble.
        kind: ``"run"``, or ``"ensemble"`` for several runs that predict together.
        scale: name of the scale.
        seed: seed of the run; None for an ensemble.
        config: every setting that may change the numbers, nested as in ``config.yaml``.
        metrics: ``<split>/<metric>`` or ``<split>/<metric>/<language>`` to a finite value.
        signatures: signature of each metric, by the same names: how it was computed.
        corpus: name of the corpus.
        fingerprint: SHA-256 of the corpus files, in hexadecimal digits.
        epoch: numeric epoch of the package that ran.
        commit: revision of the source that ran.
        device: device that it ran on.
        versions: Python and libraries, for example ``"python 3.11.7; torch 2.13.0"``.
        wall_time: duration of the run in seconds.
        finished: time of its end, UTC, ISO 8601; blank if unknown.
        command: shell command that repeats the run.
        members: names of the runs of an ensemble; empty for a run.
        outdated: settings, with dotted keys, whose default or protocol has changed since the run.
            They are not compared when a cell looks for its runs, and its value is marked.

    Raises:
        ResultsError: a field has the wrong type or is out of range.
    """

    run_id: str
    kind: str
    scale: str
    seed: int | None
    config: dict[str, Any]
    metrics: dict[str, float]
    signatures: dict[str, str]
    corpus: str
    fingerprint: str
    epoch: int
    commit: str
    device: str
    versions: str
    wall_time: float
    finished: str
    command: str
    members: list[str]
    outdated: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        check_types(Record, vars(self))
        for name in ("run_id", "scale"):
            _require(name, bool(getattr(self, name)), "must not be empty")
        _require("kind", self.kind in KINDS, f"is {self.kind!r}; expected one of {KINDS}")
        for metric in self.metrics:
            _require("signatures", metric in self.signatures, f"lacks {metric}")
        _require("wall_time", self.wall_time >= 0, f"is {self.wall_time}; expected at least 0")

    @cached_property
    def settings(self) -> dict[str, Any]:
        """Configuration with dotted keys."""
        return flattened(self.config)

    @cached_property
    def overrides(self) -> list[str]:
        """Overrides of ``repro run`` that composed the configuration; none for an ensemble."""
        words = shlex.split(self.command)
        return words[2:] if words[:2] == ["repro", "run"] else []

    @property
    def diverged(self) -> bool:
        """Return whether a validation loss is far above that of any model that learns."""
        return any(
            value > _DIVERGED
            for name, value in self.metrics.items()
            if name.startswith("dev/") and name.endswith("loss")
        )

    def to_json(self) -> str:
        """Format the record as JSON with a checksum in it; equal records give identical text."""
        content = asdict(self)
        return json.dumps({**content, "sha256": _digest(content)}, indent=1, ensure_ascii=False)


def read_record(path: Path) -> Record:
    """Read a record from a file with the output of :meth:`Record.to_json`.

    Raises:
        DamagedFileError: the file differs from the checksum in it.
        ResultsError: the file is missing or not JSON, or a field is missing, unknown, of the wrong
            type or out of range.
    """
    try:
        content = json.loads(path.read_bytes())
        digest = content.pop("sha256")
    except FileNotFoundError:
        raise ResultsError(f"{path}: no such file") from None
    except (ValueError, RecursionError, AttributeError, KeyError, TypeError) as error:
        raise ResultsError(f"{path}: not the JSON of a record ({error!r})") from error
    # Earlier versions wrote no outdated settings.
    record = from_dict(Record, {"outdated": [], **content}, str(path))
    if digest != _digest(content):
        raise DamagedFileError(f"{path} is damaged: it differs from the checksum in it")
    return record


def from_dict(kind: type[T], content: Mapping[str, Any], place: str) -> T:
    """Create a dataclass from a mapping with exactly its fields.

    Raises:
        ResultsError: a field is missing, unknown or invalid; the message names ``place``.
    """
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    missing = [name for name in names if name not in content]
    unknown = sorted(set(content) - set(names))
    if missing or unknown:
        raise ResultsError(f"{place}: missing fields {missing}, unknown fields {unknown}")
    try:
        check_types(kind, content)
        return kind(**content)
    except ResultsError as error:
        raise ResultsError(f"{place}: {error}") from None


def check_types(kind: type, content: Mapping[str, Any]) -> None:
    """Check that the values of the fields of a dataclass, and their items, have its types.

    Raises:
        ResultsError: a field has the wrong type, or is a number that is not finite.
    """
    for name, wanted in _hints(kind).items():
        _check_type(f"field {name!r}", content[name], wanted)


_hints = cache(get_type_hints)


def _check_type(place: str, value: Any, kind: Any) -> None:
    if type(value) is kind is not float or kind is Any:
        return
    parts, null = get_args(kind), ""
    if type(None) in parts:
        if value is None:
            return
        kind, null = parts[0], " or null"
    wanted = get_origin(kind) or kind
    holds = type(value) is wanted
    if wanted is float:
        holds = type(value) in (int, float) and abs(value) < _TOO_LARGE  # false for NaN
    if not holds:
        raise ResultsError(f"{place} is {value!r}; expected {_WORDS[wanted]}{null}")
    if wanted in (dict, list):
        for key, item in value.items() if wanted is dict else enumerate(value):
            _check_type(f"{place}[{key!r}]", item, parts[-1])


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _require(field: str, holds: bool, message: str) -> None:
    if not holds:
        raise ResultsError(f"field {field!r} {message}")
