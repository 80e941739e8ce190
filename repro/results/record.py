"""Records of finished runs: configuration, metrics and provenance."""

import hashlib
import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from repro import typed
from repro.checksums import DamagedFileError
from repro.config.identity import flattened
from repro.errors import ResultsError, visible
from repro.results.files import read_object

T = TypeVar("T")
KINDS = ("run", "ensemble")
REPLACED = "PyTorch code in place of"
"""Words in ``Record.device`` before the names of operators whose kernels failed."""
CLOCKED = "train/"
"""Beginning of the names of metrics that a clock measured, and that depend on the device."""
_NAME = re.compile(r"\w[\w.+-]*")
_DIVERGED = 1000.0
"""A validation loss above this counts as divergence. Losses are means over symbols, pairs or trees;
those of a model that learns stay in the hundreds."""


@dataclass(frozen=True)
class Record:
    """Record of a run or an ensemble, with everything needed to verify or repeat it.

    Raises:
        ResultsError: a field has the wrong type or is out of range.
    """

    run_id: str  # name of the run, or of the ensemble
    kind: str  # "run", or "ensemble" for several runs that predict together
    scale: str  # name of the scale
    seed: int | None  # seed of the run; None for an ensemble
    config: dict[str, Any]  # every setting that may change the numbers, nested as in config.yaml
    metrics: dict[str, float]  # <split>/<metric> or <split>/<metric>/<language> to a finite value
    signatures: dict[str, str]  # signature of each metric, by the same names: how it was computed
    corpus: str  # name of the corpus
    fingerprint: str  # SHA-256 of the corpus files, in hexadecimal digits
    epoch: int  # numeric epoch of the package that ran
    commit: str  # revision of the source that ran
    device: str  # device that it ran on, and kernels that failed there
    versions: str  # Python and libraries, for example "python 3.11.7; torch 2.13.0"
    wall_time: float  # duration of the run in seconds
    finished: str  # time of its end, UTC, ISO 8601; blank if unknown
    command: str  # shell command that repeats the run
    members: list[str]  # names of the runs of an ensemble; empty for a run
    # When each member finished, by name: one that was trained anew has another time. Empty for a
    # run, and for an ensemble made before this was kept, which counts whatever its members are.
    members_finished: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_types(Record, vars(self))
        for name in ("run_id", "scale"):  # names of folders and pages
            value = getattr(self, name)
            _require(name, bool(_NAME.fullmatch(value)), f"is {value!r}; expected a file name")
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
        if not self.members_finished:  # as in records that were made before it was kept
            del content["members_finished"]
        return json.dumps({**content, "sha256": _digest(content)}, indent=1, ensure_ascii=False)


def read_record(path: Path) -> Record:
    """Read a record from a file with the output of :meth:`Record.to_json`.

    Raises:
        DamagedFileError: the file differs from the checksum in it.
        ResultsError: the file is missing or not JSON, or a field is missing, unknown, of the wrong
            type or out of range.
    """
    content = read_object(path, exact=True)
    digest = content.pop("sha256", None)
    record = from_dict(Record, visible(content), str(path))
    if digest != _digest(content):
        raise DamagedFileError(f"{path} is damaged: it differs from the checksum in it")
    return record


def from_dict(kind: type[T], content: Mapping[str, Any], place: str) -> T:
    """Create a dataclass from a mapping of its fields.

    Raises:
        ResultsError: a field is missing, unknown or invalid; the message names ``place``.
    """
    try:
        return typed.build(kind, content)
    except ValueError as error:
        raise ResultsError(f"{place}: {error}") from None


def check_types(kind: type, content: Mapping[str, Any]) -> None:
    """Check that the values of the fields of a dataclass, and their items, have its types.

    Raises:
        ResultsError: a field has the wrong type, or is a number that is not finite.
    """
    try:
        typed.check(kind, content)
    except ValueError as error:
        raise ResultsError(str(error)) from None


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _require(field: str, holds: bool, message: str) -> None:
    if not holds:
        raise ResultsError(f"field {field!r} {message}")
