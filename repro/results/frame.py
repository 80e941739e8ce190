"""Results as data frames, and their text as CSV."""

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
        folder: the results folder; ``None`` for that of the checkout.
        scale: only this one; ``None`` for all.

    Returns:
        One row for each run or ensemble: where it comes from (``run_id``, ``corpus``, ``commit``,
        ...), ``scale``, ``seed``, the other settings with dotted names (``mapping.alpha``) and the
        metrics (``test/accuracy``); NaN where a run has no such setting or metric.

    Raises:
        ResultsError: a record is malformed.
    """
    root = Path(folder) if folder is not None else default_results_dir()
    found = sorted(path.parent.name for path in root.glob("*/records"))
    scales = found if scale is None else [scale]
    return frame_of([record for one in scales for record in read_records(root, one)])


def frame_of(records: Sequence[Record]) -> "pd.DataFrame":
    """One row for each record; see :func:`load`."""
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
    """Find one run at any scale by the beginning of its name.

    Raises:
        ResultsError: no run or several runs begin like this.
    """
    scales = sorted({path.parent.name for path in folder.glob("*/r*s") if path.is_dir()})
    found = [r for s in scales for r in read_records(folder, s) if r.run_id.startswith(prefix)]
    if len(found) != 1:
        names = ", ".join(f"{one.scale}/{one.run_id}" for one in found)
        raise ResultsError(f"{len(found)} runs below {folder} begin with {prefix!r}: {names}")
    return found[0]


def selected(frame: "pd.DataFrame", filters: Sequence[str]) -> "pd.DataFrame":
    """Rows that agree with every filter ``KEY=VALUE,VALUE``; the key of a group means its name.

    Raises:
        ResultsError: no run has such a setting, or a filter is no ``KEY=VALUE``.
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
    """Settings in which the rows differ."""
    known = [c for c in frame.columns if "/" not in c and c not in PROVENANCE]
    return [name for name in known if frame[name].map(_text).nunique(dropna=False) > 1]


def pivoted(frame: "pd.DataFrame", keys: Sequence[str], metric: str) -> "pd.DataFrame":
    """Mean, sample standard deviation and number of runs of a metric for each value of some keys.

    Raises:
        ResultsError: no run has such a key or metric.
    """
    columns = [f"{key}.name" if f"{key}.name" in frame else key for key in keys]
    for name in (*columns, metric):
        if name not in frame:
            raise ResultsError(f"no run has {name!r}")
    return frame.groupby(columns, dropna=False)[metric].agg(["mean", "std", "count"]).reset_index()


def _text(value: object) -> str:
    """A setting as it is typed: 1 for 1.0, as both say the same."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def escape_formula(text: str) -> str:
    """Put an apostrophe before a text that a spreadsheet would compute.

    Texts that begin with an apostrophe get another one, so that no text is lost. Numbers are no
    texts: a negative number must not come here.
    """
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r", "'")) else text


def to_csv(frame: "pd.DataFrame") -> str:
    """Format a table, its text columns escaped."""
    escaped = frame.map(lambda value: escape_formula(value) if isinstance(value, str) else value)
    return str(escaped.to_csv(index=False, lineterminator="\n"))
