"""Batches of runs: composed, checked, handed to a launcher, and summarized.

A sweeper decides which runs there are, a launcher where they are computed. The outcome of a run is
read from its folder, whichever process computed it: the two exchange nothing else.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

from hydra._internal.callbacks import Callbacks  # launchers of other packages call them
from hydra.core.config_loader import ConfigLoader
from hydra.core.hydra_config import HydraConfig
from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn, JobStatus, configure_log
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext
from omegaconf import DictConfig, OmegaConf, read_write

from repro.config.compose import compose_run, refuse_unread, sweep_application
from repro.config.errors import ConfigError
from repro.config.hydra_settings import why_unread
from repro.config.identity import unidentified
from repro.config.overrides import (
    as_override,
    combinations,
    in_quotes,
    is_hydras,
    is_search_path,
    is_swept,
    parse_override,
    with_text,
)
from repro.results import RunFolder, atomic_write_json
from repro.results.store import current_record
from repro.runs.display import RunState, SweepDisplay, command_line, read_sweep
from repro.runs.execute import RunFailedError, execute, monitored
from repro.runs.job import Job, Outcome, locate
from repro.runs.locking import announce, is_claimed, run_lock
from repro.runs.summary import labels_of, list_artefacts, print_plan, record_sweeps, sweeps_of

CONTINUED = "REPRO_CONTINUED_SWEEP"
"""Environment variable that names the folder of the detached sweep which a job continues."""


@dataclass(frozen=True)
class Batch:
    """Batch of different runs for a launcher to execute."""

    jobs: Sequence[Job]  # in the order of the sweep
    settings: Mapping[str, Any]  # settings of the launcher
    folder: Path  # folder of the sweep's own files, on the file system of the results
    display: SweepDisplay  # shows what the launcher reports beyond the folders of the runs

    def by_training(self) -> list[list[Job]]:
        """Group the jobs by training: those of a group share their weights."""
        groups: dict[str, list[Job]] = {}
        for job in self.jobs:
            groups.setdefault(job.training_id, []).append(job)
        return [*groups.values()]


@runtime_checkable
class OwnLauncher(Protocol):
    """Launcher of the suite: :func:`launch` with a backend and its settings."""

    backend: str
    settings: dict[str, Any]


@dataclass(frozen=True)
class Backend:
    """Capabilities of a launcher."""

    run: Callable[[Batch], object]  # executes the runs of a batch
    remote: bool = False  # runs are computed on other machines, whose devices are unknown here


def prepare_jobs(overrides: Sequence[Sequence[str]], sweep: bool = False) -> list[Job]:
    """Compose and locate runs.

    Raises:
        ConfigError: a setting is refused; in a ``sweep``, names the combination.
        DataError: a corpus is missing or malformed.
    """
    configs = []
    shared = frozenset[str](*overrides[:1]).intersection(*overrides)
    for item in overrides:  # all, before a corpus is generated
        try:
            configs.append(compose_run(item))
        except ConfigError as error:
            combination = " ".join(one for one in item if sweep and one not in shared)
            raise ConfigError(f"{combination}: {error}" if combination else str(error)) from error
    return [*map(locate, configs, overrides)]


def distinct(jobs: Sequence[Job]) -> list[Job]:
    """Drop jobs with the same run as an earlier job."""
    found = dict[str, Job]()
    for job in jobs:
        found.setdefault(job.run_id, job)
    return [*found.values()]


class SearchPosition(NamedTuple):
    """Position of a batch in a search of settings."""

    before: int = 0  # number of runs before the batch
    total: int = 0  # number of runs of the search; 0 if unknown
    shared: frozenset[str] | None = None  # overrides of every run; None: those that these share


_ALONE = SearchPosition()


def launch(
    backend_name: str,
    settings: Mapping[str, Any],
    master: DictConfig,
    overrides: Sequence[Sequence[str]],
    before: int = 0,
) -> list[JobReturn]:
    """Execute a batch of runs; the body of every launcher of the suite.

    The sweeper has asked for a number of runs ``before``. Of each run, the value of its monitored
    metric is returned, or an error if it failed.

    Raises:
        ConfigError: a run is refused, or what is swept is no part of an identity.
    """
    search = further_folders(master.hydra)
    asked = prepare_jobs([[*item, *search] for item in overrides], sweep=True)
    if named := next((job.config.name for job in asked if job.config.name is not None), None):
        raise ConfigError(f"name={named}: only hydra/sweeper=grid keeps a sweep; leave it out")
    params: Any = OmegaConf.to_container(OmegaConf.create(master.hydra.sweeper.get("params") or {}))
    listed = [*(as_override(str(k), v) for k, v in params.items()), *master.hydra.overrides.task]
    last = {parse_override(text).key_or_group: text for text in listed}
    _refuse_unidentified(asked, [key for key, text in last.items() if is_swept(text)])
    # What was typed with a single value is the same in every run of a search.
    typed = frozenset([*master.hydra.overrides.task, *search])
    position = SearchPosition(before, master.hydra.sweeper.get("n_trials") or 0, typed)
    backend, folder = backend_of(backend_name), place_sweep(master, asked)
    folder.mkdir(parents=True, exist_ok=True)  # sweepers write there, even if no run is to do
    launch_jobs(backend, settings, distinct(asked), folder, position=position)
    returns = []
    for job in asked:
        returned, outcome = JobReturn(job.overrides, task_name="repro"), outcome_of(job)
        if outcome.status == "done":
            returned.status, returned.return_value = JobStatus.COMPLETED, monitored(job.folder)
        else:
            error = RunFailedError(f"{outcome.folder}: {outcome.error}")
            returned.status, returned.return_value = JobStatus.FAILED, error
        returns.append(returned)
    return returns


def _refuse_unidentified(asked: Sequence[Job], swept: Sequence[str] = ()) -> None:
    """Refuse several values of what is no part of a run's identity: its runs would be one.

    In a search, whose further batches are unknown, ``swept`` are the keys with several values.
    """
    kept = {job.run_id: job for job in reversed(asked)}
    for job in asked:
        one, settings = kept[job.run_id], unidentified(job.config)
        known = settings.keys() - {"data_dir"}  # its values may hold different corpora
        keys = {key for key in swept if known & {key, key.partition(".")[0]}}
        if settings != unidentified(one.config):
            differing = {*job.overrides} ^ {*one.overrides}
            keys |= {text.partition("=")[0].lstrip("+") for text in differing}
        if keys:
            expected = "is swept, but its runs would be one: name one value"
            raise ConfigError(f"{' and '.join(sorted(keys))} {expected}")


def place_sweep(master: DictConfig, jobs: Sequence[Job]) -> Path:
    """Return the folder of a sweep's own files; unless it was set, put it beside the first run's.

    Hydra derives it from what was typed, but a sweeper sets the folder and scale of runs as well.
    """
    folder = Path(master.hydra.sweep.dir)
    text = OmegaConf.to_container(master.hydra.sweep)["dir"]  # type: ignore[index, call-overload]
    if jobs and str(text).startswith("${sweep_dir:"):
        folder = jobs[0].folder.path.parents[1] / "sweeps" / folder.name
        with read_write(master):
            master.hydra.sweep.dir = str(folder)
    return folder


def backend_of(name: str) -> Backend:
    """Return the backend of a launcher of the suite."""
    found: Backend = import_module(f"repro.runs.{name}").BACKEND
    return found


def launch_jobs(
    backend: Backend,
    settings: Mapping[str, Any],
    jobs: Sequence[Job],
    folder: Path | None,
    checked: Callable[[], object] = lambda: None,
    position: SearchPosition = _ALONE,
) -> None:
    """Check all runs, at least one, then execute them while the display shows them.

    Args:
        backend: backend of the launcher.
        settings: settings of the launcher.
        jobs: different runs.
        folder: folder of the sweep's own files; ``None`` for a single run.
        checked: called when no run is refused, before the first one starts.
        position: place of the runs in a search, whose batches may share values by chance.

    Raises:
        ConfigError: CUDA is requested but not available; nothing has been started.
        DataError: a corpus is malformed.
    """
    _check(jobs, backend.remote)
    checked()
    labels = labels_of(jobs, position.shared)
    lock: AbstractContextManager[None] = nullcontext()
    if folder is not None and any(job.folder.status != "done" for job in jobs):
        # For `repro status` and for the next rounds of the sweep.
        kept = read_sweep(folder)
        if kept["command"] != command_line() and not _continues(folder):  # of another sweep
            kept |= {"command": command_line(), "runs": {}}
        for run_id, label in labels.items():
            # The labels of the whole sweep are more specific, so keep them.
            kept["runs"].setdefault(run_id, label)
        atomic_write_json(folder / "sweep.json", kept)
        lock = run_lock(folder, lambda _: None)  # a detached sweep may still be about to end
    states = [RunState(job.folder, labels[job.run_id]) for job in jobs]
    with lock, SweepDisplay(states, position.before, position.total) as display:
        backend.run(Batch(jobs, settings, folder or Path(), display))


def _continues(folder: Path) -> bool:
    """Return whether this command continues the sweep of a folder, which left it to a job."""
    return os.environ.get(CONTINUED) == str(folder)


def run_single(job: Job) -> Outcome:
    """Check one run and execute it in this process; raise as :func:`launch_jobs` does."""
    _check([job])
    with SweepDisplay([RunState(job.folder, " ".join(job.typed))]) as display:
        return execute(job, lambda busy: display.note("waiting", job.run_id, str(busy)))


def _check(jobs: Sequence[Job], remote: bool = False) -> None:
    """Refuse runs that cannot start, before the first one does, and forget earlier failures."""
    jobs = [job for job in jobs if job.folder.status != "done"]
    if not jobs:
        return
    from repro.runs.device import choose_device, warn_of_precision  # imports PyTorch
    from repro.runs.train import check

    if not remote:
        for job in jobs:
            choose_device(job.config.hardware)
        warn_of_precision(job.config for job in jobs)
    for job in jobs:
        check(job)
    for job in jobs:
        if job.folder.status == "failed" and not is_claimed(job.folder.path):
            job.folder.forget_failure()


def further_folders(hydra: Any) -> list[str]:
    """Return the ``hydra.searchpath`` overrides of Hydra's own configuration."""
    typed: Any = OmegaConf.to_container(hydra.overrides.hydra)  # as typed, with interpolations
    return [*filter(is_search_path, typed)]


