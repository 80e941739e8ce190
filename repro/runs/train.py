"""Training and evaluation of one run, or of an ensemble, and their records."""

import logging
import shlex
import shutil
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from repro.atomic import atomic_path
from repro.checksums import DamagedFileError
from repro.config.compose import to_yaml
from repro.config.errors import ConfigError, require_extra
from repro.config.identity import changes_numbers, ensemble_id, flattened, settings
from repro.config.overrides import resolved
from repro.config.schema import RunConfig
from repro.errors import DataError
from repro.evaluation.metrics import metric_of
from repro.mappings.kernels import dispatch
from repro.results import Record, ResultsError, RunFolder, list_runs, publish, run_folder
from repro.results.record import REPLACED
from repro.results.store import publish_again
from repro.runs.device import describe_device, kernels_in_use, prepare_device
from repro.runs.environment import (
    describe_versions,
    enough_memory,
    other_extensions,
    source_commit,
    warn_of_extensions,
)
from repro.runs.job import Job, Outcome, is_finished, locate
from repro.runs.locking import announce, run_lock
from repro.tasks import EnsembleEvaluation, Predictor, Task, task_spec
from repro.tasks.instantiate import check_choices
from repro.training import distributed
from repro.training.checkpoint import TrainingProgress, load_weights
from repro.training.logger import open_logger, unlogged
from repro.training.loop import FitPaths, Progress, fit
from repro.training.seeding import seed_everything
from repro.version import NUMERIC_EPOCH

_log = logging.getLogger(__name__)

_RUN = "run"
"""Message by which the first of several processes tells the others that a run follows."""
_SESSION = ("commit", "versions", "device")
"""Fields of a record in which the sessions of a training, and that which evaluates, may differ."""
_PROGRESS_SECONDS = 3.0
"""Least time between two writes of ``progress.json``."""


def check(run: Job) -> None:
    """Refuse a run whose corpus is malformed or leaves nothing to train on, before it has a folder.

    Raises:
        ConfigError: the name of a choice does not exist, or the logger needs a missing package.
        DataError: names file and line, or the setting that leaves no example.
    """
    config = run.config
    require_extra(f"logger={config.logger.name}")
    check_choices(config)
    check_corpus = task_spec(config.task.name).check
    if check_corpus is not None:
        with enough_memory(config, "data"):
            check_corpus(config)


def require_corpus(run: Job) -> None:
    """Raise DataError if the corpus that a task was built from is not that of its run."""
    if task_spec(run.config.task.name).identify(run.config) != run.corpus:
        raise DataError(
            f"the files of {run.corpus.name} changed after this run was planned; start it again"
        )


def train_and_evaluate(run: Job) -> None:
    """Train a run or continue it, evaluate it, and write its record."""
    config, folder = run.config, run.folder
    device = prepare_device(config)
    # The command that repeats the run, without where it is computed and stored.
    kept = [resolved(item) for item in run.overrides if changes_numbers(item)]
    environment = begin(run, device, shlex.join(["repro", "run", *kept]))
    task = build_task(config, device)
    require_corpus(run)
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
    progress = _train_once(task, run, environment, show)
    for key in _SESSION:
        trained = " and ".join(dict.fromkeys(one[key] for one in progress.sessions))
        if trained not in ("", environment[key]):  # checkpoints of earlier versions note none
            environment[key] += f", training: {trained}"
    started = time.monotonic()
    distributed.same("weights")
    if isinstance(task, Predictor):
        folder.write_preparation(task.preparation())
    with enough_memory(config, "decoding", "task", "model"):
        scores = evaluate_best(task, folder)
    # PyTorch code in place of a kernel can take a thousand times as long: no speed to compare.
    if not dispatch.replaced():
        scores |= {f"train/{name}": value for name, value in progress.speeds().items()}
    seconds = progress.seconds + time.monotonic() - started
    finish(run, scores, environment, seconds, {"best_epoch": progress.best_epoch})
    folder.checkpoint.unlink(missing_ok=True)
    folder.progress.unlink(missing_ok=True)


def follow(config: RunConfig) -> None:
    """Take part in the runs of the first process of ``torchrun``, in one of the others.

    This process handles its share of the examples, and writes nothing to the folder of the run.
    """
    while distributed.same(None) == _RUN:
        run, device = locate(config), prepare_device(config)
        task = build_task(config, device)
        if distributed.same(None):
            files = FitPaths(run.folder.checkpoint, run.folder.model)
            fit(task, config.training, files, lambda _row: None, lambda _progress, _batches: None)
        distributed.same(None)  # wait until the weights are written
        with TemporaryDirectory() as folder:
            load_weights(run.folder.model, task.model)
            task.model.eval()
            task.evaluate(RunFolder(Path(folder)))


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


def _train_once(
    task: Task[Any], run: Job, environment: Mapping[str, str], show: Progress
) -> TrainingProgress:
    """Train, or copy the result of another run with the same training."""
    folder, config, device = run.folder, run.config, environment["device"]
    progress = _take_over_training(run, device)
    if distributed.same(progress is None):
        # If weights were removed, no run may take over those in progress as if they were the ended
        # ones that this file describes.
        folder.training.unlink(missing_ok=True)
        name, session = config.logger.name, {key: environment[key] for key in _SESSION}
        with closing(open_logger(name, folder.path, flattened(settings(config)))) as logger:

            def on_start(begun: TrainingProgress) -> None:
                for one in begun.sessions:
                    warn_of_extensions(one["commit"], "trainings were begun")
                if not begun.finished and session not in begun.sessions:
                    begun.sessions.append(session)
                for row in unlogged(name, folder.path, begun.history):
                    logger.log(row)

            def on_row(row: dict[str, Any]) -> None:
                folder.append_history(row)
                logger.log(row)

            files = FitPaths(folder.checkpoint, folder.model)
            with enough_memory(config, "training", "task", "model"):
                progress = fit(task, config.training, files, on_row, show, on_start)
    assert progress is not None
    folder.rewrite_history(progress.history)  # drops rows that a killed session wrote twice
    ended = {key: value for key, value in asdict(progress).items() if key != "history"}
    folder.write_training({"training": run.training_id, "device": device, "progress": ended})
    return progress


