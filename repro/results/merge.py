"""Tidy records of one experiment: a CSV file with one line per cell, run and metric."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from repro.atomic import atomic_write_text
from repro.checksums import verify
from repro.results.csv_text import to_csv, unescape_formula
from repro.results.errors import ResultsError
from repro.results.layout import records_path
from repro.results.record import FIELDS, NUMBERS, Record, record_from_dict


def write_experiment_records(
    results_dir: Path, scale: str, experiment_name: str, records: Iterable[Record]
) -> Path:
    """Replace the records of one experiment at one scale; the same records give the same bytes.

    Args:
        results_dir: the results folder.
        scale: scale that every record must have.
        experiment_name: ``<paper>/<artefact>`` that every record must name.
        records: with ``row`` and ``column`` filled, in any order.

    Returns:
        The file written.

    Raises:
        ResultsError: a record belongs elsewhere, or a cell holds a metric of a run twice.
    """
    ordered = sorted(records, key=_order)
    _check_all(ordered, scale, experiment_name)
    frame = pd.DataFrame([record.to_dict() for record in ordered], columns=list(FIELDS))
    frame["seed"] = frame["seed"].astype("Int64")
    path = records_path(results_dir, scale, experiment_name)
    atomic_write_text(path, to_csv(frame), checksum=True)
    return path


def read_experiment_records(results_dir: Path, scale: str, experiment_name: str) -> list[Record]:
    """Read the records of one experiment; none if it has no file at this scale.

    Raises:
        DamagedFileError: the file differs from its checksum.
        ResultsError: a line is no record, belongs elsewhere, or stands twice.
    """
    path = records_path(results_dir, scale, experiment_name)
    if not path.exists():
        return []
    verify(path)
    frame = _read_frame(path)
    rows = enumerate(frame.to_dict("records"), start=1)
    records = [_parse(row, f"{path}: record {number}") for number, row in rows]
    _check_all(records, scale, experiment_name)
    return records


def _read_frame(path: Path) -> pd.DataFrame:
    try:
        frame = pd.read_csv(path, dtype=str, keep_default_na=False, lineterminator="\n")
    except ValueError as error:
        raise ResultsError(f"{path}: not a CSV file ({error})") from error
    if tuple(frame.columns) != FIELDS:
        raise ResultsError(f"{path}: expected the columns {', '.join(FIELDS)}")
    texts = [name for name in FIELDS if name not in NUMBERS]
    return frame.assign(**{name: frame[name].map(unescape_formula) for name in texts})


def _parse(row: dict[Any, str], place: str) -> Record:
    seed = _number(row, "seed", place) if row["seed"] else None
    if seed is not None and not seed.is_integer():
        raise ResultsError(f"{place}: field 'seed' is {row['seed']!r}; expected an integer")
    numbers = {name: _number(row, name, place) for name in NUMBERS}
    typed = {**row, **numbers, "seed": None if seed is None else int(seed)}
    return record_from_dict(typed, place)


def _number(row: dict[Any, str], name: str, place: str) -> float:
    try:
        return float(row[name])
    except (TypeError, ValueError):
        message = f"{place}: field {name!r} is {row[name]!r}; expected a number"
        raise ResultsError(message) from None


def _order(record: Record) -> tuple[str, str, bool, int, str, str]:
    seed = -1 if record.seed is None else record.seed
    ensemble = record.kind == "ensemble"
    return (record.row, record.column, ensemble, seed, record.metric, record.run_id)


def _check_all(records: Sequence[Record], scale: str, experiment_name: str) -> None:
    for record in records:
        if (record.scale, record.experiment) != (scale, experiment_name):
            raise ResultsError(
                f"run {record.run_id}, {record.metric}: belongs to {record.experiment!r} at scale "
                f"{record.scale!r}, not to {experiment_name!r} at scale {scale!r}"
            )
    keys = Counter((r.row, r.column, r.kind, r.run_id, r.metric) for r in records)
    twice = [key for key, count in keys.items() if count > 1]
    if twice:
        raise ResultsError(f"{experiment_name} at scale {scale}: recorded twice: {twice[0]}")