def _is_foreign(hydra: Any) -> bool:
    """Return whether the launcher that is chosen is one of another package."""
    return not str(hydra.launcher.get("_target_")).startswith("hydra_plugins.repro_plugins.")


def _refuse_idle(sweeper: Any, foreign_launcher: bool) -> None:
    """Refuse settings of a sweeper without effect: some of its ``params``, several directions.

    Settings of Hydra that a sweep reads are read before the ``params`` are.
    """
    params = sweeper.get("params")
    plain: Any = OmegaConf.to_container(params) if OmegaConf.is_dict(params) else {}
    for name, value in plain.items():
        key = str(name).lstrip("+")
        if not re.match("hydra[./]", key):
            continue
        why = why_unread(key, "a sweep", foreign_launcher)
        if why_unread(key, "a sweep") is None:  # it is read, but before
            why = f"has no effect; type {as_override(key, value)}"
        if why:
            raise ConfigError(f"hydra.sweeper.params: {key} {why}")
    if "direction" in sweeper and str(sweeper.direction) not in ("maximize", "['maximize']"):
        found = str(sweeper.direction).rpartition(".")[2]  # a default is a member of an enumeration
        expected = "a run returns one value, the larger the better; expected maximize"
        raise ConfigError(f"hydra.sweeper.direction is {found}; {expected}")


