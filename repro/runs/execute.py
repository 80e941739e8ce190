"""One run, or an ensemble: find it, train it or continue it, evaluate it, record it."""

import logging
import re
import shlex
import shutil
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from repro import NUMERIC_EPOCH
from repro.atomic import atomic_path
from repro.checksums import DamagedFileError
from repro.config.compose import to_yaml
from repro.config.errors import ConfigError
from repro.config.identity import NUISANCE, ensemble_id, run_id, settings, training_id
from repro.config.schema import FenchelYoungLossConfig, RunConfig
from repro.config.schema.mapping import UnboundedConfig
from repro.evaluation.metrics import metric_of
from repro.results import (
    Record,
    ResultsError,
    RunFolder,
    list_runs,
    publish,
    require_writable,
    run_folder,
)
from repro.runs.environment import (
    describe_device,
    describe_versions,
    enough_memory,
    kernels_in_use,
    prepare_device,
    require_memory,
    source_commit,
)
from repro.runs.locking import RunBusyError, announce, run_lock
from repro.tasks import CorpusIdentity, EnsembleEvaluation, Predictor, Task, task_spec
from repro.tasks.instantiate import build_loss_mapping, build_mapping
from repro.training import TrainingProgress, distributed
from repro.training.checkpoint import load_weights
from repro.training.logger import LOGGERS
from repro.training.loop import FitPaths, Progress, fit
from repro.training.seeding import seed_everything

_log = logging.getLogger(__name__)

_RUN = "run"
"""Message by which the first of several processes tells the others that a run follows."""
_PROGRESS_SECONDS = 3.0
"""Least time between two writes of ``progress.json``."""


class RunFailedError(RuntimeError):
    """Raised when a run failed; its folder contains the traceback."""


@dataclass(frozen=True)
class Outcome:
    """Outcome of one run.

    Attributes:
        status: ``"done"``, ``"skipped"`` (it was done before, or meanwhile by another process),
            ``"failed"``, ``"busy"`` (another process works on it) or ``"open"`` (it has not ended).
        error: type and message of the exception, if failed; who works on the run, if busy.
    """

    run_id: str
    label: str
    status: str
    folder: Path
    error: str = ""


@dataclass(frozen=True)
class Job:
    """Run to do: its configuration, its corpus, its folder and the overrides that were typed."""

    config: RunConfig
    corpus: CorpusIdentity
    folder: RunFolder
    overrides: tuple[str, ...] = ()

    @property
    def run_id(self) -> str:
        """Identity of the run."""
        return self.folder.run_id

    @property
    def training_id(self) -> str:
        """Identity of what the run trains; runs that share it have the same weights."""
        unread = task_spec(self.config.task.name).unread_in_training
        return training_id(self.config, self.corpus.fingerprint, unread)

    def outcome(self, status: str, error: str = "") -> Outcome:
        """Return the outcome of the run for a status."""
        return Outcome(self.run_id, " ".join(self.overrides), status, self.folder.path, error)


def locate(config: RunConfig, overrides: Sequence[str] = ()) -> Job:
    """Find or generate the corpus of a run and find its folder; train nothing.

    Args:
        config: the resolved configuration.
        overrides: overrides that were typed, for the record and for messages.

    Raises:
        DataError: the corpus is missing or malformed.
        OutOfMemoryError: the model is larger than the memory.
        ResultsError: the results folder cannot be written.
    """
    require_memory(config)
    require_writable(config.results_path)
    corpus = task_spec(config.task.name).identify(config)
    name = run_id(config, corpus.fingerprint)
    folder = run_folder(config.results_path, config.scale.name, name)
    return Job(config, corpus, folder, tuple(overrides))


def check(run: Job) -> None:
    """Refuse a run whose corpus is malformed or leaves nothing to train on, before it has a folder.

    Raises:
        ConfigError: a mapping or loss of the configuration does not exist.
        DataError: names file and line, or the setting that leaves no example.
    """
    if run.folder.status == "done":
        return
    config = run.config
    if isinstance(config.mapping, UnboundedConfig):
        build_mapping(config.mapping)
    if isinstance(config.loss, FenchelYoungLossConfig):
        build_loss_mapping(config.loss)
    check_corpus = task_spec(config.task.name).check
    if check_corpus is not None:
        with enough_memory(config, "data"):
            check_corpus(config)


def execute(run: Job, on_busy: Callable[[RunBusyError], None] | None = None) -> Outcome:
    """Execute one run, unless it is done already and its files are undamaged.

    A run with damaged files is repeated from its undamaged ones. A failing run leaves its
    traceback in its folder; Ctrl-C leaves a checkpoint and raises KeyboardInterrupt.

    Args:
        run: the run, from :func:`locate`.
        on_busy: called once if another process works on the run, which is then waited for;
            without it, the outcome of such a run is ``"busy"``.
    """
    if is_finished(run.folder):
        _log_history(run)
        return run.outcome("skipped")
    try:
        with run_lock(run.folder.path, on_busy):
            run.folder.reopen_if_damaged()
            if run.folder.status == "done":  # by another process, before the lock was free
                return run.outcome("skipped")
            try:
                _train_and_evaluate(run)
            except Exception as error:
                run.folder.mark_failed(traceback.format_exc())
                return run.outcome("failed", f"{type(error).__name__}: {error}")
            return run.outcome("done")
    except RunBusyError as error:
        return run.outcome("busy", str(error))
    except Exception as error:  # the lock, or the mark of a failure, could not be written
        return run.outcome("failed", f"{type(error).__name__}: {error}")


