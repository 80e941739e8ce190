"""Trainings that runs share: those that differ only in what the evaluation reads."""

import logging
import shutil
from dataclasses import asdict
from pathlib import Path

from repro.atomic import atomic_path
from repro.checksums import DamagedFileError, verify
from repro.config.identity import training_id
from repro.config.schema import RunConfig
from repro.results import ResultsError, RunFolder, list_runs
from repro.tasks import CorpusIdentity, task_spec
from repro.training import TrainingProgress

_log = logging.getLogger(__name__)


def training_of(config: RunConfig, corpus: CorpusIdentity) -> str:
    """The identity of a run's training."""
    unread = task_spec(config.task.name).unread_in_training
    return training_id(config, corpus.fingerprint, unread)


def keep_training(
    folder: RunFolder, training: str, device: str, progress: TrainingProgress
) -> None:
    """Say what has been trained in a folder, and what it took.

    Args:
        folder: folder of the run, with the weights.
        training: the identity of the training.
        device: where it was trained, in words.
        progress: at the end; its history is in a file of its own.
    """
    ended = {key: value for key, value in asdict(progress).items() if key != "history"}
    folder.write_training({"training": training, "device": device, "progress": ended})


def take_over_training(
    folder: RunFolder, config: RunConfig, training: str, device: str
) -> TrainingProgress | None:
    """Copy the weights of a run of the same training on the same kind of device.

    A run whose training is damaged is named in a warning and passed over.

    Args:
        folder: folder of the run that is to be trained.
        config: configuration of that run.
        training: the identity of the training.
        device: where the run would be trained, in words.

    Returns:
        How that training ended; None if there is none, or if this run has begun its own.
    """
    if folder.checkpoint.exists():
        return None
    assert config.results_dir is not None
    for other in list_runs(Path(config.results_dir), config.scale.name):
        try:
            ended = other.read_training()
            same = (ended.get("training"), ended.get("device")) == (training, device)
            if same and other.model.exists():
                progress = TrainingProgress(**ended["progress"], history=other.read_history())
                verify(other.model)
                with atomic_path(folder.model, checksum=True) as temporary:
                    shutil.copyfile(other.model, temporary)
                return progress
        except (DamagedFileError, ResultsError) as error:
            _log.warning("%s; the training of this run is not used", error)
    return None
