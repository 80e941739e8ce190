"""Results as data frames, and their output as CSV."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from repro.config.paths import default_results_dir
from repro.results.errors import ResultsError
from repro.results.record import Record
from repro.results.store import read_records

if TYPE_CHECKING:
    import pandas as pd

PROVENANCE = (
    "run_id", "kind", "corpus", "fingerprint", "epoch", "commit", "device", "versions",
    "wall_time", "finished", "command",
)  # fmt: skip


def load(folder: Path | str | None = None, scale: str | None = None) -> "pd.DataFrame":
    """Load every finished run.

    Args:
        folder: the results folder; ``None`` for the default one.
        scale: scale of the runs; ``None`` for all.

    Returns:
        One row per run or ensemble: its provenance (``run_id``, ``corpus``, ``commit``, ...),
        ``scale``, ``seed``, the other settings with dotted names (``mapping.alpha``) and the
        metrics (``test/accuracy``); NaN if a run has no such setting or metric.

    Raises:
        ResultsError: a record is malformed.
    """
    root = Path(folder) if folder is not None else default_results_dir()
    found = sorted(path.parent.name for path in root.glob("*/records"))
    scales = found if scale is None else [scale]
    return frame_of([record for one in scales for record in read_records(root, one)])


def frame_of(records: Sequence[Record]) -> "pd.DataFrame":
    """Build a data frame with one row per record; see :func:`load`."""
    import pandas as pd

    known = (*PROVENANCE, "scale")
    rows = [
        {name: getattr(one, name) for name in known}
        | one.settings
        | {"seed": one.seed}
        | one.metrics
        for one in records
    ]
    return pd.DataFrame(rows, columns=None if rows else [*known, "seed"]).astype({"seed": "Int64"})


def find_record(folder: Path, prefix: str) -> Record:
    """Find the record of a run, at any scale, by a prefix of its name.

    Raises:
        ResultsError: no run, or more than one, has this prefix.
    """
    scales = sorted({path.parent.name for path in folder.glob("*/r*s") if path.is_dir()})
    found = [r for s in scales for r in read_records(folder, s) if r.run_id.startswith(prefix)]
    if len(found) != 1:
        names = ", ".join(f"{one.scale}/{one.run_id}" for one in found)
        raise ResultsError(f"{len(found)} runs below {folder} begin with {prefix!r}: {names}")
    return found[0]


def selected(frame: "pd.DataFrame", filters: Sequence[str]) -> "pd.DataFrame":
    """Select the rows that match every filter ``KEY=VALUE,VALUE``; a group is matched by name.

    Raises:
        ResultsError: no run has such a setting, or a filter is not ``KEY=VALUE``.
    """
    for item in filters:
        key, equals, values = item.partition("=")
        column = f"{key}.name" if f"{key}.name" in frame else key
        if not equals or column not in frame:
            raise ResultsError(
                f"no run has a setting {key!r}; expected KEY=VALUE, as mapping.alpha=1.5"
            )
        wanted = values.split(",")
        frame = frame[[_text(value) in wanted for value in frame[column]]]
    return frame


def varying(frame: "pd.DataFrame") -> list[str]:
    """Return the names of the settings in which the rows differ."""
    known = [c for c in frame.columns if "/" not in c and c not in PROVENANCE]
    return [name for name in known if frame[name].map(_text).nunique(dropna=False) > 1]


def pivoted(frame: "pd.DataFrame", keys: Sequence[str], metric: str) -> "pd.DataFrame":
    """Aggregate a metric by settings: mean, sample standard deviation and number of runs.

    Raises:
        ResultsError: no run has such a key or metric.
    """
    columns = [f"{key}.name" if f"{key}.name" in frame else key for key in keys]
    for name in (*columns, metric):
        if name not in frame:
            raise ResultsError(f"no run has {name!r}")
    return frame.groupby(columns, dropna=False)[metric].agg(["mean", "std", "count"]).reset_index()


def _text(value: object) -> str:
    """Format a setting as it is typed in a filter; 1.0 becomes 1, which is equivalent."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def escape_formula(text: str) -> str:
    """Prepend an apostrophe to a text that a spreadsheet would evaluate as a formula.

    Texts that start with an apostrophe get another one, so that escaping is reversible. Do not pass
    numbers: a negative one would be escaped.
    """
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r", "'")) else text


def to_csv(frame: "pd.DataFrame") -> str:
    """Format a data frame as CSV, with formulas in its texts escaped."""
    escaped = frame.map(lambda value: escape_formula(value) if isinstance(value, str) else value)
    return str(escaped.to_csv(index=False, lineterminator="\n"))