def record_death(run: Job, reason: str) -> Outcome:
    """Mark a run as failed because its process died before it could do so itself.

    Args:
        run: the run on which the process worked.
        reason: how the process died, for the user.
    """
    try:
        with run_lock(run.folder.path):
            if run.folder.status == "done":
                return run.outcome("done")
            run.folder.mark_failed(reason + "\n")
    except RunBusyError as error:
        return run.outcome("busy", str(error))
    return run.outcome("failed", reason)


def _logged(run: Job) -> Path:
    """Return the file that says that the chosen logger has the whole history."""
    return run.folder.path / f"logged-{run.config.logger.name}"


def _log_history(run: Job) -> None:
    """Write the history of a finished run to a logger that has not seen it."""
    name, mark = run.config.logger.name, _logged(run)
    if name != "none" and not mark.exists():
        with closing(LOGGERS[name](run.folder.path)) as logger:
            for row in run.folder.read_history():
                logger.log(row)
        mark.touch()


def is_finished(folder: RunFolder) -> bool:
    """Return whether a run is done and its files are undamaged; warn of damaged ones."""
    if folder.status != "done":
        return False
    damaged = folder.damaged_files()
    if damaged:
        _log.warning("%s: damaged (%s); the run is repeated", folder.path, ", ".join(damaged))
    return not damaged


def _train_and_evaluate(run: Job) -> None:
    config, folder = run.config, run.folder
    device = prepare_device(config.hardware)
    # The command that repeats the run, without where it is computed and stored.
    kept = [item for item in run.overrides if re.split(r"[.=]", item)[0] not in NUISANCE]
    environment = begin(run, device, shlex.join(["repro", "run", *kept]))
    task = build_task(config, device)
    shown_at = -_PROGRESS_SECONDS

    def show(progress: TrainingProgress, batches: int) -> None:
        nonlocal shown_at
        if time.monotonic() - shown_at < _PROGRESS_SECONDS:
            return
        shown_at = time.monotonic()
        epoch, training = progress.epoch + progress.batch / max(1, batches), config.training
        limits = ((epoch, training.max_epochs), (progress.step, training.max_steps))
        shares = [done / most for done, most in limits if most is not None]
        key = f"dev_{training.monitor}"
        values = [row[key] for row in progress.history if key in row]
        with suppress(OSError):  # a failure of the display must not end the run
            folder.write_progress(
                {
                    "share": max(shares, default=0.0),
                    "epoch": progress.epoch + 1,
                    "epochs": training.max_epochs,
                    "metric": training.monitor,
                    "value": values[-1] if values else None,
                }
            )

    distributed.same(_RUN)
    progress = _train_once(task, run, environment["device"], show)
    started = time.monotonic()
    distributed.same("weights")
    if isinstance(task, Predictor):
        folder.write_preparation(task.preparation())
    with enough_memory(config, "decoding", "task", "model"):
        scores = evaluate_best(task, folder)
    recorded = progress.speeds() | progress.trends()
    scores |= {f"train/{name}": value for name, value in recorded.items()}
    seconds = progress.seconds + time.monotonic() - started
    finish(run, scores, environment, seconds, {"best_epoch": progress.best_epoch})
    folder.checkpoint.unlink(missing_ok=True)
    folder.progress.unlink(missing_ok=True)


def follow(config: RunConfig) -> None:
    """Take part in the runs of the first process of ``torchrun``, in one of the others.

    This process handles its share of the examples, and writes nothing to the folder of the run.
    """
    while distributed.same(None) == _RUN:
        run, device = locate(config), prepare_device(config.hardware)
        task = build_task(config, device)
        if distributed.same(None):
            files = FitPaths(run.folder.checkpoint, run.folder.model)
            fit(task, config.training, files, lambda _row: None, lambda _progress, _batches: None)
        distributed.same(None)  # wait until the weights are written
        with TemporaryDirectory() as folder:
            load_weights(run.folder.model, task.model)
            task.model.eval()
            task.evaluate(RunFolder(Path(folder)))


def monitored(folder: RunFolder) -> float:
    """Return the best value of the monitored metric of a finished run; larger is better."""
    return float(folder.read_training()["progress"]["best"])


def build_task(config: RunConfig, device: torch.device) -> Task[Any]:
    """Seed every generator, then build the task's model and load its data."""
    seed_everything(config.seed)
    with enough_memory(config, "model", "data"):
        return task_spec(config.task.name).build(config, device)


def evaluate_best(task: Task[Any], folder: RunFolder) -> dict[str, float]:
    """Evaluate the task with the best weights of its folder."""
    load_weights(folder.model, task.model)
    task.model.eval()
    return task.evaluate(folder)


