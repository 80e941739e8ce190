"""Results in the terminal and as files: listings, pivots and comparisons of two runs."""

import logging
import shutil
import sys
import textwrap
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from repro.errors import meant
from repro.evaluation.metrics import metric_of, without_versions
from repro.report.cell import p_text, visible_digits
from repro.report.render_latex import escape_latex
from repro.report.significance import Comparer
from repro.results import Measurement, Record, ResultsError, all_records, find_record
from repro.results.cells import with_known_metrics
from repro.results.frame import (
    FIRST,
    averaged_over,
    column_of,
    distinct,
    frame_of,
    hashable,
    known_names,
    pivoted,
    selected,
    text_of,
    to_csv,
    varying,
)
from repro.results.labels import counted, main_metric

_log = logging.getLogger(__name__)
_LONGEST = 24
"""Most characters of a setting in a table."""


def print_results(
    folder: Path,
    filters: Sequence[str],
    pivot: Sequence[str] = (),
    metrics: Sequence[str] = (),
    form: str = "table",
    sort: str | None = None,
) -> None:
    """Print runs, or a metric over some settings.

    Tables and LaTeX show the metrics and the settings in which the runs that have one differ, and
    what else tells runs of equal settings apart: the first digits of the corpus's fingerprint, or
    the epoch. The other formats contain every setting and metric. A table has the width of the
    terminal.

    Args:
        folder: the results folder.
        filters: conditions ``KEY=VALUE,VALUE``, for example ``scale=demo``.
        pivot: settings by whose values the first metric is aggregated.
        metrics: full names, runs without any of them are left out; by default the main metric of
            the first run that has the settings of ``pivot``.
        form: ``table``, ``csv``, ``json``, ``parquet`` or ``latex``.
        sort: column by which rows are sorted, metrics from the best; by default runs are sorted
            from the newest.

    Raises:
        ResultsError: no run matches the filters, or a key or metric is unknown.
    """
    if pivot and len(metrics) > 1:
        raise ResultsError(f"{', '.join(metrics)}: a pivot averages one metric; name one")
    records = distinct(all_records(folder))
    frame = selected(frame_of(records), filters)
    if frame.empty:
        agrees = f" agrees with {' '.join(filters)}" if filters else ""
        raise ResultsError(f"no finished run below {folder}{agrees}")
    shown = _shown(records, frame, pivot, metrics)
    whole = frame.dropna(subset=shown, how="all")
    read, averaged = form in ("table", "latex"), list[str]()
    settings = varying([records[row] for row in whole.index])
    # Not settings, but they give other runs as well: the content of the corpus, and the code.
    apart = averaged_over(whole, ["kind", *settings], ["fingerprint", "epoch"])
    if read:
        whole = whole.assign(fingerprint=whole["fingerprint"].str[:12])
    if pivot:
        metric = shown[0]
        texts = [records[row].signatures.get(metric, "") for row in whole.index]
        whole = whole.assign(signature=[*map(without_versions, texts)])
        table = pivoted(whole, pivot, metric)
        averaged = averaged_over(whole.dropna(subset=[metric]), [*table][:-3], settings)
        table = table if sort is None else _sorted(table, sort)
        table = _with_deviation(table, metric) if read else table.rename(columns={metric: "mean"})
    else:
        table = _sorted(whole if read or metrics else frame, sort or "finished")
        if read:
            first = sum(key.partition(".")[0] in FIRST for key in settings)  # those come first
            table = table[["run_id", *settings[:first], *apart, *shown, *settings[first:]]]
    _write(table, form, [*map(str, table)] if pivot else ["run_id", "seed", *apart, *shown])
    if averaged:
        print(f"averages over {', '.join(averaged)}", file=sys.stderr)
    if form == "table" and (lacking := len(frame) - len(whole)):
        named = ", ".join(shown)
        print(f"{counted(lacking, 'run')} without {named} left out; see --metric", file=sys.stderr)


def _shown(
    records: Sequence[Record], frame: pd.DataFrame, pivot: Sequence[str], metrics: Sequence[str]
) -> list[str]:
    """Return the metrics to print, by default a main one; refuse those that no run has."""
    having = frame.dropna(subset=[k for key in pivot if (k := column_of(frame, key)) in frame])
    shown = [*metrics] or [main_metric(records[(frame if having.empty else having).index[0]])]
    known = sorted({m for row in frame.index for m in records[row].metrics if m.count("/") == 1})
    for name in shown:
        if name not in frame or frame[name].isna().all():
            there = f"{meant(name, known)}; there are {', '.join(known)}"
            raise ResultsError(f"no run has {name!r}{there}")
    return shown


