"""One run: find it, and execute it unless it is done. Imports PyTorch only to train."""

import logging
import traceback
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

from repro.config.identity import flattened, settings
from repro.config.schema.registry import declarations
from repro.results import ResultsError, RunFolder
from repro.results.store import publish_again, read_settings
from repro.runs.environment import warn_of_extensions
from repro.runs.job import Job, Outcome, is_finished
from repro.runs.locking import RunBusyError, run_lock
from repro.training.logger import open_logger, unlogged

_log = logging.getLogger(__name__)


class RunFailedError(RuntimeError):
    """Raised when a run failed; its folder contains the traceback."""


def execute(run: Job, on_busy: Callable[[RunBusyError], None] | None = None) -> Outcome:
    """Execute one run, unless it is done already and its files are undamaged.

    A run with damaged files is repeated from its undamaged ones. A failing run leaves its
    traceback in its folder; Ctrl-C leaves a checkpoint and raises KeyboardInterrupt.

    If another process works on the run, ``on_busy`` is called once and the process waited for;
    without it, the outcome is ``"busy"``.
    """
    if is_finished(run.folder):
        publish_again(run.folder)
        _log_history(run)
        _warn_of_examples(run)
        warn_of_extensions(run.folder.read_record().commit, "runs are done")
        for left in (run.folder.checkpoint, run.folder.progress):  # by a process killed after DONE
            left.unlink(missing_ok=True)
        return run.outcome("skipped")
    try:
        with run_lock(run.folder.path, on_busy):
            run.folder.reopen_if_damaged()
            if run.folder.status == "done":  # by another process, before the lock was free
                _log_history(run)
                return run.outcome("skipped")
            from repro.runs.train import train_and_evaluate  # imports PyTorch
            from repro.training.graphs import CaptureError

            try:
                train_and_evaluate(run)
            except Exception as error:
                run.folder.mark_failed(traceback.format_exc())
                outcome = run.outcome("failed", f"{type(error).__name__}: {error}")
                # Where memory ran out during a capture, the failed capture is the cause.
                spoiled = any(isinstance(one, CaptureError) for one in (error, error.__cause__))
                return replace(outcome, spoiled=spoiled)
            _log_history(run)  # if the weights are those of another run, nothing was logged yet
            return run.outcome("done")
    except RunBusyError as error:
        return run.outcome("busy", str(error))
    except Exception as error:  # the lock, or the mark of a failure, could not be written
        return run.outcome("failed", f"{type(error).__name__}: {error}")


def record_death(run: Job, reason: str) -> Outcome:
    """Mark a run as failed, for a ``reason``, because its process died before it could do so."""
    try:
        with run_lock(run.folder.path):
            if run.folder.status == "done":
                return run.outcome("done")
            run.folder.mark_failed(reason + "\n")
    except RunBusyError as error:
        return run.outcome("busy", str(error))
    return run.outcome("failed", reason)


def _log_history(run: Job) -> None:
    """Give the logger of a finished run the rows of its history that it has not seen."""
    name, folder = run.config.logger.name, run.folder
    if name != "none" and (rows := unlogged(name, folder.path, folder.read_history())):
        with closing(open_logger(name, folder.path, flattened(settings(run.config)))) as logger:
            for row in rows:
                logger.log(row)


def _warn_of_examples(run: Job) -> None:
    """Warn that a finished run has not stored the examples that ``task.shown`` asks for now."""
    typed = [item for item in run.overrides if item.lstrip("+").startswith("task.shown=")]
    if "shown" not in declarations("task", run.config.task.name).unread:
        return  # a task of one's own may have another setting of this name
    wanted = vars(run.config.task)["shown"]
    if typed and not {*wanted} <= {*read_settings(run.folder).get("task.shown", [])}:
        _log.warning(
            "%s: done before, with other examples than %s; to store these with the same weights, "
            "delete its file DONE and repeat the command",
            run.folder.path,
            typed[-1],
        )


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
