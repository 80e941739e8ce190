"""The page of all runs: one row for each record, which its script sorts, filters and groups."""

import json
from collections import Counter
from typing import Any

from repro.evaluation.metrics import metric_of
from repro.report.provenance import GENERATED_SCALE
from repro.report.sweeps import main_metric
from repro.results import Archive, Record, read_records

_SHOWN = ("task", "mapping", "loss", "scale", "seed")
"""Groups of settings with a column of their own."""


def runs_data(archive: Archive, pages: str) -> dict[str, Any]:
    """Collect what the page of all runs shows, the last run first.

    Args:
        archive: the records of the scale whose report links to the page. Those of other scales are
            added, but for generated corpora.
        pages: name of the folder of the pages of runs below the folder of a scale.
    """
    records = [*archive.records]
    for folder in sorted(archive.results_dir.glob("*/records")):
        if (scale := folder.parent.name) not in (archive.scale, GENERATED_SCALE):
            records += read_records(archive.results_dir, scale)
    records.sort(key=lambda record: record.finished, reverse=True)
    rows = list[dict[str, Any]]()
    groups, repeated = dict[str, int](), Counter[str]()
    for record in records:
        page = f"{record.scale}/{pages}/{record.run_id}.html"
        near = f"{pages}/{record.run_id}.html" if record.scale == archive.scale else f"../{page}"
        # Runs of a group differ in their seed only; of those with one seed the last one counts.
        alike = {key: value for key, value in record.settings.items() if key != "seed"}
        kind = [record.kind, record.scale, record.fingerprint, record.epoch, alike]
        key = json.dumps([*kind, repeated[json.dumps([*kind, record.seed])]])
        repeated[json.dumps([*kind, record.seed])] += 1
        rows.append(
            {
                "run": record.run_id,
                "page": near if (archive.results_dir / page).exists() else None,
                **{group: choice_of(record, group) for group in ("task", "mapping", "loss")},
                "scale": record.scale,
                "seed": record.seed,
                "settings": settings_text(record),
                "main": main_metric([record]),
                "finished": record.finished,
                "group": groups.setdefault(key, len(groups)),
                "metrics": {n: round(v, 6) for n, v in record.metrics.items() if n.count("/") == 1},
            }
        )
    names = {name for row in rows for name in row["metrics"]}
    digits = {name: metric_of(name).digits for name in sorted(names)}
    return {"runs": rows, "scale": archive.scale, "digits": digits}


def choice_of(record: Record, group: str) -> str | None:
    """Return the name of the choice of a group of settings, None if a run has none."""
    found = record.settings.get(f"{group}.name", record.settings.get(group))
    return None if found is None else str(found)


def settings_text(record: Record) -> str:
    """Join the settings that were typed for a run, without the groups that are shown already."""
    typed = [item for item in record.overrides if item.partition("=")[0] not in _SHOWN]
    return " ".join([*([] if record.kind == "run" else [record.kind]), *typed])


def label_of(record: Record) -> str:
    """Name a run by its task, mapping, loss and seed, or by its kind."""
    choices = [choice_of(record, group) for group in ("task", "mapping", "loss")]
    last = record.kind if record.seed is None else f"seed {record.seed}"
    return ", ".join([*dict.fromkeys(filter(None, choices)), last])