def multirun(overrides: Sequence[str]) -> Any:
    """Run a sweep of Hydra; return what its sweeper returns.

    Raises:
        ConfigError: an override is refused.
    """
    typed = [one for one in overrides if not is_hydras(one)]
    with sweep_application(overrides) as (loader, master):
        foreign = _is_foreign(master.hydra)
        refuse_unread(overrides, "a sweep", foreign)
        _refuse_idle(master.hydra.sweeper, foreign)
        if master.hydra.runtime.choices["hydra/sweeper"] != "grid":
            typed = [*map(with_text, typed)]  # other sweepers read texts as numbers
        # As Hydra's own `multirun`, which would compose all values with the first choices.
        master.hydra.overrides.task = typed
        configure_log(master.hydra.hydra_logging, master.hydra.verbose)
        callbacks = Callbacks(master)
        callbacks.on_multirun_start(config=master, config_name="config")
        sweeper = Plugins.instance().instantiate_sweeper(
            config=master, hydra_context=HydraContext(loader, callbacks), task_function=run_task
        )
        returned = sweeper.sweep(arguments=typed)
        callbacks.on_multirun_end(config=master, config_name="config")
        return returned


@contextmanager
def launcher_of(
    overrides: Sequence[str], planned: bool = False
) -> Iterator[tuple[Launcher, DictConfig]]:
    """Yield the launcher that overrides choose, and the configuration of a sweep with it.

    The runs of artefacts need neither a sweeper nor a search path, which would change no run. Where
    they are only ``planned``, the launcher may need a package that is not installed.

    Raises:
        ConfigError: an override is refused.
    """
    listed = [*overrides, *["hydra.sweeper.dry_run=true"] * planned]
    with sweep_application(listed) as (loader, master):
        refuse_unread(overrides, "an artefact", _is_foreign(master.hydra))
        yield (
            Plugins.instance().instantiate_launcher(
                hydra_context=HydraContext(loader, Callbacks()),
                task_function=run_task,
                config=master,
            ),
            master,
        )


