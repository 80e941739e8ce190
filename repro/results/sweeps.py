"""Sweeps started by ``repro run -m``, stored as axes and runs."""

import hashlib
import json
import logging
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from repro.atomic import atomic_write_json
from repro.config.identity import SEARCH_PATH, changes_numbers
from repro.config.overrides import effective, resolved
from repro.errors import ResultsError
from repro.results.files import read_object
from repro.results.labels import counted
from repro.results.layout import scale_dir
from repro.results.record import from_dict

_log = logging.getLogger(__name__)

SEED = "seed"
_HYDRA = re.compile(r"hydra[./]")
_READ = (SEARCH_PATH, "data_dir")
"""Keys of folders that a sweep reads: with others the same settings give other runs."""
_NAMED = 4
"""Number of runs that an error names."""


@dataclass(frozen=True)
class Sweep:
    """Runs over the product of the values of several settings.

    Raises:
        ResultsError: a run has another value than those of an axis, or none, or two have the same
            on all axes: a table would average over settings that it does not name.
    """

    name: str  # given by ``name=``, else a hash of the overrides and the runs
    scale: str
    command: str  # shell command that repeats it
    axes: dict[str, list[str]]  # swept keys to their values, in the order and form of the command
    runs: dict[str, dict[str, str]]  # ID of each run to its value on every axis

    def __post_init__(self) -> None:
        for key, values in self.axes.items():
            found = {run.get(key) for run in self.runs.values()}
            if len(set(values)) != len(values) or not found <= set(values):
                raise ResultsError(
                    f"axis {key!r}: its values must be distinct and include that of every run"
                )
        first = dict[tuple[str, ...], str]()
        for run, place in self.runs.items():
            if (other := first.setdefault(tuple(place[key] for key in self.axes), run)) != run:
                raise ResultsError(
                    f"runs {other} and {run} of sweep {self.name} differ in what no axis has, so "
                    "that a table would average over it"
                )

    @property
    def anchor(self) -> str:
        """ID of the sweep in a page, the target of links."""
        return f"sweep-{self.name}"

    @property
    def keys(self) -> list[str]:
        """Swept keys other than the seed."""
        return [key for key in self.axes if key != SEED]


_Place = tuple[str, int]
"""Key of an override, and the number of dictionaries that set the same key after it."""


def _by_place(overrides: Sequence[str]) -> dict[_Place, str]:
    """Return the values of the overrides of a run, without what says how a sweep is run."""
    found = dict[_Place, str]()
    for text in reversed(effective(overrides)):
        key, equals, value = resolved(text).partition("=")
        known = changes_numbers(key) and not _HYDRA.match(key)
        if equals and (known or key.lstrip("+") in _READ):
            found[key, sum(key == later for later, _ in found)] = value
    return dict(reversed(found.items()))


def swept(
    overrides: Sequence[Sequence[str]], run_ids: Sequence[str], scale: str, name: str | None
) -> Sweep:
    """Describe a multirun, whose runs override the same keys in the same order."""
    typed = [_by_place(one) for one in overrides]
    places = [*dict.fromkeys(place for one in typed for place in one)]
    by_run = dict[str, dict[_Place, str]]()
    for run, one in zip(run_ids, typed, strict=True):
        by_run.setdefault(run, one)  # of values that give the same run, as 2 and 2.0, the first

    def values(place: _Place, runs: Iterable[Mapping[_Place, str]]) -> list[str]:
        return list(dict.fromkeys(one.get(place, "") for one in runs))

    varying = [place for place in places if len(values(place, by_run.values())) > 1]
    axes = {place[0]: values(place, by_run.values()) for place in varying}
    words = [f"{place[0]}={','.join(values(place, typed))}" for place in places]
    # The same words may give other runs, as after a change of an experiment file.
    content = json.dumps([sorted(words), sorted(by_run)])
    digest = hashlib.sha256(content.encode()).hexdigest()[:6]
    words += [f"name={name}"] if name else []
    runs = {run: {place[0]: one.get(place, "") for place in varying} for run, one in by_run.items()}
    return Sweep(name or digest, scale, shlex.join(["repro", "run", "-m", *words]), axes, runs)


def refuse_other_runs(results_dir: Path, sweep: Sweep) -> None:
    """Refuse a sweep that would replace an earlier one of the same name and lacks runs of it.

    The same command lacks them if a file that it reads, or the corpus, has changed since.

    Raises:
        ResultsError: names the runs, the command of the earlier one and its file.
    """
    path = sweep_path(results_dir, sweep.scale, sweep.name, "json")
    if not path.exists():
        return
    known = from_dict(Sweep, read_object(path), str(path))
    if lost := [run for run in known.runs if run not in sweep.runs]:
        named = ", ".join(lost[:_NAMED]) + ", …" * (len(lost) > _NAMED)
        raise ResultsError(
            f"name={sweep.name}: this would drop {counted(len(lost), 'run')} ({named}) of the "
            f"earlier sweep of this name, {known.command}; choose another name, or remove {path}"
        )


def write_sweep(results_dir: Path, sweep: Sweep) -> Path:
    """Write a sweep, replacing one of the same name, and return the path of its file."""
    path = sweep_path(results_dir, sweep.scale, sweep.name, "json")
    atomic_write_json(path, asdict(sweep))
    return path


def read_sweeps(results_dir: Path, scale: str, name: str | None = None) -> list[Sweep]:
    """Read the sweeps of one scale: all, sorted by name, or the one with this name.

    Other files that are malformed are left out and named in a warning.

    Raises:
        ResultsError: the file of this name is malformed, or there is none.
    """
    found = list[Sweep]()
    for path in sorted((scale_dir(results_dir, scale) / "sweeps").glob("*.json")):
        try:
            one = from_dict(Sweep, read_object(path), str(path))
            if path != sweep_path(results_dir, one.scale, one.name, "json"):
                raise ResultsError(f"{path}: belongs to sweep {one.name!r} at {one.scale!r} scale")
            found.append(one)
        except ResultsError as error:
            if path.stem == name:
                raise
            _log.warning("%s; left out", error)
    if name is None:
        return found
    if name not in (names := [one.name for one in found]):
        known = f"; there are {', '.join(names)}" if names else ""
        raise ResultsError(f"no sweep {name!r} at {scale} scale{known}")
    return [one for one in found if one.name == name]


def sweep_path(results_dir: Path, scale: str, name: str, suffix: str) -> Path:
    """Return the path of a sweep (``"json"``) or its report (``"svg"``, ``"html"``)."""
    return scale_dir(results_dir, scale) / "sweeps" / f"{name}.{suffix}"
