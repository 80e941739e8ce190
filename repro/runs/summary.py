"""Labels, plans, failures and sweeps of the runs of a command, and the artefacts that they fill."""

import shlex
import sys
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from repro.config.errors import ConfigError
from repro.config.overrides import effective, is_search_path
from repro.config.paths import default_results_dir, extension_dirs
from repro.errors import say
from repro.results import Archive, RunFolder
from repro.results.labels import counted
from repro.results.store import result_of
from repro.results.sweeps import Sweep, refuse_other_runs, swept, write_sweep
from repro.runs.job import Job, Outcome
from repro.runs.locking import run_state


def labels_of(jobs: Sequence[Job], shared: frozenset[str] | None = None) -> dict[str, str]:
    """Map identities of different runs to labels: the overrides that not all of them share.

    A run of an artefact is named by its cell.
    """
    every = [effective(job.typed) for job in jobs]
    if shared is None:
        shared = frozenset(every[0]).intersection(*every) if len(every) > 1 else frozenset()
    return {
        job.run_id: job.label or " ".join(item for item in typed if item not in shared)
        for job, typed in zip(jobs, every, strict=True)
    }


def print_plan(jobs: Sequence[Job], recorded: int | None = None, combined: int = 0) -> None:
    """Print runs with their statuses, and how many are done.

    Those of a sweep are all its runs; the number of combinations of values, ``combined``, is named
    if several give one run. Those of artefacts are to be done, beside others that are ``recorded``:
    one that is done lacks files that something needs, and is queued again.

    Raises:
        ConfigError: the name of a choice does not exist.
    """
    further = any(is_search_path(item) for job in jobs for item in job.overrides)
    if further or extension_dirs():  # the package's own names need no check
        from repro.tasks.instantiate import check_choices  # imports PyTorch

        for job in jobs:
            check_choices(job.config)
    labels, queued = labels_of(jobs), ("absent",) if recorded is None else ("absent", "done")
    states = [run_state(job.folder) for job in jobs]
    statuses = ["queued" if state in queued else state for state in states]
    for job, status in zip(jobs, statuses, strict=True):
        print(f"{job.run_id}  {status:11}  {labels[job.run_id]}")
    several = f"{counted(combined, 'combination')}, " if combined > len(jobs) else ""
    if recorded is None:
        print(f"{several}{counted(len(jobs), 'run')}, {statuses.count('done')} of them done")
    else:
        print(f"{counted(len(jobs), 'run')} to do, {recorded} done")


def print_failures(outcomes: Sequence[Outcome], report: Path | None = None) -> int:
    """Print the failed runs, if any, without wrapping lines; return their number.

    The last line names the report that marks them, if there is one.
    """
    failed = [outcome for outcome in outcomes if outcome.status == "failed"]
    lines = [f"{len(failed)} of {len(outcomes)} runs failed"] if failed else []
    for outcome in failed:
        trace = outcome.folder / "traceback.txt"
        lines += [f"{outcome.run_id}  {outcome.label}", f"    {outcome.error}"]
        lines += [f"    {trace}"] if trace.exists() else []
    if failed and report is not None:
        lines.append(f"{len(failed)} failed runs are marked in {report}")
    for line in lines:
        print(line, file=sys.stderr)
    return len(failed)


def sweeps_of(jobs: Sequence[Job]) -> list[tuple[Path, Sweep]]:
    """Describe a multirun as sweeps, one per scale, each with the folder of its results.

    Raises:
        ConfigError: the runs have several folders of results, or several names.
        ResultsError: an earlier sweep has the given name and other runs.
    """
    found, folders = [], [*dict.fromkeys(str(job.config.results_path) for job in jobs)]
    if len(folders) > 1:
        raise ConfigError(f"results_dir is {' and '.join(folders[:2])}; a sweep has one folder")
    names = [*dict.fromkeys(job.config.name or "null" for job in jobs)]
    if len(names) > 1:  # files that are swept have set them
        expected = "a sweep has one; set name= on the command line"
        raise ConfigError(f"name is {' and '.join(names[:2])}; {expected}")
    for scale in dict.fromkeys(job.config.scale.name for job in jobs):
        mine = [job for job in jobs if job.config.scale.name == scale]
        config = mine[0].config
        overrides, run_ids = [job.overrides for job in mine], [job.run_id for job in mine]
        sweep = swept(overrides, run_ids, scale, config.name)
        if config.name is not None:
            refuse_other_runs(config.results_path, sweep)
        found.append((config.results_path, sweep))
    return found


def record_sweeps(sweeps: Sequence[tuple[Path, Sweep]]) -> None:
    """Write which runs each sweep consists of, for reports."""
    for results_dir, sweep in sweeps:
        write_sweep(results_dir, sweep)
        name = sweep.name
        folder = f" results_dir={shlex.quote(str(results_dir))}"
        where = "" if results_dir.resolve() == default_results_dir().resolve() else folder
        say(f"sweep {name}, shown by: repro report scale={sweep.scale}{where} --sweep {name}")


def list_artefacts(outcomes: Sequence[Outcome]) -> None:
    """Print the artefacts whose cells the finished runs fill, with the number of runs.

    A malformed experiment file is named, but is no failure of the runs, which need none.
    """
    archive_of, found, problems = cache(Archive), Counter[str](), dict[str, None]()
    for outcome in outcomes:
        if outcome.status in ("done", "skipped"):
            scale = outcome.folder.parents[1]
            archive = archive_of(scale.parent, scale.name)
            try:
                found.update(archive.artefacts_of(result_of(RunFolder(outcome.folder))))
            except (ConfigError, OSError) as error:
                problems[str(error)] = None
    for name, count in found.items():
        say(f"fills cells of {name} ({counted(count, 'run')})")
    for problem in problems:
        say(f"the cells that the runs fill are not listed: {problem}")
