"""The Slurm launcher: runs as an array of jobs, submitted by submitit.

A job reads its runs from a file in the folder of the sweep, next to its logs; all of it is on the
file system of the results. A job that approaches its time limit, or that is preempted, writes
checkpoints and is requeued; its runs then continue exactly where they stopped.
"""

import json
import logging
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from repro.config.errors import ConfigError
from repro.config.overrides import in_quotes, parse_override
from repro.results import RunFolder, atomic_write_json
from repro.runs.display import read_sweep
from repro.runs.execute import record_death
from repro.runs.job import Job
from repro.runs.launch import CONTINUED, Backend, Batch, backend_of, launch_jobs, prepare_jobs
from repro.runs.locking import is_claimed
from repro.runs.workers import signals_of_leader

if TYPE_CHECKING:
    import submitit

_KILLED_WITHIN = 900.0
"""Seconds that a preempted job waits to be killed: Slurm does not requeue one that ended itself."""


def run_on_slurm(batch: Batch) -> None:
    """Submit the runs that are not done, and wait for them unless the launcher detaches.

    Ctrl-C cancels the jobs, or leaves them with ``cancel: false``.
    """
    submitted = read_sweep(batch.folder)["jobs"]  # jobs of a detached sweep that continues
    with suppress(OSError):
        queued = queue(submitted)
        _record_deaths(batch, {name: submitted[name] for name in submitted.keys() - queued.keys()})
    # Each job of the array takes `runs_per_job` groups; runs of one training form one group.
    ended = {job.run_id for job in batch.jobs if job.folder.status in ("done", "failed")}
    left = ([job for job in group if job.run_id not in ended] for group in batch.by_training())
    groups = [group for group in left if group]
    size = batch.settings["runs_per_job"]
    chunks = [groups[start : start + size] for start in range(0, len(groups), size)]
    elements = [[job for group in chunk for job in group] for chunk in chunks]
    if not elements:
        return
    arrays = sorted(batch.folder.glob("array-*.json"))
    file = batch.folder / f"array-{len(arrays)}.json"
    asked = [[(str(job.folder.path), job.overrides) for job in element] for element in elements]
    atomic_write_json(file, asked)
    settings = dict(batch.settings)
    executor = _executor(batch.folder, "repro", settings)
    arguments = ([str(file)] * len(elements), range(len(elements)), [settings] * len(elements))
    with _submission():
        ids = [job.job_id for job in executor.map_array(_work, *arguments)]
    new = {name: [job.run_id for job in jobs] for name, jobs in zip(ids, elements, strict=True)}
    kept = read_sweep(batch.folder)
    atomic_write_json(batch.folder / "sweep.json", kept | {"jobs": kept["jobs"] | new})
    named = ids[0] if len(ids) == 1 else f"{ids[0]} to {ids[-1]}"
    batch.display.print(f"submitted {named}; logs: {batch.folder}/logs")
    if settings["detach"]:
        if settings["report"]:
            # A job that repeats this command when the others have ended: it finds their runs done
            # or failed, and starts the next round or writes the report.
            import submitit

            executor = _executor(batch.folder, "repro-report", settings | {"gpus_per_job": 0})
            executor.update_parameters(
                dependency=f"afterany:{ids[0].partition('_')[0]}",
                use_srun=False,  # a step of srun could not submit the jobs of another round
            )
            again = [sys.executable, "-m", "repro", *sys.argv[1:]]
            folder = f"hydra.sweep.dir={in_quotes(str(batch.folder))}"
            command = ["env", f"{CONTINUED}={batch.folder}", *again, folder]
            with _submission():
                executor.submit(submitit.helpers.CommandFunction(command))
        return
    try:
        _wait(batch, new)
    except KeyboardInterrupt:
        if not settings["cancel"]:
            raise KeyboardInterrupt("the jobs go on; `repro status` shows them") from None
        _slurm("scancel", *ids)
        raise KeyboardInterrupt("the jobs are canceled; the same command continues") from None


BACKEND = Backend(run_on_slurm, remote=True)


def queue(ids: Collection[str]) -> dict[str, str]:
    """Return the states of the jobs that are still in the queue.

    Raises:
        OSError: Slurm does not answer.
    """
    if not ids:
        return {}
    arrays = sorted({name.partition("_")[0] for name in ids})
    command = ["squeue", "-h", "-r", "-o", "%i %T", "-j", ",".join(arrays)]
    asked = subprocess.run(command, capture_output=True, text=True)
    if asked.returncode and "Invalid job id" not in asked.stderr:  # said if all jobs are forgotten
        raise OSError(asked.stderr.strip() or "squeue failed")
    found = dict(line.split() for line in asked.stdout.splitlines())
    return {name: state for name, state in found.items() if name in ids}


