"""The record: one tidy row per run and metric, the only thing that tables are made of."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from repro.results.errors import ResultsError

KINDS = ("run", "ensemble")
NUMBERS = ("value", "wall_time")


@dataclass(frozen=True)
class Record:
    """One metric of one run, with everything that is needed to trust or repeat it.

    Attributes:
        run_id: name of the run, or of the ensemble.
        kind: ``"run"``, or ``"ensemble"`` for several runs that predict together.
        experiment: ``<paper>/<artefact>``; empty for a run outside of any experiment.
        row: label of the table's row; empty outside of an experiment.
        column: name of the table's column; empty outside of an experiment.
        seed: seed of the run; None for an ensemble.
        scale: ``"demo"``, ``"small"`` or ``"full"``.
        metric: ``<split>/<metric>`` or ``<split>/<metric>/<language>``.
        value: finite, in the unit of the metric.
        signature: how the metric was computed.
        corpus: name of the corpus.
        fingerprint: SHA-256 of the corpus files, in hexadecimal digits.
        commit: revision of the source that ran.
        device: what it ran on.
        versions: of Python and the libraries, for example ``"python 3.11.7; torch 2.13.0"``.
        wall_time: seconds that the run took.
        command: what to type to repeat the run.
    """

    run_id: str
    kind: str
    experiment: str
    row: str
    column: str
    seed: int | None
    scale: str
    metric: str
    value: float
    signature: str
    corpus: str
    fingerprint: str
    commit: str
    device: str
    versions: str
    wall_time: float
    command: str

    def __post_init__(self) -> None:
        """Check every field and make the numbers floats.

        Raises:
            ResultsError: a field has the wrong type or a value out of its range.
        """
        for name in FIELDS:
            _check_type(name, getattr(self, name))
        for name in ("run_id", "scale", "metric"):
            _require(name, bool(getattr(self, name)), "must not be empty")
        _require("kind", self.kind in KINDS, f"is {self.kind!r}; expected one of {KINDS}")
        for name in NUMBERS:
            _check_finite(name, getattr(self, name), self.metric)
            object.__setattr__(self, name, float(getattr(self, name)))
        _require("wall_time", self.wall_time >= 0, f"is {self.wall_time}; expected at least 0")

    def to_dict(self) -> dict[str, Any]:
        """The fields as a plain dict, in the order of :data:`FIELDS`."""
        return asdict(self)


FIELDS = tuple(field.name for field in fields(Record))


def record_from_dict(row: Mapping[str, Any], place: str) -> Record:
    """Read one record.

    Args:
        row: exactly the fields of :class:`Record`.
        place: where the row stands, ``file:line``, for the message of an error.

    Raises:
        ResultsError: a field is missing, unknown, of the wrong type or out of range.
    """
    missing = [name for name in FIELDS if name not in row]
    unknown = sorted(set(row) - set(FIELDS))
    if missing or unknown:
        raise ResultsError(f"{place}: missing fields {missing}, unknown fields {unknown}")
    try:
        return Record(**row)
    except ResultsError as error:
        raise ResultsError(f"{place}: {error}") from None


def _require(field: str, holds: bool, message: str) -> None:
    if not holds:
        raise ResultsError(f"field {field!r} {message}")


def _check_finite(field: str, value: float, metric: str) -> None:
    _require(field, math.isfinite(value), f"is {value} for {metric}; expected a finite number")


def _check_type(name: str, value: Any) -> None:
    if name == "seed":
        valid, expected = value is None or type(value) is int, "an integer or null"
    elif name in NUMBERS:
        valid, expected = type(value) in (int, float), "a number"
    else:
        valid, expected = isinstance(value, str), "a text"
    _require(name, valid, f"is {value!r}; expected {expected}")
