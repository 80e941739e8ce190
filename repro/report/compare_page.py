"""A comparison of runs as a page: what ``repro compare`` prints, with the curves of training."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from repro.report.histories import history_of
from repro.report.render_html import PAGES, html_comparison
from repro.report.run_pages import ComparedRun
from repro.results import atomic_write_text, run_folder, scale_dir
from repro.results.frame import FIRST, all_records, text_of


def write_comparison(folder: Path, found: Mapping[str, Any], file: Path) -> None:
    """Write a page that needs no other file; runs link to their pages, if a report made any.

    Args:
        folder: the results folder.
        found: the result of :func:`repro.report.explore.compare`.
        file: the page.
    """
    known = {record.run_id: record for record in all_records(folder)}
    labels, runs = _labels(found), []
    for place, run in enumerate(found["runs"]):
        record, values = known[run], {k: each[place] for k, each in found["settings"].items()}
        settings = {key: text_of(v) for key, v in values.items() if v is not None}
        page = scale_dir(folder, record.scale) / PAGES / f"{run}.html"
        address = quote(os.path.relpath(page, file.parent)) if page.exists() else None
        history = history_of(run_folder(folder, record.scale, run))
        runs.append(ComparedRun(record, labels[place], "runs", address, settings, history))
    first, *others = found["runs"]
    tests = {
        name: {
            run: p["randomisation"]
            for run, p in zip(others, one["tests"][1:], strict=True)
            if p is not None
        }
        for name, one in found["metrics"].items()
    }
    atomic_write_text(file, html_comparison(runs, found["runs"], {first: tests}))


def _labels(found: Mapping[str, Any]) -> list[str]:
    """Name runs by as few of the settings that differ as distinguish them, choices first."""
    labels = [""] * len(found["runs"])
    order = [
        (not key.endswith(".name"), key.partition(".")[0] not in FIRST, key)
        for key in found["settings"]
    ]
    for _, _, key in sorted(order):
        short = "" if key.endswith(".name") else f"{key.rpartition('.')[2]}="
        texts = ["" if v is None else f"{short}{text_of(v)}" for v in found["settings"][key]]
        more = [", ".join(filter(None, pair)) for pair in zip(labels, texts, strict=True)]
        if len({*more}) > len({*labels}):
            labels = more
    return [label or run for label, run in zip(labels, found["runs"], strict=True)]
