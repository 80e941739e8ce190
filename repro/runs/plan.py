"""Plan of a reproduction: runs to do and done, time, disk space and missing data."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from repro.config.compose import compose_run
from repro.config.experiment import load_experiment
from repro.config.identity import flattened, settings
from repro.config.planning import plan_runs
from repro.config.schema import RunConfig
from repro.data.errors import DataError
from repro.results import Archive, runs_dir
from repro.runs.environment import choose_device, describe_device
from repro.tasks import task_spec


@dataclass(frozen=True)
class ArtefactPlan:
    """Runs of an artefact, done and to do.

    Attributes:
        name: ``<paper>/<artefact>``.
        done: number of its runs that are recorded.
        todo: configurations of the others; those that a tuned setting may add are not known yet.
    """

    name: str
    done: int
    todo: tuple[RunConfig, ...]


@dataclass(frozen=True)
class Estimate:
    """Estimated cost of some runs.

    Attributes:
        seconds: time of the runs one after the other, without those in ``unknown``.
        unknown: number of runs that no recorded run resembles.
        bytes: disk space of the run folders; None if no folder of such a run exists.
        missing: one message for each corpus that was not found, with the way to get it.
    """

    seconds: float
    unknown: int
    bytes: int | None
    missing: tuple[str, ...]


def plan(
    names: Sequence[str], scale: str, extra: Sequence[str], fresh: bool = False
) -> tuple[list[ArtefactPlan], Estimate]:
    """Plan artefacts, without starting a run or writing a file.

    Args:
        names: artefacts, each as ``<paper>/<artefact>``.
        scale: scale of the runs.
        extra: further overrides.
        fresh: count runs of earlier versions as to be done.

    Returns:
        The artefacts, and an estimate of all runs to do; a run that several need counts once.

    Raises:
        ConfigError: no such artefact or scale, or a setting is refused.
    """
    archive: Archive | None = None
    plans, every = [], dict[str, RunConfig]()
    for name in names:
        runs = list(dict.fromkeys(plan_runs(load_experiment(name), scale)))
        configs = {run: compose_run([*run.overrides, *extra]) for run in runs}
        if archive is None and configs:
            root = next(iter(configs.values())).results_path
            archive = Archive(root, scale, dict.fromkeys(names, extra), fresh)
        todo = {
            str(settings(config)): config
            for run, config in configs.items()
            if archive is not None and archive.find(run) is None
        }
        total = len({str(settings(config)) for config in configs.values()})
        plans.append(ArtefactPlan(name, total - len(todo), tuple(todo.values())))
        every |= todo
    return plans, _estimate(list(every.values()), archive)


def _estimate(todo: Sequence[RunConfig], archive: Archive | None) -> Estimate:
    # Time: the median over runs on this kind of device that share most settings with each run.
    known = list[float]()
    runs = [] if archive is None else [one for one in archive.records if one.kind == "run"]
    for config in todo:
        device = _model(describe_device(choose_device(config.hardware)))
        mine, alike = flattened(settings(config)), dict[int, list[float]]()
        for run in runs:
            other = run.settings
            if _model(run.device) == device and other["task.name"] == mine["task.name"]:
                equal = sum(other.get(key) == mine[key] for key in mine if key != "seed")
                alike.setdefault(equal, []).append(run.wall_time)
        if alike:
            known.append(median(alike[max(alike)]))
    # Disk space: the median size of the run folders of each task.
    size = None
    if archive is not None and todo:
        root, sizes = runs_dir(archive.results_dir, archive.scale), dict[str, list[int]]()
        for record in archive.records:
            files = [path for path in (root / record.run_id).rglob("*") if path.is_file()]
            if files:
                task = record.settings["task.name"]
                sizes.setdefault(task, []).append(sum(path.stat().st_size for path in files))
        if all(config.task.name in sizes for config in todo):
            size = round(sum(median(sizes[config.task.name]) for config in todo))
    # Each corpus is looked for once.
    missing: dict[str, str] = {}
    for config in todo:
        corpus = f"{config.task.name} {config.data}"
        if corpus not in missing:
            try:
                task_spec(config.task.name).identify(config)
                missing[corpus] = ""
            except DataError as error:
                missing[corpus] = str(error)
    messages = tuple(dict.fromkeys(text for text in missing.values() if text))
    return Estimate(sum(known), len(todo) - len(known), size, messages)


def _model(device: str) -> str:
    return device.partition(", threads")[0]


def print_plan(plans: Sequence[ArtefactPlan], estimate: Estimate) -> None:
    """Print the result of :func:`plan`."""
    for one in plans:
        print(f"{one.name:26} {len(one.todo):5} runs to do, {one.done} done")
    todo = len({str(settings(config)) for one in plans for config in one.todo})
    unknown = f"; {estimate.unknown} without a similar run" if estimate.unknown else ""
    minutes, size = estimate.seconds / 60, estimate.bytes
    space = "disk space unknown" if size is None else f"{size / 2**20:.0f} MiB of disk"
    print(f"{todo} different runs to do: {minutes:.0f} minutes in turn{unknown}; {space}")
    for text in estimate.missing:
        print(f"missing: {text}")
