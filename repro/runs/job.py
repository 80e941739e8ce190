"""Runs to do: their identity, corpus and folder, and how they ended. Trains nothing."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from repro.config.identity import run_id, training_id
from repro.config.overrides import is_search_path
from repro.config.schema import RunConfig
from repro.results import RunFolder, require_writable, run_folder
from repro.runs.environment import require_memory
from repro.tasks import CorpusIdentity, task_spec

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Outcome:
    """Outcome of one run."""

    run_id: str
    label: str
    # "done", "skipped" (it was done before, or meanwhile by another process), "failed", "busy"
    # (another process works on it) or "open" (it has not ended).
    status: str
    folder: Path
    error: str = ""  # type and message of the exception, if failed; who works on the run, if busy
    spoiled: bool = False  # whether its process must not execute another run


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

    @property
    def typed(self) -> list[str]:
        """Overrides that name the run: without the search path, which all runs of a sweep share."""
        return [one for one in self.overrides if not is_search_path(one)]

    def outcome(self, status: str, error: str = "") -> Outcome:
        """Return the outcome of the run for a status."""
        label = self.label or " ".join(self.typed)
        return Outcome(self.run_id, label, status, self.folder.path, error)


def locate(config: RunConfig, overrides: Sequence[str] = ()) -> Job:
    """Find or generate the corpus of a run and find its folder; train nothing.

    ``overrides`` are those that were typed, for the record and for messages.

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


def corpus_at_hand(config: RunConfig) -> str | None:
    """Return the fingerprint of the corpus of a run; None if it has to be generated first.

    Raises:
        DataError: the corpus is missing or malformed.
    """
    if config.data.generated and not config.corpus_path.exists():
        return None
    return task_spec(config.task.name).identify(config).fingerprint


def is_finished(folder: RunFolder) -> bool:
    """Return whether a run is done and its files are its own and undamaged; else warn."""
    if folder.status != "done":
        return False
    if folder.holds_another:
        _log.warning("%s: the folder of another run; the run is repeated", folder.path)
        return False
    damaged = folder.damaged_files()
    if damaged:
        _log.warning("%s: damaged (%s); the run is repeated", folder.path, ", ".join(damaged))
    return not damaged
