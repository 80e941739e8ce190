"""Results as data frames, and their output as CSV."""

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from os.path import normpath
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

from repro.config.errors import ConfigError
from repro.config.identity import canonical, flattened, without_nuisance
from repro.config.loading import declared_name, group_choices
from repro.config.overrides import value_of
from repro.config.paths import default_results_dir
from repro.errors import ResultsError, meant
from repro.results.record import CLOCKED, Record
from repro.results.store import all_records, read_records

if TYPE_CHECKING:
    import pandas as pd

FIRST = ("scale", "mapping", "loss", "seed")
"""Groups of settings that a reader looks at first."""
_APART = ("scale", "corpus", "epoch", "signature", "kind", "training.optimizer")
"""Columns over which no mean is taken; ``signature`` is that of the metric, without versions."""


_VALUES = re.compile(r",(?![^\[]*\])")
"""Commas between the values of a filter, not those of a list."""


def load(
    results_dir: Path | str | None = None, scale: str | None = None, *, ensembles: bool = False
) -> "pd.DataFrame":
    """Load every finished run; of one that was repeated (:func:`distinct`), the last time.

    Args:
        results_dir: the results folder; ``None`` for the default one.
        scale: scale of the runs; ``None`` for all.
        ensembles: whether to load ensembles as well, whose ``kind`` is ``"ensemble"``; they have
            the settings of their members, so that a mean over settings would count both.

    Returns:
        One row per run: its provenance (``run_id``, ``corpus``, ``commit``, ...),
        ``scale``, ``seed``, the other settings with dotted names (``mapping.alpha``) and the
        metrics (``test/accuracy``); NaN if a run has no such setting or metric.

    Raises:
        ResultsError: there is no such folder or scale in it, or a record is malformed.
    """
    root = default_results_dir() if results_dir is None else Path(results_dir).expanduser()
    for folder in (root, root / (scale or "")):
        if not folder.is_dir():
            raise ResultsError(f"{folder}: there is no such folder of results")
    records = all_records(root) if scale is None else read_records(root, scale)
    return frame_of(distinct([one for one in records if ensembles or one.kind == "run"]))


def distinct(records: Sequence[Record]) -> list[Record]:
    """Leave out runs that were repeated under another name, as after the removal of a setting.

    Of several with equal settings, seeds, contents of the corpus and epochs, the last one stays.
    """
    last: dict[str, Record] = {}
    for one in sorted(records, key=lambda one: (one.finished, one.run_id)):
        known = [one.kind, one.scale, one.seed, one.corpus, one.fingerprint, one.epoch]
        same = [*known, sorted(one.members), without_nuisance(one.config)]
        last[json.dumps(same, sort_keys=True)] = one
    kept = {id(one) for one in last.values()}
    return [one for one in records if id(one) in kept]


def frame_of(records: Sequence[Record]) -> "pd.DataFrame":
    """Build a data frame with one row per record; see :func:`load`."""
    import pandas as pd

    known = (
        "run_id", "kind", "corpus", "fingerprint", "epoch", "commit", "device", "versions",
        "wall_time", "finished", "command", "scale",
    )  # fmt: skip
    rows = [
        {name: getattr(one, name) for name in known}
        | one.settings
        | {"seed": one.seed}
        | one.metrics
        for one in records
    ]
    frame = pd.DataFrame(rows, columns=None if rows else [*known, "seed"])
    # Of None and integers pandas makes floats, which cannot hold all seeds.
    frame["seed"] = pd.array([one.seed for one in records], dtype="Int64")
    return frame


def selected(frame: "pd.DataFrame", filters: Sequence[str]) -> "pd.DataFrame":
    """Select the rows that match every filter; see :func:`parse_filter`.

    Raises:
        ResultsError: no run has such a setting, or a filter is not ``KEY=VALUE``.
    """
    wanted = [*map(parse_filter, filters)]
    for one in wanted if len(frame) else ():  # without a run no setting is known
        column = column_of(frame, one.key)
        if one.key == "data.folder" and any("/" in str(value) for value in one.values):
            expected = "expected its last part, with fingerprint=... if several share it"
            raise ResultsError(f"{one.key}: records keep the name of a folder only; {expected}")
        if column not in frame:
            raise ResultsError(f"no run has a setting {one.key!r}{known_names(frame, one.key)}")
        own = f"{one.key.partition('.')[0]}.name"
        read = frame[[name for name in dict.fromkeys([column, own]) if name in frame]]
        # pandas stores a null among numbers as NaN.
        rows = read.astype(object).where(read.notna(), None).to_dict("records")
        frame = frame.loc[[one.agrees_with({str(k): v for k, v in row.items()}) for row in rows]]
    return frame


class Filter(NamedTuple):
    """Condition on a setting: that it is one of some values."""

    key: str
    values: tuple[Any, ...]  # each as typed, and as Hydra reads it

    def agrees_with(self, settings: Mapping[str, Any]) -> bool:
        """Return whether settings by dotted key agree; that of a group is its name."""
        named = self.key if self.key in settings else f"{self.key}.name"
        if named not in settings:
            return False
        if self.key == "data.folder" and isinstance(folder := settings[named], str):
            # A run knows its folder, a record the name: one with another path is another folder.
            return bool({folder, PurePath(folder).name} & {*map(normpath, map(str, self.values))})
        group, _, key = self.key.partition(".")
        recorded = (canonical(group, settings.get(f"{group}.name"), key, v) for v in self.values)
        return text_of(settings[named]) in {*map(text_of, self.values), *map(text_of, recorded)}


