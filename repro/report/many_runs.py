"""Pages of many runs: the list of all of them, and some side by side."""

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from repro.evaluation.metrics import is_current, metric_of, without_versions
from repro.report.charts import chart_of
from repro.report.provenance import GENERATED_SCALE
from repro.report.render_html import PAGES, html_page
from repro.results import (
    Archive,
    Record,
    RunFolder,
    all_records,
    read_records,
    run_folder,
    scale_dir,
)
from repro.results.cells import with_known_metrics
from repro.results.frame import FIRST, text_of
from repro.results.labels import main_first, main_metric

Row = dict[str, Any]
_GROUPS = ("task", "mapping", "loss", "scale", "seed")
"""Groups of settings with columns of their own."""


def list_page(archive: Archive) -> str:
    """Render the page of all runs, the last one first; :func:`runs_page` says where it lies.

    Runs of other scales are part of it, except those on generated corpora.
    """
    records = [*archive.records]
    for folder in sorted(archive.results_dir.glob("*/records")):
        if (scale := folder.parent.name) not in (archive.scale, GENERATED_SCALE):
            others = read_records(archive.results_dir, scale)
            records += with_known_metrics(archive.results_dir, others)
    records.sort(key=lambda record: (record.finished, record.run_id), reverse=True)
    known = {record.run_id: record for record in records}
    rows, groups, repeated = list[Row](), dict[str, int](), Counter[str]()
    for record in records:
        # Runs of a group differ only in their seed; of several with the same seed, only the last
        # counts. A group has one signature of each metric.
        alike = {key: value for key, value in record.settings.items() if key != "seed"}
        known_as = [(name, record.signatures[name]) for name in record.metrics]
        alike |= {m: without_versions(text) for m, text in known_as if not is_current(m, text)}
        kind = json.dumps([record.kind, record.scale, record.fingerprint, record.epoch, alike])
        own = f"{record.seed} {kind}"
        # An ensemble has the settings of its members.
        member = next((known[run] for run in record.members if run in known), record)
        several = [f"ensemble of {len(record.members)}"] if record.members else []
        shown = [one for one in member.overrides if one.partition("=")[0] not in _GROUPS]
        rows.append({
            "run": record.run_id,
            **_choices(record),
            "scale": record.scale,
            "seed": record.seed,
            "main": main_metric(record),
            "finished": record.finished,
            "group": groups.setdefault(f"{repeated[own]} {kind}", len(groups)),
            "settings": " ".join([*several, *sorted(shown, key=len)]),
            "metrics": _metrics(record),
        })  # fmt: skip
        repeated[own] += 1
    generated = archive.scale == GENERATED_SCALE
    above = "../" if generated else ""
    scales = [archive.scale] if generated else sorted({record.scale for record in records})
    written = {path.parent.name for path in archive.results_dir.glob("*/report.html")}
    reports = [one for one in scales if one in written or one == archive.scale]
    data = {"runs": rows, "metrics": _facts(rows), "above": above}
    return html_page("runs", data, above=above, reports=reports)


def compared_run(record: Record, folder: RunFolder, label: str, page: str | None) -> Row:
    """Describe a run for :func:`comparison_page`."""
    settings = {key: text_of(value) for key, value in sorted(record.settings.items())}
    return {**chart_of(folder, label, page), "settings": settings, "metrics": _metrics(record)}


def comparison_page(
    runs: Sequence[Row], first: Sequence[str], tests: Mapping[str, Any], scale: str = ""
) -> str:
    """Render a page that compares runs side by side; the reader can add and remove runs.

    Each of ``runs``, from :func:`compared_run`, has the ``group`` in which it is offered; those of
    ``first`` are shown at first. ``tests`` are p-values by baseline, metric and run.
    """
    settings = [run["settings"] for run in runs]
    keys = {key for one in settings for key in one}
    varying = {key for key in keys if len({one.get(key) for one in settings}) > 1}
    short = [{k: v for k, v in one.items() if k in varying} for one in settings]
    rows = [{**run, "settings": one} for run, one in zip(runs, short, strict=True)]
    data = {"runs": rows, "metrics": _facts(rows), "tests": tests, "first": first}
    return html_page("compare", data, scale=scale)


def comparison(folder: Path, found: Mapping[str, Any], file: Path) -> str:
    """Render the result of :func:`repro.report.explore.compare`, with the curves of training.

    Links to the pages of runs, where a report has made them, are relative to ``file``.
    """
    every = with_known_metrics(folder, all_records(folder))
    known = {record.run_id: record for record in every}
    rows, places = [], range(len(found["runs"]))
    for run, label, place in zip(found["runs"], _labels(found), places, strict=True):
        record = known[run]
        home = run_folder(folder, record.scale, run)
        page = scale_dir(folder, record.scale) / PAGES / f"{run}.html"
        address = quote(os.path.relpath(page, file.parent)) if page.exists() else None
        row = compared_run(record, home, label, address)
        values = {key: each[place] for key, each in found["settings"].items()}
        settings = {key: text_of(value) for key, value in values.items() if value is not None}
        metrics = {n: v for n, v in row["metrics"].items()
                   if found["metrics"][n]["values"][place] is not None}  # fmt: skip
        rows.append({**row, "settings": settings, "metrics": metrics, "group": "runs"})
    tests = {
        name: {
            run: p["randomisation"]
            for run, p in zip(found["runs"], one["tests"], strict=True)
            if p is not None
        }
        for name, one in found["metrics"].items()
    }
    return comparison_page(rows, found["runs"], {found["runs"][0]: tests})


def _labels(found: Mapping[str, Any]) -> list[str]:
    """Label runs by the fewest differing settings that distinguish them, choices first."""
    labels = [""] * len(found["runs"])
    order = {
        key: (not key.endswith(".name"), key.partition(".")[0] not in FIRST, key)
        for key in found["settings"]
    }
    lasts = Counter(key.rpartition(".")[2] for key in order)
    for key in sorted(order, key=order.__getitem__):
        last = key.rpartition(".")[2]
        short = "" if last == "name" else f"{last if lasts[last] == 1 else key}="
        texts = ["" if v is None else f"{short}{text_of(v)}" for v in found["settings"][key]]
        more = [", ".join(filter(None, pair)) for pair in zip(labels, texts, strict=True)]
        labels = more if len({*more}) > len({*labels}) else labels
    return [label or run for label, run in zip(labels, found["runs"], strict=True)]


def label_of(record: Record) -> str:
    """Name a run by its task, mapping, loss and seed, or by its kind."""
    last = record.kind if record.seed is None else f"seed {record.seed}"
    return ", ".join([*dict.fromkeys(filter(None, _choices(record).values())), last])


def _choices(record: Record) -> dict[str, str | None]:
    """Return the names of the choices of groups of settings, None where a run has none."""
    return {group: record.settings.get(f"{group}.name") for group in ("task", "mapping", "loss")}


def _metrics(record: Record) -> dict[str, float]:
    """Return the metrics of a run, except those of parts such as single languages."""
    return {n: round(value, 6) for n, value in record.metrics.items() if n.count("/") == 1}


def _facts(rows: Iterable[Row]) -> dict[str, Any]:
    """Return decimals and direction of each metric that runs have, those on test sets first."""
    names = {name for row in rows for name in row["metrics"]}
    found = {name: metric_of(name) for name in main_first(names, None)}
    return {n: {"digits": m.digits, "higher": m.higher_is_better} for n, m in found.items()}
