"""Ensembles: trained runs of one configuration and several seeds, evaluated as one model."""

import time
from collections.abc import Sequence
from pathlib import Path

from repro.config.compose import to_yaml
from repro.config.errors import ConfigError
from repro.config.identity import ensemble_id
from repro.results import RunFolder, run_folder
from repro.runs.environment import prepare_device
from repro.runs.execute import (
    LocatedRun,
    build_task,
    capture_environment,
    finish,
    make_record,
)
from repro.runs.finished import is_finished
from repro.runs.locking import RunLock, announce, run_lock
from repro.tasks import EnsembleEvaluation, task_spec
from repro.training.checkpoint import load_weights


def ensemble_evaluation(task: str) -> EnsembleEvaluation:
    """Return the function by which a task evaluates an ensemble.

    Raises:
        ConfigError: the task has no ensembles.
    """
    found = task_spec(task).evaluate_ensemble
    if found is None:
        raise ConfigError(f"task={task} has no ensembles; a column cannot be 'aggregate: ensemble'")
    return found


def locate_ensemble(members: Sequence[LocatedRun]) -> LocatedRun:
    """The folder of an ensemble, named by its members."""
    first = members[0]
    name = ensemble_id([member.folder.run_id for member in members])
    assert first.config.results_dir is not None
    folder = run_folder(Path(first.config.results_dir), first.config.scale.name, name)
    return LocatedRun(first.config, first.corpus, folder)


def evaluate_ensemble(members: Sequence[LocatedRun], command: str) -> RunFolder:
    """Evaluate finished runs as an ensemble, unless that was done before.

    Args:
        members: runs that differ in their seed only, all done.
        command: what was typed, for the record.

    Raises:
        ValueError: a member is not done.
    """
    waiting = [member.folder.run_id for member in members if member.folder.status != "done"]
    if waiting:
        raise ValueError(f"these members are not done: {', '.join(waiting)}")
    ensemble = locate_ensemble(members)
    if not is_finished(ensemble.folder):
        with run_lock(ensemble.folder.path, announce) as lock:
            ensemble.folder.reopen_if_damaged()
            if ensemble.folder.status != "done":  # another process may have been faster
                _evaluate(ensemble, members, command, lock)
    return ensemble.folder


def _evaluate(
    ensemble: LocatedRun, members: Sequence[LocatedRun], command: str, lock: RunLock
) -> None:
    started = time.monotonic()
    config, folder = ensemble.config, ensemble.folder
    device = prepare_device(config.hardware)
    environment = capture_environment(device, command)
    folder.mark_running()
    folder.write_config(to_yaml(config))
    folder.write_environment(environment)
    tasks = []
    for member in members:
        task = build_task(member.config, device)
        load_weights(member.folder.model, task.model)
        task.model.eval()
        tasks.append(task)
    scores = ensemble_evaluation(config.task.name)(tasks, folder)
    seconds = time.monotonic() - started
    lock.check()
    names = [member.folder.run_id for member in members]
    finish(ensemble, make_record(ensemble, scores, environment, seconds, names), members=names)