def parse_filter(text: str) -> Filter:
    """Parse ``KEY=VALUE,VALUE``.

    Records name a choice as its file does: ``loss=cross_entropy`` has the name ``softmax``.

    Raises:
        ResultsError: the text has another form, or names a choice that records do not tell from
            others of its group.
    """
    key, equals, typed = text.partition("=")
    if not equals:
        raise ResultsError(f"{text}: expected KEY=VALUE, as mapping.alpha=1.5 or scale=demo,small")
    values: list[Any] = _VALUES.split(typed)
    for one in [*values]:
        if (name := declared_name(key, one)) not in (None, one):
            if others := [
                choice
                for choice in group_choices(key)
                if choice != one and declared_name(key, choice) == name
            ]:
                raise ResultsError(
                    f"{key}={one}: records name it {name!r}, as they do {', '.join(others)}; "
                    f"expected {key}={name} and values that differ, as {key}.KEY=VALUE"
                )
            values.append(name)
        with suppress(ConfigError):  # a text that no override has
            values.append(value_of(f"{key}={one}"))
    return Filter(key, tuple(values))


def varying(records: Sequence[Record]) -> list[str]:
    """Return the names of the settings with several values among the runs that have them.

    A run may lack a setting that another choice of its group has. One that lacks it with the same
    choice, as of an earlier version, has another value. Those of :data:`FIRST` come first, and in
    each group the choice, then α.
    """
    values, having = dict[str, set[str]](), dict[str, set[tuple[str, str]]]()
    runs = [one.settings | {"seed": one.seed, "scale": one.scale} for one in records]

    def chosen(run: Mapping[str, Any], name: str) -> tuple[str, str]:
        group = name.partition(".")[0]
        return text_of(run.get("task.name")), text_of(run.get(f"{group}.name"))

    for run, one in zip(runs, records, strict=True):
        for name, value in run.items():
            values.setdefault(name, set()).add(text_of(value))
        for name in flattened(without_nuisance(one.config)):
            having.setdefault(name, set()).add(chosen(run, name))
    for name, found in having.items():
        if any(name not in run and chosen(run, name) in found for run in runs):
            values[name].add("")
    names = [name for name, found in values.items() if len(found) > 1 and name != "scale.name"]
    order = (*FIRST, *(name.partition(".")[0] for name in names))
    leading = ("name", "alpha")
    return sorted(names, key=lambda name: (
        order.index(name.partition(".")[0]), name.partition(".")[2] not in leading
    ))  # fmt: skip


def pivoted(frame: "pd.DataFrame", keys: Sequence[str], metric: str) -> "pd.DataFrame":
    """Aggregate a metric by settings.

    Runs without the metric are left out; runs of several scales, corpora (also of one name),
    epochs, signatures (if the frame has them) or optimizers, and ensembles, are kept apart.

    Returns:
        The settings, the mean in a column named after the metric, ``std`` (of a sample) and
        ``count``, the number of runs.

    Raises:
        ResultsError: no run has such a key or metric, or the metric is one of the keys.
    """
    columns = [column_of(frame, key) for key in keys]
    for name in (*columns, metric):
        if name not in frame:
            raise ResultsError(f"no run has {name!r}{known_names(frame, name)}")
    if metric in columns:
        raise ResultsError(f"{metric} is averaged; expected settings to average it by")
    frame = hashable(frame.dropna(subset=[metric]), columns)
    known = (*_APART, "device") if metric.startswith(CLOCKED) else _APART
    apart = [name for name in known if name in frame and frame[name].nunique() > 1]
    if (frame.groupby("corpus")["fingerprint"].nunique() > 1).any():
        apart.append("fingerprint")
    groups = frame.groupby([*dict.fromkeys([*apart, *columns])], dropna=False)
    found = groups[metric].agg(["mean", "std", "count"])
    return found.rename(columns={"mean": metric}).reset_index()


def hashable(frame: "pd.DataFrame", columns: Sequence[str]) -> "pd.DataFrame":
    """Write the lists in some columns as text, by which rows can be grouped and sorted."""
    lists = {name for name in columns if frame[name].map(lambda one: isinstance(one, list)).any()}
    return frame.assign(**{name: frame[name].map(text_of) for name in lists})


def averaged_over(frame: "pd.DataFrame", by: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return those of some settings that differ between runs which agree in others, ``by``."""
    texts = frame[[*dict.fromkeys([*by, *names])]].astype(object).map(text_of)
    counts = texts.groupby([*by])[[name for name in names if name not in by]].nunique()
    return [str(name) for name in counts if (counts[name] > 1).any()]


def column_of(frame: "pd.DataFrame", key: str) -> str:
    """Return the column of a setting; that of a group holds the name of its choice."""
    return f"{key}.name" if f"{key}.name" in frame else key


def known_names(frame: "pd.DataFrame", unknown: str) -> str:
    """Return the end of a message: the name that is meant, else those of its group, else all."""
    every = sorted({str(name).removesuffix(".name") for name in frame})
    whole = [name for name in every if name.count("/") < 2]  # no parts, as test/accuracy/english
    group = re.match(r"\w+[./]", unknown)
    alike = [name for name in whole if group and name.startswith(group[0])]
    return meant(unknown, every) or f"; there are {', '.join(alike or whole)}"


def text_of(value: object) -> str:
    """Format a setting as it is typed in a filter; 1.0 becomes 1, which is equivalent."""
    if isinstance(value, list):
        return f"[{','.join(map(text_of, value))}]"
    if isinstance(value, bool) or value is None:
        return {None: "null", True: "true", False: "false"}[value]
    return f"{value:.12g}" if isinstance(value, float) else str(value)


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