def _write(frame: pd.DataFrame, form: str, kept: Collection[str]) -> None:
    """Write a frame to standard output; a table keeps the columns ``kept``, others if they fit."""
    if form == "parquet":
        plain = frame.copy()
        for name in (name for name in frame if frame[name].dtype == object):
            kinds = {*frame[name].dropna().map(type)}
            whole = frame[name].map(str, na_action="ignore")
            plain[name] = frame[name].astype("boolean") if kinds == {bool} else whole
        sys.stdout.buffer.write(plain.to_parquet(index=False) or b"")
    elif form == "csv":
        sys.stdout.write(to_csv(frame))
    elif form == "json":
        print(frame.to_json(orient="records", indent=1, double_precision=15))
    else:
        texts = frame.apply(lambda column: column.map(partial(_text, name=str(column.name))))
        if form == "latex":
            escaped = texts.map(escape_latex).rename(columns=escape_latex)
            sys.stdout.write(escaped.to_latex(index=False, escape=False))
        else:
            _print_fitted(texts, kept)


def _sorted(frame: pd.DataFrame, key: str) -> pd.DataFrame:
    """Sort by a column: metrics from the best, times from the newest, else ascending."""
    name = column_of(frame, key)
    if name not in frame:
        raise ResultsError(f"--sort {key}: no run has it{known_names(frame, key)}")
    descending = name == "finished" or ("/" in name and metric_of(name).higher_is_better)
    by = [one for one in (name, "run_id") if one in frame]
    ascending = [not descending, True][: len(by)]
    return frame.loc[hashable(frame, by).sort_values(by, ascending=ascending, kind="stable").index]