def run_task(_: DictConfig) -> float:
    """Execute one run; launchers of other packages call this as the Hydra application.

    The run is composed anew: Hydra itself reads a text that looks like a number as a number.

    Returns:
        The monitored metric of the run's model; larger is better.

    Raises:
        RunFailedError: the run failed.
    """
    hydra = HydraConfig.get()
    (job,) = prepare_jobs([[*hydra.overrides.task, *further_folders(hydra)]])
    outcome = execute(job, announce)
    if outcome.status == "failed":
        raise RunFailedError(f"{outcome.folder}: {outcome.error}")
    return monitored(RunFolder(outcome.folder))


def sweep_grid(
    overrides: Sequence[str],
    launcher: Launcher,
    master: DictConfig,
    loader: ConfigLoader,
    dry_run: bool,
) -> list[Outcome]:
    """Run every combination of the swept values, through any launcher of Hydra.

    Returns:
        One outcome for each run; none with ``dry_run``, which only lists them.

    Raises:
        ConfigError: a run is refused, or several differ in what is no part of their identity.
    """
    folders = further_folders(master.hydra)
    asked = prepare_jobs(combinations([*overrides, *folders], loader), sweep=True)
    jobs, sweeps = distinct(asked), sweeps_of(asked)
    _refuse_unidentified(asked)
    if dry_run:
        print_plan(jobs, combined=len(asked))
        return []
    outcomes = run_jobs(jobs, launcher, master, lambda: record_sweeps(sweeps))
    list_artefacts(outcomes)
    return outcomes


def run_jobs(
    jobs: Sequence[Job],
    launcher: Launcher,
    master: DictConfig,
    checked: Callable[[], object] = lambda: None,
) -> list[Outcome]:
    """Hand different runs to a launcher of Hydra and read from their folders how they ended.

    A run that failed in an earlier round is not started again by the job of a detached sweep that
    continues it. One whose folder was removed after it was done, meanwhile, is done. ``checked`` is
    that of :func:`launch_jobs`.
    """
    folder = place_sweep(master, jobs)
    before = {job.run_id for job in jobs if job.folder.status == "done"}
    # Records outlive folders: that of a run which is to be done again does not say that it was.
    earlier = {job.run_id: current_record(job.folder) for job in jobs if job.run_id not in before}
    attempted = read_sweep(folder)["runs"] if _continues(folder) else {}
    chosen = [job for job in jobs if job.run_id not in attempted or job.folder.status != "failed"]
    if isinstance(launcher, OwnLauncher):
        backend, settings = backend_of(launcher.backend), launcher.settings
    else:  # other launchers show nothing, and add the search path to each run
        further = further_folders(master.hydra)
        place = f"hydra.sweep.dir={in_quotes(str(folder))}"
        asked = [[*(i for i in job.overrides if i not in further), place] for job in chosen]
        backend, settings = Backend(lambda _: launcher.launch(asked, 0), remote=True), {}
    if chosen:
        launch_jobs(backend, settings, chosen, folder, checked)
    outcomes, labels = [], labels_of(jobs)
    for job in (replace(job, label=labels[job.run_id]) for job in jobs):
        outcome = outcome_of(job, job.run_id in before)
        record = current_record(job.folder) if job.folder.status == "absent" else None
        if record is not None and record != earlier.get(job.run_id):
            outcome = job.outcome("skipped" if job.run_id in before else "done")
        outcomes.append(outcome)
    if settings.get("detach", False):
        return outcomes
    # A run that ended without a word, for example on a full disk, could not mark its folder.
    return [replace(one, status="failed") if one.status == "open" else one for one in outcomes]


def outcome_of(job: Job, was_done: bool = False) -> Outcome:
    """Read the outcome of a run from its folder."""
    if job.folder.status == "done":
        return job.outcome("skipped" if was_done else "done")
    if job.folder.status == "failed":
        return job.outcome("failed", job.folder.error)
    return job.outcome("open", "the run did not finish")
