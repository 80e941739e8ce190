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
    Job,
    build_task,
    capture_environment,
    finish,
    is_finished,
    make_record,
)
from repro.runs.locking import announce, run_lock
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


def evaluate_ensemble(members: Sequence[Job], command: str) -> RunFolder:
    """Evaluate finished runs as an ensemble, unless that was done before.

    Args:
        members: runs that differ in their seed only, all done.
        command: what was typed, for the record.

    Raises:
        ValueError: a member is not done.
    """
    waiting = [member.run_id for member in members if member.folder.status != "done"]
    if waiting:
        raise ValueError(f"these members are not done: {', '.join(waiting)}")
    first, results_dir = members[0], members[0].config.results_dir
    assert results_dir is not None
    name = ensemble_id([member.run_id for member in members])
    located = run_folder(Path(results_dir), first.config.scale.name, name)
    ensemble = Job(first.config, first.corpus, located)
    config, folder = ensemble.config, ensemble.folder
    if is_finished(folder):
        return folder
    with run_lock(folder.path, announce) as lock:
        folder.reopen_if_damaged()
        if folder.status == "done":  # another process was faster
            return folder
        started = time.monotonic()
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
        names = [member.run_id for member in members]
        record = make_record(ensemble, scores, environment, seconds, names)
        finish(ensemble, record, members=names)
    return folder