def _train_once(task: Task[Any], run: Job, device: str, show: Progress) -> TrainingProgress:
    """Train, unless another run has done the same training, whose result is then copied."""
    folder, config = run.folder, run.config
    progress = _take_over_training(run, device)
    if distributed.same(progress is None):
        with closing(LOGGERS[config.logger.name](folder.path)) as logger:

            def on_row(row: dict[str, Any]) -> None:
                folder.append_history(row)
                logger.log(row)

            files = FitPaths(folder.checkpoint, folder.model)
            with enough_memory(config, "training", "task", "model"):
                progress = fit(task, config.training, files, on_row, show)
        if config.logger.name != "none":
            _logged(run).touch()
    assert progress is not None
    folder.rewrite_history(progress.history)  # drops rows that a killed session wrote twice
    ended = {key: value for key, value in asdict(progress).items() if key != "history"}
    folder.write_training({"training": run.training_id, "device": device, "progress": ended})
    return progress


def _take_over_training(run: Job, device: str) -> TrainingProgress | None:
    """Copy the weights of a run of the same training on the same kind of device.

    A run whose training is damaged is named in a warning and passed over.

    Returns:
        Progress of that training; None if there is none, or if this run has begun its own.
    """
    if run.folder.checkpoint.exists():
        return None
    wanted = (run.training_id, device)
    for other in list_runs(run.config.results_path, run.config.scale.name):
        try:
            ended = other.read_training()
            if (ended.get("training"), ended.get("device")) == wanted and other.model.exists():
                progress = TrainingProgress(**ended["progress"], history=other.read_history())
                with atomic_path(run.folder.model) as temporary:
                    shutil.copyfile(other.verified(other.model), temporary)
                return progress
        except (DamagedFileError, ResultsError) as error:
            _log.warning("%s; the training of this run is not used", error)
    return None


def begin(run: Job, device: torch.device, command: str) -> dict[str, str]:
    """Mark a run as running; return its commit, device, versions and command."""
    environment = {
        "commit": source_commit(),
        "device": describe_device(device),
        "versions": describe_versions(),
        "command": command,
    }
    run.folder.mark_running()
    run.folder.write_config(to_yaml(run.config))
    run.folder.write_environment({**environment, "kernels": kernels_in_use()})
    return environment


def finish(
    run: Job,
    scores: Mapping[str, float],
    environment: Mapping[str, str],
    seconds: float,
    summary: Mapping[str, Any],
    members: Sequence[str] = (),
) -> None:
    """Mark a run or an ensemble of ``members`` as done, and write and publish its record."""
    record = Record(
        run_id=run.run_id,
        kind="ensemble" if members else "run",
        scale=run.config.scale.name,
        seed=None if members else run.config.seed,
        config=settings(run.config),
        metrics={metric: float(scores[metric]) for metric in sorted(scores)},
        signatures={metric: metric_of(metric).signature for metric in sorted(scores)},
        corpus=run.corpus.name,
        fingerprint=run.corpus.fingerprint,
        epoch=NUMERIC_EPOCH,
        wall_time=seconds,
        finished=datetime.now(UTC).isoformat(timespec="seconds"),
        members=list(members),
        outdated=[],
        **environment,
    )
    run.folder.write_record(record)
    run.folder.write_environment({**environment, "kernels": kernels_in_use()})
    run.folder.mark_done(summary)
    publish(run.config.results_path, record)


def ensemble_evaluation(task: str) -> EnsembleEvaluation:
    """Return the function by which a task evaluates an ensemble.

    Raises:
        ConfigError: the task has no ensembles.
    """
    found = task_spec(task).evaluate_ensemble
    if found is None:
        raise ConfigError(f"task={task} has no ensembles; a column cannot be 'aggregate: ensemble'")
    return found


def evaluate_ensemble(members: Sequence[Job], command: str) -> RunFolder:
    """Evaluate finished runs as one model, unless that was done before.

    Args:
        members: runs that differ in their seed only, all done.
        command: the command line, for the record.

    Raises:
        ValueError: a member is not done.
    """
    waiting = [member.run_id for member in members if member.folder.status != "done"]
    if waiting:  # the weights of an unfinished run would enter a record that is kept
        raise ValueError(f"these members are not done: {', '.join(waiting)}")
    names, config = [member.run_id for member in members], members[0].config
    folder = run_folder(config.results_path, config.scale.name, ensemble_id(names))
    if is_finished(folder):
        return folder
    ensemble = Job(config, members[0].corpus, folder)
    with run_lock(folder.path, announce):
        folder.reopen_if_damaged()
        if folder.status == "done":  # by another process, before the lock was free
            return folder
        started = time.monotonic()
        device = prepare_device(config.hardware)
        environment = begin(ensemble, device, command)
        tasks = []
        for member in members:
            task = build_task(member.config, device)
            load_weights(member.folder.verified(member.folder.model), task.model)
            task.model.eval()
            tasks.append(task)
        scores = ensemble_evaluation(config.task.name)(tasks, folder)
        seconds = time.monotonic() - started
        finish(ensemble, scores, environment, seconds, {"members": names}, names)
    return folder
