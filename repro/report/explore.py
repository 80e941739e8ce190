"""Results in the terminal and as files: listings, pivots and comparisons of two runs."""

import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from repro.evaluation.metrics import form_of, metric_of
from repro.report.significance import Comparer, comparison_texts
from repro.report.sweeps import main_metric, measurement_of
from repro.results import ResultsError, read_records
from repro.results.frame import find_record, load, pivoted, selected, to_csv, varying


def print_results(
    folder: Path,
    filters: Sequence[str],
    pivot: Sequence[str] = (),
    metric: str | None = None,
    form: str = "table",
) -> None:
    """Print runs, or a metric over some settings.

    Tables and LaTeX show one metric and the settings in which the runs differ; the other formats
    contain every setting and metric.

    Args:
        folder: the results folder.
        filters: conditions ``KEY=VALUE,VALUE``, for example ``scale=demo``.
        pivot: settings by whose values the metric is aggregated.
        metric: full name; ``None`` for the main metric of the first run.
        form: ``table``, ``csv``, ``json``, ``parquet`` or ``latex``.

    Raises:
        ResultsError: no run matches the filters, or a key or metric is unknown.
    """
    frame = selected(load(folder), filters)
    if frame.empty:
        raise ResultsError(f"no finished run below {folder} agrees with {' '.join(filters)}")
    if metric is None:
        first = frame.iloc[0]
        records = read_records(folder, str(first["scale"]))
        metric = main_metric([one for one in records if one.run_id == first["run_id"]])
    if metric not in frame:
        near = ", ".join(sorted(c for c in frame.columns if c.count("/") == 1))
        raise ResultsError(f"no run has {metric!r}; there are {near}")
    if pivot:
        frame = pivoted(frame, pivot, metric)
    elif form in ("table", "latex"):
        frame = frame[["run_id", *varying(frame), metric]]
    if form == "parquet":
        texts = frame.astype({c: str for c in frame.columns if frame[c].dtype == object})
        sys.stdout.buffer.write(texts.to_parquet(index=False) or b"")
    elif form == "csv":
        sys.stdout.write(to_csv(frame))
    elif form == "json":
        print(frame.to_json(orient="records", indent=1, double_precision=15))
    elif form == "latex":
        sys.stdout.write(frame.to_latex(index=False, escape=True, float_format="%.2f"))
    else:
        print(frame.to_string(index=False, na_rep="", float_format=lambda value: f"{value:.6g}"))


def print_comparison(folder: Path, first: str, second: str) -> None:
    """Print the settings in which two runs differ, and their metrics with paired tests.

    Raises:
        ResultsError: no run, or more than one, has a name that starts with ``first`` or ``second``.
    """
    one, other = (find_record(folder, name) for name in (first, second))
    keys = dict.fromkeys([*one.settings, *other.settings])
    settings = [(key, *(str(r.settings.get(key, "")) for r in (one, other))) for key in keys]
    _show([row for row in settings if row[1] != row[2]], ["setting", one.run_id, other.run_id])
    comparer, rows = Comparer(folder, one.scale), []
    for name in (name for name in one.metrics if name in other.metrics and name.count("/") == 1):
        digits = metric_of(name).digits
        left, right = one.metrics[name], other.metrics[name]
        pair = (measurement_of(one, name), measurement_of(other, name))
        same = one.scale == other.scale and one.fingerprint == other.fingerprint
        found = comparer.compare([pair]) if same and form_of(name) is not None else None
        texts = (f"{value:.{digits}f}" for value in (left, right, left - right))
        rows.append((name, *texts, *(("", "") if found is None else comparison_texts(found)[3:])))
    comparer.save()
    print()
    titles = ["metric", one.run_id, other.run_id, "difference", "p, bootstrap", "p, randomisation"]
    _show(rows, titles)


def _show(rows: Sequence[tuple[str, ...]], titles: list[str]) -> None:
    print(pd.DataFrame(rows, columns=titles).to_string(index=False) if rows else "no difference")
