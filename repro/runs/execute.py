"""One run: find it, and execute it unless it is done. Imports PyTorch only to train."""

import logging
import traceback
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from repro.config.identity import run_id, training_id
from repro.config.schema import RunConfig
from repro.results import ResultsError, RunFolder, require_writable, run_folder
from repro.runs.environment import require_memory
from repro.runs.locking import RunBusyError, run_lock
from repro.tasks import CorpusIdentity, task_spec
from repro.training.logger import LOGGERS

_log = logging.getLogger(__name__)


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
    """Run to do: its configuration, its corpus, its folder and the overrides that were typed.

    ``label`` names the cell of an artefact that needs it, if any.
    """

    config: RunConfig
    corpus: CorpusIdentity
    folder: RunFolder
    overrides: tuple[str, ...] = ()
    label: str = ""

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
        label = self.label or " ".join(self.overrides)
        return Outcome(self.run_id, label, status, self.folder.path, error)


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
                _log_history(run)
                return run.outcome("skipped")
            from repro.runs.train import train_and_evaluate  # imports PyTorch

            try:
                train_and_evaluate(run)
            except Exception as error:
                run.folder.mark_failed(traceback.format_exc())
                return run.outcome("failed", f"{type(error).__name__}: {error}")
            _log_history(run)  # if the weights are those of another run, nothing was logged yet
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


def logged(run: Job) -> Path:
    """Return the path of the mark that the chosen logger has the whole history."""
    return run.folder.path / f"logged-{run.config.logger.name}"


def _log_history(run: Job) -> None:
    """Write the history of a finished run to a logger that has not seen it."""
    name, mark = run.config.logger.name, logged(run)
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


def monitored(folder: RunFolder) -> float:
    """Return the best value of the monitored metric of a finished run; larger is better.

    Raises:
        ResultsError: the summary of its training has none.
    """
    training = folder.read_training()
    try:
        return float(training["progress"]["best"])
    except (KeyError, TypeError, ValueError) as error:
        raise ResultsError(f"{folder.training}: no best value of a training") from error