def _with_deviation(pivot: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Join mean and deviation to one column of text, named after the metric."""
    digits = metric_of(metric).digits
    texts = [
        f"{mean:.{digits}f}" + (f" ± {std:.{digits}f}" if count > 1 else "")
        for mean, std, count in zip(pivot[metric], pivot["std"], pivot["count"], strict=True)
    ]
    found = pivot.assign(**{metric: texts}).drop(columns="std")
    return found.rename(columns={"count": "runs"})


def _print_fitted(table: pd.DataFrame, kept: Collection[str], whole: str = "--format csv") -> None:
    """Print the columns ``kept`` and others that fit; name the rest, which ``whole`` prints."""
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
        text = f"too wide for {width} columns: {', '.join(left_out)}; {whole} has all"
        print(textwrap.fill(text, width), file=sys.stderr)


def _text(value: Any, name: str = "") -> str:
    """Format a cell of the column ``name``; a missing value is a hyphen."""
    if value is None or value is pd.NA or value != value:
        return "-"
    if isinstance(value, float):
        return f"{value:.{metric_of(name).digits}f}" if "/" in name else f"{value:g}"
    text = text_of(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def compare(folder: Path, names: Sequence[str], filters: Sequence[str]) -> dict[str, Any]:
    """Compare runs with the first one: settings that differ, metrics, paired tests.

    Runs are named by their identities, or the beginnings of them; without names, they are those
    that agree with ``filters``. Tests are read from the results where they are, and not added.

    Returns:
        Values for JSON: ``runs``; ``settings`` that differ (also the first digits of the corpus's
        ``fingerprint``, and the numeric ``epoch``) and ``metrics``, each with a value for each run,
        null if a run has none; of the metrics ``differences`` from the first run, ``best``, and the
        p-values of paired ``tests`` where both runs predicted the same examples. A value whose
        signature is not that of the first run with the metric is null, with a warning.

    Raises:
        ResultsError: neither names nor filters, fewer than two runs, or an identity that no run,
            or more than one, has.
    """
    if not names and not filters:
        raise ResultsError("expected runs to compare, or filters such as task=nmt")
    records = [find_record(folder, name) for name in names]
    if not names:
        every = all_records(folder)
        records = [every[row] for row in selected(frame_of(every), filters).index]
    records = with_known_metrics(folder, records)
    if len(records) < 2:
        raise ResultsError(f"expected two runs or more to compare, found {len(records)}")
    sides = [record.settings for record in records]
    keys = dict.fromkeys(key for side in sides for key in side)
    settings = {key: [side.get(key) for side in sides] for key in keys}
    order = [key for key in dict.fromkeys([*varying(records), *settings]) if key in settings]
    settings = {key: settings[key] for key in order}
    # Not settings, but they give other runs as well: the content of the corpus, and the code.
    settings["fingerprint"] = [one.fingerprint[:12] for one in records]
    settings["epoch"] = [one.epoch for one in records]
    settings["device"] = [one.device for one in records]  # of speeds
    settings = {key: row for key, row in settings.items() if len({*map(text_of, row)}) > 1}
    first, metrics = records[0], dict[str, dict[str, Any]]()
    comparer = Comparer(folder, first.scale)
    named = dict.fromkeys(m for one in records for m in one.metrics if m.count("/") == 1)
    for name in sorted(named, key=lambda name: not name.startswith("test/")):
        values = _of_one_signature(name, records)
        known = [value for value in values if value is not None]
        higher, base = metric_of(name).higher_is_better, values[0]
        metrics[name] = {
            "values": values,
            "differences": [None if v is None or base is None else v - base for v in values],
            "higher_is_better": higher,
            "best": None if higher is None else max(known) if higher else min(known),
            "tests": [_tested(comparer, name, first, one) for one in records],
        }
    return {"runs": [one.run_id for one in records], "settings": settings, "metrics": metrics}


def _of_one_signature(name: str, records: Sequence[Record]) -> list[float | None]:
    """Return the values of a metric, None for a run with another signature than the first one."""
    values, first = list[float | None](), ""
    for one in records:
        text = without_versions(one.signatures[name]) if name in one.metrics else first
        first = first or text
        values.append(one.metrics.get(name) if text == first else None)
        if text != first:
            where = f"{name}: the value of run {one.run_id} is left out"
            _log.warning("%s; its signature is %s, not %s", where, text, first)
    return values


def _tested(comparer: Comparer, name: str, first: Record, one: Record) -> dict[str, float] | None:
    """Return the p-value for two runs whose values may be tested together; else None."""
    both = one is not first and one.scale == first.scale
    if not both or name not in one.metrics or name not in first.metrics:
        return None
    found = comparer.compare([(Measurement.of(one, name), Measurement.of(first, name))])
    return None if found is None else {"randomisation": found.p_value}


def print_comparison(found: dict[str, Any]) -> None:
    """Print the result of :func:`compare`, with a column for each run, or a line if they are many.

    Nothing is wider than the terminal: columns that do not fit are named.
    """
    runs = [str(name)[:8] for name in found["runs"]]
    width, tests = shutil.get_terminal_size().columns, False
    lines = {"setting": {key: [*map(_text, row)] for key, row in found["settings"].items()}}
    lines["metric"] = {}
    for name, one in found["metrics"].items():
        digits = visible_digits(one["values"], metric_of(name).digits)
        arrow = {True: " ↑", False: " ↓"}
        texts = list[str]()
        for value, difference, p in zip(
            one["values"], one["differences"], one["tests"], strict=True
        ):
            text = "-" if value is None else f"{value:z.{digits}f}"
            text += "*" if value is not None and value == one["best"] else ""
            if texts and difference is not None:
                test = "" if p is None else f", {p_text(p['randomisation'])}"
                text += f" ({difference:+z.{digits}f}{test})"
                tests |= p is not None
            texts.append(text)
        lines["metric"][f"{name}{arrow.get(one['higher_is_better'], '')}"] = texts
    for title, rows in lines.items():
        table = pd.DataFrame.from_dict(rows, orient="index", columns=runs)
        sizes = [1 + max(map(len, table[run]), default=0) for run in table]
        if table.empty:
            print(f"no {title} differs" if title == "setting" else "no metric")
        elif max(map(len, [title, *rows])) + sum(sizes) <= width:
            print(table.rename_axis(title).reset_index().to_string(index=False))
        else:
            _print_fitted(
                table.T.rename_axis("run").reset_index(), ["run"], "--html FILE or --json"
            )
        print()
    note = "*: best; ↑, ↓: higher or lower is better; in parentheses: difference from the first run"
    note += ", p of approximate randomisation over the examples" if tests else ""
    print(textwrap.fill(note, width))
