"""One run: find it, train it or continue it, evaluate it, record it."""

import logging
import re
import shlex
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from repro.checksums import DamagedFileError, remove, verify
from repro.config.compose import to_yaml
from repro.config.identity import NUISANCE, run_id
from repro.config.instantiate import build_loss_mapping, build_mapping
from repro.config.schema import FenchelYoungLossConfig, RunConfig
from repro.config.schema.mapping import UnboundedConfig
from repro.evaluation.metrics import metric_of
from repro.results import Record, RunFolder, require_writable, run_folder
from repro.runs.environment import (
    describe_device,
    describe_versions,
    prepare_device,
    source_commit,
)
from repro.runs.finished import is_finished
from repro.runs.locking import run_lock
from repro.runs.shared_training import keep_training, take_over_training, training_of
from repro.tasks import CorpusIdentity, Task, task_spec
from repro.training import Checkpoint
from repro.training.checkpoint import load_weights
from repro.training.logger import build_logger
from repro.training.loop import Files, fit
from repro.training.seeding import seed_everything

_log = logging.getLogger(__name__)

StepCallback = Callable[[RunConfig, Checkpoint, int], None]


@dataclass(frozen=True)
class Outcome:
    """How one run ended.

    Attributes:
        status: ``"done"``, ``"skipped"`` (it was done before) or ``"failed"``.
        error: the exception's type and message, for a failed run.
    """

    run_id: str
    label: str
    status: str
    folder: Path
    error: str = ""
    scores: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class LocatedRun:
    """A configuration with its corpus, its identity and its folder."""

    config: RunConfig
    corpus: CorpusIdentity
    folder: RunFolder


def locate(config: RunConfig) -> LocatedRun:
    """Find the folder of a run; finds (or generates) the corpus, trains nothing.

    Raises:
        DataError: the corpus is missing or malformed.
        ResultsError: the results folder cannot be written.
    """
    assert config.results_dir is not None
    results_dir = Path(config.results_dir)
    require_writable(results_dir)
    corpus = task_spec(config.task.name).identify(config)
    name = run_id(config, corpus.fingerprint)
    return LocatedRun(config, corpus, run_folder(results_dir, config.scale.name, name))


def check(run: LocatedRun) -> None:
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
        check_corpus(config)


def execute(
    config: RunConfig, overrides: Sequence[str] = (), on_step: StepCallback | None = None
) -> Outcome:
    """Bring one run to its end, unless it is done already and its files are whole.

    A run whose files are damaged is repeated from what is still whole. A failing run leaves its
    traceback in its folder; Ctrl-C leaves a checkpoint and goes on.

    Args:
        config: the resolved configuration.
        overrides: what was typed to get it, for the record and for messages.
        on_step: shows progress.
    """
    label = " ".join(overrides)
    run = locate(config)
    name, path = run.folder.run_id, run.folder.path
    if is_finished(run.folder):
        return Outcome(name, label, "skipped", path, scores=_scores(run.folder))
    try:
        with run_lock(path):
            run.folder.reopen_if_damaged()
            _run_or_mark_failed(run, overrides, on_step)
    except Exception as error:
        return Outcome(name, label, "failed", path, error=f"{type(error).__name__}: {error}")
    return Outcome(name, label, "done", path, scores=_scores(run.folder))


def _run_or_mark_failed(
    run: LocatedRun, overrides: Sequence[str], on_step: StepCallback | None
) -> None:
    try:
        _run(run, overrides, on_step)
    except Exception:
        run.folder.mark_failed(traceback.format_exc())
        raise


def _run(run: LocatedRun, overrides: Sequence[str], on_step: StepCallback | None) -> None:
    config, folder = run.config, run.folder
    device = prepare_device(config.hardware)
    folder.mark_running()
    folder.write_config(to_yaml(config))
    environment = capture_environment(device, command_of(overrides))
    folder.write_environment(environment)
    task = build_task(config, device)
    progress = _train_once(task, run, environment["device"], on_step)
    started = time.monotonic()
    scores = evaluate_best(task, folder)
    scores |= {f"train/{name}": value for name, value in progress.speeds().items()}
    seconds = progress.seconds + time.monotonic() - started
    folder.write_records(make_records(run, scores, environment, "run", config.seed, seconds))
    folder.mark_done({"label": " ".join(overrides), "best_epoch": progress.best_epoch})
    remove(folder.checkpoint)


def build_task(config: RunConfig, device: torch.device) -> Task[Any]:
    """Seed every generator, then build the task's model and load its data."""
    seed_everything(config.seed)
    return task_spec(config.task.name).build(config, device)


def evaluate_best(task: Task[Any], folder: RunFolder) -> dict[str, float]:
    """Evaluate the task with the best weights of its folder."""
    load_weights(folder.model, task.model)
    task.model.eval()
    return task.evaluate(folder)


def _train_once(
    task: Task[Any], run: LocatedRun, device: str, on_step: StepCallback | None
) -> Checkpoint:
    """Train, unless another run has done just that."""
    folder, training = run.folder, training_of(run.config, run.corpus)
    _discard_damaged_training(folder)
    progress = take_over_training(folder, run.config, training, device)
    if progress is None:
        progress = _train(task, run, on_step)
    folder.rewrite_history(progress.history)  # drops rows that a killed session wrote twice
    keep_training(folder, training, device, progress)
    return progress


def _discard_damaged_training(folder: RunFolder) -> None:
    """Let an interrupted training start anew if its checkpoint or its best weights are damaged."""
    try:
        verify(folder.checkpoint)
        verify(folder.model)
    except DamagedFileError as error:
        _log.warning("%s; the training starts anew", error)
        folder.discard_training()


def _train(task: Task[Any], run: LocatedRun, on_step: StepCallback | None) -> Checkpoint:
    folder, config = run.folder, run.config
    logger = build_logger(config.logger.name, folder.path / "tensorboard")

    def on_epoch(row: dict[str, Any]) -> None:
        folder.append_history(row)
        logger.log(row)

    def show(progress: Checkpoint, batches: int) -> None:
        if on_step is not None:
            on_step(config, progress, batches)

    files = Files(folder.checkpoint, folder.model)
    return fit(task, config.training, files, on_epoch, show)


def capture_environment(device: torch.device, command: str) -> dict[str, str]:
    """Commit, device, versions and command, for the record."""
    return {
        "commit": source_commit(),
        "device": describe_device(device),
        "versions": describe_versions(),
        "command": command,
    }


def command_of(overrides: Sequence[str]) -> str:
    """The command that repeats a run, without where it is computed and stored."""
    kept = [item for item in overrides if re.split(r"[.=]", item)[0] not in NUISANCE]
    return shlex.join(["repro", "run", *kept])


def make_records(
    run: LocatedRun,
    scores: Mapping[str, float],
    environment: Mapping[str, str],
    kind: str,
    seed: int | None,
    seconds: float,
) -> list[Record]:
    """One tidy record for each score."""
    return [
        Record(
            run_id=run.folder.run_id,
            kind=kind,
            experiment="",
            row="",
            column="",
            seed=seed,
            scale=run.config.scale.name,
            metric=metric,
            value=value,
            signature=metric_of(metric).signature,
            corpus=run.corpus.name,
            fingerprint=run.corpus.fingerprint,
            wall_time=seconds,
            **environment,
        )
        for metric, value in sorted(scores.items())
    ]


def _scores(folder: RunFolder) -> dict[str, float]:
    return {record.metric: record.value for record in folder.read_records()}