def _executor(folder: Path, name: str, settings: dict[str, object]) -> "submitit.SlurmExecutor":
    import submitit

    try:
        executor = submitit.SlurmExecutor(folder / "logs")
    except RuntimeError as error:
        raise ConfigError(
            "hydra/launcher=slurm: Slurm is not available on this machine (no srun)"
        ) from error
    memory = settings["memory_gb"]
    executor.update_parameters(
        job_name=name,
        partition=settings["partition"],
        account=settings["account"],
        qos=settings["qos"],
        time=settings["time"],
        array_parallelism=settings["array_parallelism"],
        cpus_per_task=settings["cpus_per_job"],
        mem=None if memory is None else f"{memory}GB",
        gpus_per_node=settings["gpus_per_job"] or None,
        signal_delay_s=settings["warning_seconds"],
        setup=settings["setup"] or None,
        stderr_to_stdout=True,
        additional_parameters={"requeue": True, **settings["sbatch"]},  # type: ignore[dict-item]
    )
    return executor


@contextmanager
def _submission() -> Iterator[None]:
    """Submit in a clean environment: jobs submitted within a job would inherit its limits."""
    import submitit

    place = os.environ.get("SLURM_CONF")
    try:
        with submitit.helpers.clean_env():
            if place is not None:
                os.environ["SLURM_CONF"] = place
            yield
    except submitit.core.utils.FailedJobError as error:
        raise ConfigError(f"Slurm refuses the jobs: {error}") from error


def _wait(batch: Batch, jobs: Mapping[str, Sequence[str]]) -> None:
    """Wait until every job has left the queue.

    With ``fail_fast``, jobs that have not begun when a run fails are canceled; their runs stay
    without an outcome.
    """
    waiting = dict(jobs)
    while waiting:
        time.sleep(batch.settings["poll_seconds"])
        try:
            queued = queue(waiting)
        except OSError:  # the controller restarts: the jobs go on
            continue
        _record_deaths(batch, {name: waiting.pop(name) for name in waiting.keys() - queued.keys()})
        failed = any(job.folder.status == "failed" for job in batch.jobs)
        pending = [name for name, state in queued.items() if state == "PENDING"]
        if pending and failed and batch.jobs[0].config.fail_fast:
            _slurm("scancel", *pending)
            for name in pending:
                del waiting[name]


def _record_deaths(batch: Batch, ended: Mapping[str, Sequence[str]]) -> None:
    """Mark the runs of jobs that have left the queue as failed if they have no outcome."""
    for name, runs in ended.items():
        for job in (job for job in batch.jobs if job.run_id in runs):
            folder = job.folder
            if folder.status not in ("done", "failed") and not is_claimed(folder.path):
                asked = ["scontrol", "show", "job", name]
                shown = subprocess.run(asked, capture_output=True, text=True).stdout
                facts = dict(item.partition("=")[::2] for item in shown.split())
                state = f" ({facts['JobState']})" if "JobState" in facts else ""
                log = facts.get("StdOut", batch.folder / "logs")
                reason = f"its Slurm job {name} ended{state} without an outcome; log: {log}"
                record_death(job, reason)


def _slurm(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


def _work(file: str, number: int, settings: dict[str, int]) -> None:
    """Execute the runs of one job of the array; the function that the job calls."""
    requeue = False

    def near_the_limit(_number: int, _frame: FrameType | None) -> None:
        nonlocal requeue
        requeue = True
        os.kill(os.getpid(), signal.SIGTERM)

    logging.getLogger("repro").setLevel(logging.INFO)
    signal.signal(signal.SIGUSR2, near_the_limit)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGCONT, signal.SIG_IGN)
    submitted, jobs = json.loads(Path(file).read_bytes())[number], list[Job]()
    composed = prepare_jobs([overrides for _, overrides in submitted])
    for folder, job in zip((RunFolder(Path(path)) for path, _ in submitted), composed, strict=True):
        if job.run_id == folder.run_id:
            jobs.append(job)
        else:  # a file was edited while the job waited in the queue
            reason = f"settings or corpus changed since submission, and would give run {job.run_id}"
            record_death(replace(job, folder=folder), f"{reason}; start it again")
    if not jobs:
        return
    try:
        if settings["gpus_per_job"] > 1:
            # Each run that is not done is trained by one process per GPU.
            launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
            launcher += [f"--nproc-per-node={settings['gpus_per_job']}", "-m", "repro", "run"]
            for job in (job for job in jobs if job.folder.status != "done"):
                # A single run refuses the name of a sweep.
                own = [one for one in job.overrides if parse_override(one).key_or_group != "name"]
                print(shlex.join([*launcher, *own]), flush=True)
                with signals_of_leader():
                    process = subprocess.Popen([*launcher, *own])
                try:
                    process.wait()
                except KeyboardInterrupt:
                    process.terminate()
                    process.wait()
                    raise
        else:
            side_by_side = {"parallel_runs": settings["runs_per_job"]}
            launch_jobs(backend_of("local"), side_by_side, jobs, None)
    except KeyboardInterrupt:
        open_jobs = [job for job in jobs if job.folder.status != "done"]
        restarts = int(os.environ.get("SLURM_RESTART_COUNT", 0))
        if requeue and restarts >= settings["requeues"]:
            for job in open_jobs:
                record_death(job, f"at its time limit after {restarts} restarts")
        elif open_jobs:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)  # the next one ends this process
            if requeue:
                _slurm("scontrol", "requeue", os.environ["SLURM_JOB_ID"])
            time.sleep(_KILLED_WITHIN)
