"""Run folders and records: reading, writing and finding them."""

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partialmethod
from pathlib import Path
from typing import Any, Literal, TypeVar

import yaml

from repro import checksums
from repro.atomic import atomic_write_bytes, atomic_write_json, atomic_write_text
from repro.checksums import MANIFEST, DamagedFileError
from repro.config.identity import flattened
from repro.errors import ResultsError, visible
from repro.results import files
from repro.results.files import Array, Row, read_object
from repro.results.layout import record_path, runs_dir, statistics_path
from repro.results.record import CLOCKED, Record, read_record

_log = logging.getLogger(__name__)

Status = Literal["done", "failed", "running", "absent"]
_UNLISTED = (
    ".", "lock", "checkpoint.pt", "progress.json", "DONE",
    "logged-", "curves.csv", "tensorboard/", "wandb/",
)  # fmt: skip
"""Prefixes of paths without a checksum, since they may change after the run has finished."""


class RunFolder:
    """Folder of one run, with methods to read and write its files; ``DONE`` is written last.

    ``SHA256SUMS`` lists the files of a finished run. Methods that read raise
    :class:`repro.checksums.DamagedFileError` if a file differs from its checksum.

    Args:
        path: ``<results_dir>/<scale>/runs/<run_id>``; it need not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.run_id = path.name
        self.scale = path.parent.parent.name
        self.config = path / "config.yaml"
        self.environment = path / "environment.json"
        self.record = path / "record.json"
        self.history = path / "history.jsonl"
        self.checkpoint = path / "checkpoint.pt"
        self.progress = path / "progress.json"
        self.model = path / "model.safetensors"
        self.training = path / "training.json"
        self.preparation = path / "preparation.json"
        self.predictions = path / "predictions"
        self.hypotheses = path / "hypotheses.jsonl"
        self.attention = path / "attention.jsonl"
        self.candidates = path / "candidates.jsonl"
        self.forced = path / "forced.jsonl"
        self.statistics = path / "statistics.npz"
        self.traceback = path / "traceback.txt"
        self.done = path / "DONE"
        self.failed = path / "FAILED"

    def __repr__(self) -> str:
        return f"RunFolder({str(self.path)!r})"

    @property
    def place(self) -> tuple[Path, str, str]:
        """Folder of results, scale and name, by which a run is found."""
        return self.path.parents[2], self.scale, self.run_id

    @property
    def status(self) -> Status:
        """Status of the run; ``"running"`` includes interrupted runs that can be continued."""
        if self.done.exists():
            return "done"
        if self.failed.exists():
            return "failed"
        return "running" if self.path.is_dir() else "absent"

    @property
    def error(self) -> str:
        """Why the run failed: the last line of its traceback; blank if it has none."""
        with suppress(OSError):
            lines = self.traceback.read_text(encoding="utf-8", errors="replace").splitlines()
            last = next((line for line in reversed(lines) if line.strip()), "")
            return str(visible(re.sub(r"^(\w+\.)+(?=\w+: )", "", last)))  # without the module
        return ""

    @property
    def own_examples(self) -> "RunFolder":
        """Folder of the model's outputs for the inputs of ``experiments/examples``.

        It is kept with the records: it holds no text of a corpus, and outlives the weights.
        """
        return RunFolder(self.path.parents[1] / "own" / self.run_id)

    def predictions_file(self, split: str, language: str) -> Path:
        """Return the path of the predictions for one split and language."""
        return self.predictions / f"{split}-{language}.tsv"

    def mark_running(self) -> None:
        """Create the folder and clear an earlier failure, so that the run can start or continue.

        Raises:
            ResultsError: the run is done, or something else is in the place of its files.
        """
        self._refuse_done()
        self.path.mkdir(parents=True, exist_ok=True)
        self._remove_temporary()
        for path, fits in ((self.checkpoint, Path.is_file), (self.predictions, Path.is_dir)):
            if (path.exists() or path.is_symlink()) and not fits(path):
                raise ResultsError(f"{path} stands where the run writes its own; remove it")
        self.forget_failure()

    def _remove_temporary(self) -> None:
        """Remove what a killed process has left: only one works on the run."""
        for left in self.path.glob(".*.tmp"):
            left.unlink()

    def mark_done(self, summary: Mapping[str, Any]) -> None:
        """Declare the run finished, with a summary for JSON, after everything else is written."""
        self.forget_failure()
        finished = datetime.now(UTC).isoformat(timespec="seconds")
        done = {"run_id": self.run_id, "finished": finished, "summary": dict(summary)}
        self._seal(checksums.format_manifest(self.path, _UNLISTED), done)

    def _seal(self, manifest: str, done: Mapping[str, Any]) -> None:
        """Write the manifest, and its own checksum with what ``DONE`` holds."""
        atomic_write_text(self.path / MANIFEST, manifest)
        digest = checksums.sha256_of_file(self.path / MANIFEST)
        atomic_write_json(self.done, {**done, "manifest": digest})

    def remove_weights(self) -> int:
        """Delete weights and checkpoint, also from the manifest; return the bytes that it frees."""
        removed = [path for path in (self.model, self.checkpoint) if path.exists()]
        manifest, freed = self.path / MANIFEST, sum(path.stat().st_size for path in removed)
        # The checksum of a damaged manifest stays as it is, so that the damage is noticed.
        whole = not {MANIFEST, self.done.name} & {*self.damaged_files([])}
        if removed and self.done.exists() and manifest.exists() and whole:
            names = tuple(f"  {path.name}\n" for path in removed)
            lines = manifest.read_text(encoding="utf-8").splitlines(keepends=True)
            left = "".join(one for one in lines if not one.endswith(names))
            self._seal(left, read_object(self.done))
        for path in removed:
            path.unlink()
        return freed

    def damaged_files(self, names: Iterable[str] | None = None) -> list[str]:
        """List the files of a finished run, of all or of ``names``, that are missing or damaged."""
        if not self.done.exists():
            return []
        try:
            done = read_object(self.done)
        except ResultsError:
            return [self.done.name]
        # Folders that were written before the manifest had a checksum have none.
        manifest, digest = self.path / MANIFEST, done.get("manifest")
        if not manifest.exists():
            return [MANIFEST] if digest else []
        if digest and checksums.sha256_of_file(manifest) != digest:
            return [MANIFEST]
        return checksums.damaged_files(self.path, names)

    @property
    def holds_another(self) -> bool:
        """Whether this is the copied folder of another run, by ``DONE``, else by the record."""
        for path in (self.done, self.record):
            with suppress(OSError, ResultsError, KeyError):
                return bool(read_object(path)["run_id"] != self.run_id)
        return False

    def reopen_if_damaged(self) -> None:
        """Withdraw ``DONE`` if a file is damaged, so that the run can be repeated.

        Its weights are reused if they, the history and ``training.json`` are intact and its own.
        """
        damaged, manifest = {*self.damaged_files()}, self.path / MANIFEST
        training = (self.training, self.history, self.model)
        if self.holds_another:
            damaged |= {self.done.name, *(path.name for path in training)}
        elif damaged & {MANIFEST, self.done.name}:  # files whose checksum is still there are intact
            listed = manifest.read_text("utf-8", errors="replace") if manifest.exists() else ""
            found = {one.name: checksums.sha256_of_file(one) for one in training if one.is_file()}
            damaged |= {one.name for one in training if found.get(one.name, "?") not in listed}
        if damaged & {path.name for path in training}:
            for path in training:
                path.unlink(missing_ok=True)
        if damaged:
            self.done.unlink(missing_ok=True)

    def mark_failed(self, traceback: str) -> None:
        """Declare the run failed and save its traceback, if the disk is not full.

        Raises:
            ResultsError: the run is done.
        """
        self._refuse_done()
        self._remove_temporary()
        failed = datetime.now(UTC).isoformat(timespec="seconds")
        try:
            atomic_write_text(self.traceback, traceback)
            atomic_write_json(self.failed, {"run_id": self.run_id, "failed": failed})
        except OSError:
            # A full disk often still has space for an empty file, which suffices; if nothing can be
            # written at all, the caller's own error matters more than this one.
            with suppress(OSError):
                self.failed.touch()

    def write_config(self, text: str) -> None:
        """Write the resolved configuration, given as YAML."""
        atomic_write_text(self.config, text)

    def write_progress(self, progress: Mapping[str, Any]) -> None:
        """Write the progress of the run, as JSON values, for progress displays."""
        atomic_write_json(self.progress, dict(progress))

    def write_environment(self, environment: Mapping[str, Any]) -> None:
        """Write commit, device, versions and command, as JSON values."""
        atomic_write_json(self.environment, dict(environment))

    def read_environment(self) -> dict[str, Any]:
        """Read the output of :meth:`write_environment`."""
        return files.read_object(self.verified(self.environment))

    def write_record(self, record: Record) -> None:
        """Write the record of the run."""
        atomic_write_text(self.record, record.to_json() + "\n")

    def read_record(self) -> Record:
        """Read the record of the run.

        Raises:
            ResultsError: the file is missing or not a record; the message names the file.
        """
        return read_record(self.verified(self.record))

    def write_training(self, training: Mapping[str, Any]) -> None:
        """Write a summary of the training, as JSON values, once it has ended."""
        atomic_write_json(self.training, dict(training))

    def read_training(self) -> dict[str, Any]:
        """Read the output of :meth:`write_training`; empty if training has not ended."""
        self.verified(self.training)
        return files.read_object(self.training) if self.training.exists() else {}

    def write_preparation(self, preparation: Mapping[str, Any]) -> None:
        """Write what turns new inputs into ids, as JSON values."""
        atomic_write_json(self.preparation, dict(preparation))

    def read_preparation(self) -> dict[str, Any]:
        """Read the output of :meth:`write_preparation`."""
        return files.read_object(self.verified(self.preparation), exact=True)

    def append_history(self, row: Mapping[str, Any]) -> None:
        """Append the row of an epoch or a validation and flush it to disk."""
        files.append_row(self.history, row)

    def read_history(self) -> list[Row]:
        """Read the rows in the order in which they were appended, except an incomplete last one."""
        return files.read_rows(self.verified(self.history), grown=True)

    def rewrite_history(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Replace all rows; a resumed run thereby drops those after its checkpoint."""
        files.write_rows(self.history, rows)

    def write_statistics(self, arrays: Mapping[str, Array]) -> None:
        """Write the sufficient statistics of each example, by full metric name."""
        files.write_arrays(self.statistics, arrays)

    def read_statistics(self) -> dict[str, Array]:
        """Read the output of :meth:`write_statistics`; empty if the run saved none.

        Raises:
            ResultsError: the file is damaged.
        """
        self.verified(self.statistics)
        return files.read_arrays(self.statistics) if self.statistics.exists() else {}

    def _write_examples(self, kind: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Write rows for figures, one per example."""
        files.write_rows(self.path / f"{kind}.jsonl", rows)

    def _read_examples(self, kind: str) -> list[Row]:
        """Read rows for figures; empty if the run saved none."""
        path = self.verified(self.path / f"{kind}.jsonl")
        return files.read_rows(path) if path.exists() else []

    # Attention weights; hypotheses with their probabilities; candidate structures with their
    # weights; probabilities of a model that is forced to decode given targets.
    write_attention = partialmethod(_write_examples, "attention")
    read_attention = partialmethod(_read_examples, "attention")
    write_hypotheses = partialmethod(_write_examples, "hypotheses")
    read_hypotheses = partialmethod(_read_examples, "hypotheses")
    write_candidates = partialmethod(_write_examples, "candidates")
    read_candidates = partialmethod(_read_examples, "candidates")
    write_forced = partialmethod(_write_examples, "forced")
    read_forced = partialmethod(_read_examples, "forced")

    def verified(self, path: Path) -> Path:
        """Check a file of a finished run against the manifest, and return ``path``.

        Raises:
            DamagedFileError: the file differs from its checksum.
        """
        if self.damaged_files([path.name]):
            raise DamagedFileError(f"{path} is damaged: it differs from {MANIFEST} beside it")
        return path

    def _refuse_done(self) -> None:
        if self.done.exists():
            raise ResultsError(f"{self.path}: the run is done")

    def forget_failure(self) -> None:
        """Undo :meth:`mark_failed` before the run is tried again."""
        self.failed.unlink(missing_ok=True)
        self.traceback.unlink(missing_ok=True)


def read_config(folder: RunFolder) -> dict[str, Any]:
    """Read the configuration of a run; empty if it is not there or damaged."""
    try:
        content = yaml.safe_load(folder.config.read_bytes())
    except (OSError, ValueError, yaml.YAMLError):
        return {}
    return content if isinstance(content, dict) else {}


def read_settings(folder: RunFolder) -> dict[str, Any]:
    """Read the configuration of a run with dotted keys; empty if it is not there or damaged."""
    return flattened(read_config(folder))


RunT = TypeVar("RunT", RunFolder, Record)


def run_folder(results_dir: Path, scale: str, run_id: str) -> RunFolder:
    """Return the folder of one run, which need not exist."""
    return RunFolder(runs_dir(results_dir, scale) / run_id)


def list_runs(results_dir: Path, scale: str) -> list[RunFolder]:
    """List every run of one scale, sorted by name."""
    root = runs_dir(results_dir, scale)
    return [RunFolder(path) for path in sorted(root.glob("*")) if path.is_dir()]


def recent_runs(results_dir: Path) -> list[RunFolder]:
    """List the runs of every scale, those that were changed last first."""
    folders = [path for path in results_dir.glob("*/runs/*") if path.is_dir()]
    return [RunFolder(p) for p in sorted(folders, key=lambda p: p.stat().st_mtime, reverse=True)]


def publish(results_dir: Path, record: Record) -> Path:
    """Write the record of a finished run to the records of its scale and return its path.

    Its statistics are copied beside the records: they hold sums of each example and no text, and
    paired tests need them when the folder is gone. A warning says which record is replaced if its
    commit, device or metrics differ: the run was repeated, since its folder was gone or damaged.
    """
    place = results_dir, record.scale, record.run_id
    path, folder, statistics = record_path(*place), run_folder(*place), statistics_path(*place)
    before = None
    with suppress(DamagedFileError, ResultsError):  # no record that could be lost
        before = read_record(path)
        known, new = _compared(before), _compared(record)
        if differs := [name for name in known if known[name] != new[name]]:
            _log.warning(
                "%s: the record of commit %s is replaced by one of commit %s; other %s",
                path, before.commit, record.commit, ", ".join(differs),
            )  # fmt: skip
    own = b""
    try:
        if folder.verified(folder.statistics).exists():
            own = folder.statistics.read_bytes()
    except DamagedFileError as error:
        _log.warning("%s; the record is kept without it", error)
    if before != record:  # statistics of another record must never be tested with these values
        statistics.unlink(missing_ok=True)
    atomic_write_text(path, record.to_json() + "\n")
    if own:
        atomic_write_bytes(statistics, own)
    return path


def _compared(record: Record) -> dict[str, Any]:
    """Return what a repeated run may change, but for what a clock measured."""
    scores = {name: one for name, one in record.metrics.items() if not name.startswith(CLOCKED)}
    return {"commit": record.commit, "device": record.device, "metrics": scores}


def publish_again(folder: RunFolder, replace_newer: bool = False) -> None:
    """Publish the record of a finished run, with its statistics, unless that was done.

    Published files may be missing, damaged, of another run or of an earlier one of the same name;
    one that finished later, on another machine, is replaced only with ``replace_newer``.
    """
    place, damage = folder.place, (DamagedFileError, ResultsError)
    with suppress(*damage):  # a damaged folder has nothing to publish
        record = _read_own(folder.verified(folder.record), place)
        with suppress(*damage):
            published = _read_own(record_path(*place), place)
            if published.finished > record.finished and not replace_newer:
                return
            with suppress(*damage, FileNotFoundError):
                own, kept = folder.verified(folder.statistics), statistics_path(*place)
                equal = not own.exists() or own.read_bytes() == kept.read_bytes()
                if equal and published == record:
                    return
        publish(place[0], record)


def current_record(folder: RunFolder) -> Record | None:
    """Return the record of a run that counts (:func:`read_records`); None if there is none."""
    return _last(_copies(folder.place)[0])


def result_of(folder: RunFolder) -> Record:
    """Return the record of a finished run that counts.

    Raises:
        ResultsError: there is none; names the file in the folder of the run.
    """
    return current_record(folder) or folder.read_record()


def newer_record(folder: RunFolder) -> Record | None:
    """Return the published record if it finished later than that in the folder of the run."""
    copies, _ = _copies(folder.place)
    last = _last(copies)
    return None if last in (None, copies.get("own")) else last


def read_statistics(results_dir: Path, scale: str, run_id: str) -> dict[str, Array]:
    """Read the statistics behind the record of a run that counts (:func:`read_records`).

    Raises:
        ResultsError: the file is damaged.
    """
    place = results_dir, scale, run_id
    copies, kept = _copies(place)[0], statistics_path(*place)
    last = _last(copies)
    if last is None:
        return {}
    own = copies.get("own") == last  # of two equal records either has the same statistics
    if copies.get("published") == last and kept.exists():
        try:
            return files.read_arrays(kept)
        except (DamagedFileError, ResultsError):
            if not own:
                raise
    return run_folder(*place).read_statistics() if own else {}


def read_records(results_dir: Path, scale: str) -> list[Record]:
    """Read the records of all runs, sorted by name, including those only in run folders.

    A file that is damaged, no record, or that of another run or scale is left out and named in a
    warning. Of the published record and that in the folder of the run, the one that finished last
    counts, with its statistics, and the published one if both are equal: records are put together
    from several machines and commits, so that either may be the older.
    """
    return survey_records(results_dir, scale)[0]


def survey_records(results_dir: Path, scale: str) -> tuple[list[Record], list[str]]:
    """Read records as :func:`read_records` does.

    Returns:
        The records, and for each run that has none but a file of it: the file and what is wrong.
    """
    published = {path.stem for path in record_path(results_dir, scale, "").parent.glob("*.json")}
    finished = {one.run_id for one in list_runs(results_dir, scale) if one.done.exists()}
    found, refused = list[Record](), list[str]()
    for name in sorted(published | finished):
        copies, problems = _copies((results_dir, scale, name))
        for problem in problems:
            _log.warning("%s; left out", problem)
        if (last := _last(copies)) is not None:
            found.append(last)
        else:
            refused += problems[:1]
    return found, refused


def _copies(place: tuple[Path, str, str]) -> tuple[dict[str, Record], list[str]]:
    """Read the ``published`` record of a run and its ``own``; say what is wrong with others."""
    folder, found, problems = run_folder(*place), dict[str, Record](), list[str]()
    paths = {"published": record_path(*place)}
    if folder.done.exists():
        paths["own"] = folder.record
    for kind, path in paths.items():
        if path.exists():
            try:
                found[kind] = _read_own(path, place)
            except (DamagedFileError, ResultsError) as error:
                problems.append(str(error))
    return found, problems


def _last(copies: Mapping[str, Record]) -> Record | None:
    """Return the record that finished last; the published one, which is first, if both did."""
    return max(copies.values(), key=lambda one: one.finished, default=None)


def _read_own(path: Path, place: tuple[Path, str, str]) -> Record:
    """Read a record, which is to be that of the run of a place."""
    record, (_, scale, run_id) = read_record(path), place
    if (record.scale, record.run_id) != (scale, run_id):
        raise ResultsError(
            f"{path} is the record of {record.scale}/{record.run_id}; expected that of "
            f"{scale}/{run_id}"
        )
    return record


def all_records(results_dir: Path) -> list[Record]:
    """Read the records of every scale."""
    folders = [*results_dir.glob("*/records"), *results_dir.glob("*/runs")]
    scales = sorted({path.parent.name for path in folders if path.is_dir()})
    return [record for scale in scales for record in read_records(results_dir, scale)]


def find_run(results_dir: Path, prefix: str) -> RunFolder | Record:
    """Find a run, at any scale, by a prefix of its name.

    Returns:
        Its folder, or its record if no folder matches.

    Raises:
        ResultsError: no run, or more than one, matches.
    """
    folders = [one for one in recent_runs(results_dir) if one.run_id.startswith(prefix)]
    return _only(folders, results_dir, prefix) if folders else find_record(results_dir, prefix)


def find_record(results_dir: Path, prefix: str) -> Record:
    """Find the record of a run; see :func:`find_run`."""
    records = [one for one in all_records(results_dir) if one.run_id.startswith(prefix)]
    return _only(records, results_dir, prefix)


def _only(found: Sequence[RunT], results_dir: Path, prefix: str) -> RunT:
    found = [one for one in found if one.run_id == prefix] or found
    if not found:
        raise ResultsError(f"no run below {results_dir} begins with {prefix!r}")
    if len(found) > 1:
        names = ", ".join(f"{one.scale}/{one.run_id}" for one in found)
        raise ResultsError(f"{len(found)} runs below {results_dir} begin with {prefix!r}: {names}")
    return found[0]