def _take_over_training(run: Job, device: str) -> TrainingProgress | None:
    """Copy the weights of a run of the same training on the same kind of device.

    A training with other code of extensions, which no identity covers, is another one. A run whose
    training is damaged is named in a warning and passed over.

    Returns:
        Progress of that training; None if there is none, or if this run has begun its own.
    """
    if run.folder.checkpoint.exists():
        return None
    wanted, named = (run.training_id, device), run.training_id.encode()
    for other in list_runs(run.config.results_path, run.config.scale.name):
        # Nearly all runs are of other trainings: their checksums are not compared.
        if not other.training.is_file() or named not in other.training.read_bytes():
            continue
        try:
            ended = other.read_training()
            if (ended.get("training"), ended.get("device")) == wanted and other.model.exists():
                progress = _ended_progress(other, ended)
                if not progress.sessions:  # earlier versions noted one, with the run
                    by = other.read_environment()
                    noted = {key: str(by.get(key, "")) for key in _SESSION}
                    progress.sessions = [{**noted, "device": device}]
                if any(other_extensions(one["commit"]) for one in progress.sessions):
                    continue
                with atomic_path(run.folder.model) as temporary:
                    shutil.copyfile(other.verified(other.model), temporary)
                return progress
        except (DamagedFileError, ResultsError) as error:
            _log.warning("%s; the training of this run is not used", error)
    return None


def _ended_progress(folder: RunFolder, training: Mapping[str, Any]) -> TrainingProgress:
    """Return the progress of an ended training from the content of ``training.json``.

    Raises:
        ResultsError: it is not that of a training, or there is no history; names the file.
    """
    history = folder.read_history()
    if not history:  # every training ends with a row
        raise ResultsError(f"{folder.history}: no history of the training")
    try:
        return TrainingProgress.of({**training["progress"], "history": history})
    except (KeyError, TypeError, ValueError) as error:
        raise ResultsError(
            f"{folder.training}: not the progress of a training ({error})"
        ) from error


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
    members: Mapping[str, str] = {},
) -> None:
    """Mark a run, or an ensemble, as done, and write and publish its record.

    ``members`` are the names of the runs of an ensemble, with the times at which they finished.
    """
    if slow := dispatch.replaced():
        device = f"{environment['device']}, {REPLACED} {', '.join(slow)}"
        environment = {**environment, "device": device}
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
        members_finished=dict(members),
        **environment,
    )
    run.folder.write_record(record)
    run.folder.write_environment({**environment, "kernels": kernels_in_use()})
    publish(run.config.results_path, record)  # before the mark: what is done is not done again
    run.folder.mark_done(summary)


def ensemble_evaluation(task: str) -> EnsembleEvaluation:
    """Return the function by which a task evaluates an ensemble.

    Raises:
        ConfigError: the task has no ensembles.
    """
    found = task_spec(task).evaluate_ensemble
    if found is None:
        raise ConfigError(f"task={task} has no ensembles; a column cannot be 'aggregate: ensemble'")
    return found


def evaluate_ensemble(members: Sequence[Job], command: str) -> Outcome:
    """Evaluate finished runs that differ in their seed only as one model, unless that was done.

    It is done again if a member was trained anew since, under the same name. A failure leaves its
    traceback in the folder of the ensemble.

    Raises:
        ValueError: a member is not done.
    """
    waiting = [member.run_id for member in members if member.folder.status != "done"]
    if waiting:  # the weights of an unfinished run would enter a record that is kept
        raise ValueError(f"these members are not done: {', '.join(waiting)}")
    for member in members:  # so that the records which others read are those of these weights
        publish_again(member.folder, replace_newer=True)
    finished = {member.run_id: member.folder.read_record().finished for member in members}
    names, config = [*finished], members[0].config
    folder = run_folder(config.results_path, config.scale.name, ensemble_id(names))
    ensemble = Job(config, members[0].corpus, folder)
    if is_finished(folder) and _is_of(folder, finished):
        return ensemble.outcome("skipped")
    with run_lock(folder.path, announce):
        folder.reopen_if_damaged()
        if folder.status == "done":
            if _is_of(folder, finished):  # by another process, before the lock was free
                return ensemble.outcome("skipped")
            folder.done.unlink()
        try:
            started = time.monotonic()
            device = prepare_device(config)
            environment = begin(ensemble, device, command)
            tasks = []
            for member in members:
                task = build_task(member.config, device)
                require_corpus(member)
                load_weights(member.folder.verified(member.folder.model), task.model)
                task.model.eval()
                tasks.append(task)
            scores = ensemble_evaluation(config.task.name)(tasks, folder)
            seconds = time.monotonic() - started
            finish(ensemble, scores, environment, seconds, {"members": names}, finished)
        except Exception as error:
            folder.mark_failed(traceback.format_exc())
            return ensemble.outcome("failed", f"{type(error).__name__}: {error}")
        return ensemble.outcome("done")


def _is_of(folder: RunFolder, finished: Mapping[str, str]) -> bool:
    """Return whether the ensemble in a folder is of members that ``finished`` at these times."""
    return folder.read_record().members_finished in ({}, finished)
