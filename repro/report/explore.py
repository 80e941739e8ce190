"""Results in the terminal and as files: listings, pivots and comparisons of two runs."""

import shutil
import sys
import textwrap
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd

from repro.config.errors import ConfigError
from repro.config.planning import planned
from repro.evaluation.metrics import form_of, metric_of
from repro.report.significance import Comparer, comparison_texts
from repro.report.sweeps import main_metric
from repro.results import Measurement, Record, ResultsError
from repro.results.frame import (
    FIRST,
    all_records,
    find_record,
    frame_of,
    pivoted,
    selected,
    text_of,
    to_csv,
    varying,
)

_LONGEST = 24
"""Most characters of a setting in a table."""


def print_results(
    folder: Path,
    filters: Sequence[str],
    pivot: Sequence[str] = (),
    metric: str | None = None,
    form: str = "table",
) -> None:
    """Print runs, or a metric over some settings.

    Tables and LaTeX show one metric and the settings in which the runs that have it differ; the
    other formats contain every setting and metric. A table has the width of the terminal.

    Args:
        folder: the results folder.
        filters: conditions ``KEY=VALUE,VALUE``, for example ``scale=demo``.
        pivot: settings by whose values the metric is aggregated.
        metric: full name, runs without it are left out; ``None`` for the main metric of the first
            run.
        form: ``table``, ``csv``, ``json``, ``parquet`` or ``latex``.

    Raises:
        ResultsError: no run matches the filters, or a key or metric is unknown.
    """
    records = all_records(folder)
    frame = selected(frame_of(records), filters)
    if frame.empty:
        raise ResultsError(f"no finished run below {folder} agrees with {' '.join(filters)}")
    found = [records[row] for row in frame.index]
    shown = main_metric(found) if metric is None else metric
    measured = [one for one in found if shown in one.metrics]
    if not measured:
        near = ", ".join(sorted({m for one in found for m in one.metrics if m.count("/") == 1}))
        raise ResultsError(f"no run has {shown!r}; there are {near}")
    read = form in ("table", "latex")
    if pivot:
        frame = pivoted(frame, pivot, shown)
    elif read or metric is not None:
        frame = frame.dropna(subset=[shown])
    if read and not pivot:
        settings = varying(measured)
        before = [key for key in settings if key.partition(".")[0] in FIRST]
        after = [key for key in settings if key not in before]
        frame = frame[["run_id", *before, shown, *after]]
    if form == "parquet":
        texts = frame.astype({c: str for c in frame.columns if frame[c].dtype == object})
        sys.stdout.buffer.write(texts.to_parquet(index=False) or b"")
    elif form == "csv":
        sys.stdout.write(to_csv(frame))
    elif form == "json":
        print(frame.to_json(orient="records", indent=1, double_precision=15))
    elif form == "latex":
        lists = frame.map(lambda value: _short(str(value)) if isinstance(value, list) else value)
        sys.stdout.write(lists.to_latex(index=False, escape=True, float_format="%.2f"))
    else:
        _print_fitted(frame.map(_text), [*map(str, frame)] if pivot else ["run_id", "seed", shown])
        if lacking := len(found) - len(measured):
            print(f"{lacking} runs without {shown} are left out; see --metric", file=sys.stderr)


def _print_fitted(table: pd.DataFrame, kept: Collection[str]) -> None:
    """Print the columns ``kept`` and as many others as fit; name those that do not fit."""
    width = shutil.get_terminal_size().columns
    sizes = {name: 1 + max(map(len, [name, *table[name]])) for name in table}
    room = width + 1 - sum(size for name, size in sizes.items() if name in kept)
    left_out = []
    for name in [str(name) for name in table if name not in kept]:
        if sizes[name] <= room:
            room -= sizes[name]
        else:
            left_out.append(name)
    print(table.drop(columns=left_out).to_string(index=False))
    if left_out:
        text = f"too wide for {width} columns: {', '.join(left_out)}; --format csv has all settings"
        print(textwrap.fill(text, width), file=sys.stderr)


def _text(value: Any) -> str:
    """Format a cell; a missing value is a hyphen."""
    missing = value is None or value is pd.NA or value != value
    return "-" if missing else _short(text_of(value))


def _short(text: str, most: int = _LONGEST) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def print_comparison(folder: Path, first: str, second: str) -> None:
    """Print the settings in which two runs differ, and their metrics with paired tests.

    Raises:
        ResultsError: no run, or more than one, has a name that starts with ``first`` or ``second``.
    """
    one, other = (find_record(folder, name) for name in (first, second))
    sides = [_completed(record) for record in (one, other)]
    keys = dict.fromkeys([*sides[0], *sides[1]])
    rows = [(key, *(text_of(side.get(key, "-")) for side in sides)) for key in keys]
    rows = [row for row in rows if row[1] != row[2]]
    room = shutil.get_terminal_size().columns - max((len(key) for key, *_ in rows), default=0)
    most = max(_LONGEST // 2, room // 2 - 1)
    rows = [(key, _short(left, most), _short(right, most)) for key, left, right in rows]
    _show(rows, ["setting", one.run_id, other.run_id])
    comparer, tested = Comparer(folder, one.scale), list[tuple[str, ...]]()
    for name in (name for name in one.metrics if name in other.metrics and name.count("/") == 1):
        metric, left, right = metric_of(name), one.metrics[name], other.metrics[name]
        pair = (Measurement.of(one, name), Measurement.of(other, name))
        same = one.scale == other.scale and one.fingerprint == other.fingerprint
        found = comparer.compare([pair]) if same and form_of(name) is not None else None
        texts = (f"{value:z.{metric.digits}f}" for value in (left, right, left - right))
        p_values = ("", "") if found is None else comparison_texts(found)[3:]
        lower = " ↓" if metric.higher_is_better is False else ""
        tested.append((f"{name}{lower}", *texts, *p_values))
    comparer.save()
    print()
    short = [record.run_id[:8] for record in (one, other)]
    _show(tested, ["metric", *short, "difference", "p boot.", "p rand."])
    print("↓: lower is better. p: paired bootstrap, approximate randomisation.")


def _completed(record: Record) -> dict[str, Any]:
    """Add the defaults of settings that are newer than the record."""
    defaults: dict[str, Any] = {}
    with suppress(ConfigError):  # a choice that no longer exists
        defaults = dict(planned(record.overrides).defaults)
    return defaults | record.settings


def _show(rows: Sequence[tuple[str, ...]], titles: list[str]) -> None:
    print(pd.DataFrame(rows, columns=titles).to_string(index=False) if rows else "no difference")
