"""Plan of a reproduction: runs to do and done, time, disk space and missing data."""

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from statistics import median
from typing import Any

from repro.config.compose import compose_run
from repro.config.identity import flattened, settings, training_id
from repro.config.overrides import is_hydras
from repro.config.planning import (
    EVERY_CELL,
    Cells,
    Plan,
    naming_rows,
    plan_of,
    refuse_namesakes,
)
from repro.config.schema import HardwareConfig, RunConfig
from repro.errors import DataError, UserError
from repro.results import Archive, Record, RunFolder, list_runs, runs_dir
from repro.results.labels import counted
from repro.runs.environment import may_have_gpu, processor
from repro.runs.job import corpus_at_hand
from repro.runs.launch import launcher_of
from repro.runs.work import Work
from repro.tasks import task_spec
from repro.version import NUMERIC_EPOCH

LEAST_MINUTES = {
    "morphology": 5.9, "nmt": 15.5, "summarization": 12.1, "nli_alignment": 4.4, "snli": 1.0,
    "parsing": 0.9,
}  # fmt: skip
"""Median minutes of a run at small scale on one thread of a CPU (docs/costs.md), by task: a lower
bound at full scale."""


_EXTENT = ("training.max_epochs", "training.max_steps", "task.languages")
"""Settings that decide how long a run takes: one with others is no basis for an estimate."""


@dataclass(frozen=True)
class ArtefactPlan:
    """Runs of an artefact, done and to do."""

    name: str  # <paper>/<artefact>
    done: int  # number of its runs that are recorded
    todo: tuple[RunConfig, ...]  # the others
    reasons: Counter[str]  # why they are to do, with the number of runs
    tunes: bool  # whether some of those to do decide on further runs


@dataclass(frozen=True)
class Estimate:
    """Estimated cost of some runs."""

    to_do: int  # number of different runs
    trained: int  # number of runs to train; the others take over the weights of another run
    seconds: float  # time of the runs one after the other; a lower bound if some are unknown
    unknown: int  # number of runs that no recorded run resembles
    elsewhere: int  # number of runs that only runs on other processors resemble, whose times count
    bytes: int | None  # disk space of the run folders; None if no folder of such a run exists
    missing: tuple[str, ...]  # for each corpus that was not found, the way to get it


def plan(
    names: Sequence[str],
    scale: str,
    extra: Sequence[str],
    fresh: bool = False,
    cells: Cells = EVERY_CELL,
) -> tuple[list[ArtefactPlan], Estimate]:
    """Plan artefacts, without starting a run or generating a corpus.

    ``extra`` are further overrides, of which those of a launcher change no run; with ``fresh``,
    runs of earlier versions count as to be done. ``cells`` are those whose runs count.

    Returns:
        The artefacts, and an estimate of all runs to do; a run that several need counts once.

    Raises:
        ConfigError: no such artefact, scale, row or column, or a setting is refused.
    """
    hydras = [item for item in extra if is_hydras(item)]
    extra = [item for item in extra if item not in hydras]
    work = Work(names, scale, extra, cells)
    if hydras:
        with launcher_of([f"scale={scale}", *hydras], planned=True):
            pass  # refuses settings that `repro reproduce` refuses

    @cache  # artefacts share runs
    def composed(overrides: tuple[str, ...]) -> RunConfig:
        with naming_rows(work.runs, extra):
            return compose_run([*overrides, *extra])

    archive, any_run = work.archive(fresh), work.archive(any_corpus=True)
    work.find(archive, cache(lambda path: RunFolder(path).status == "done"))
    plans, every, lacking = list[ArtefactPlan](), dict[str, RunConfig](), list[tuple[str, Plan]]()
    for experiment in work.experiments:
        runs = work.plans[experiment.name]
        done, todo, reasons = set[str](), dict[str, RunConfig](), dict[str, str]()
        again = set[str]()  # what one cell needs again, another one may have
        recorded = archive.find_all(runs)
        for run in runs:
            if (found := work.found[run]) is not None:
                done.add(found.run_id)
                continue
            config = composed(run.overrides)
            lacking.append((run.label, plan_of(config)))
            key = str(settings(config))
            todo[key], reasons[key] = config, "new"
            if (record := recorded[run]) is not None:
                again.add(record.run_id)
                reasons[key] = "without a complete folder"
            elif (other := any_run.find(run)) is not None:
                earlier = fresh and other.epoch != NUMERIC_EPOCH
                reasons[key] = "of an earlier version" if earlier else "of another corpus content"
        number = len(done - again)
        tuned = (run for run in runs if experiment.tuning_of(run.row))
        tunes = any(work.found[run] is None for run in tuned)
        why = Counter(reasons.values())
        plans.append(ArtefactPlan(experiment.name, number, (*todo.values(),), why, tunes))
        every |= todo
    refuse_namesakes(lacking)
    if any(config.precision == "bf16" for config in every.values()):
        from repro.runs.device import warn_of_precision  # imports PyTorch

        warn_of_precision(every.values())
    return plans, _estimate(list(every.values()), archive)


def _estimate(todo: Sequence[RunConfig], archive: Archive) -> Estimate:
    corpora, missing, trainings = dict[str, str](), dict[str, None](), list[str]()
    for config in todo:
        corpus = plan_of(config).corpus
        if corpus not in corpora:  # each is looked for once
            corpora[corpus] = ""
            try:
                corpora[corpus] = corpus_at_hand(config) or ""
            except DataError as error:
                missing[str(error)] = None
        unread = task_spec(config.task.name).unread_in_training
        trainings.append(training_id(config, corpora[corpus], unread))
    trained = set[str]()  # those whose weights exist
    for folder in list_runs(archive.results_dir, archive.scale) if todo else ():
        with suppress(UserError):  # damaged
            if folder.model.exists():
                trained.add(folder.read_training().get("training", ""))
    new = {*trainings} - trained
    runs = [one for one in archive.records if one.kind == "run"]
    seconds, unknown, elsewhere = 0.0, 0, 0
    for config, training in zip(todo, trainings, strict=True):
        if (similar := _time_of_similar(config, runs)) is not None:
            time, here = similar
            seconds += time
            elsewhere += not here
        else:
            unknown += 1
            if archive.scale != "demo" and training in new:
                seconds += 60 * LEAST_MINUTES.get(config.task.name, 0)
    return Estimate(
        to_do=len(todo),
        trained=len(new),
        seconds=seconds,
        unknown=unknown,
        elsewhere=elsewhere,
        bytes=_disk_space(todo, archive),
        missing=tuple(missing),
    )


def _time_of_similar(config: RunConfig, runs: Iterable[Record]) -> tuple[float, bool] | None:
    """Return the median time of the runs that share most settings with a run to do.

    Returns:
        Seconds, and whether this device computed those runs. Only if it computed none of the task
        do those of other processors count; None if there are none either.
    """
    device, mine = _device(config.hardware), flattened(settings(config))
    found = dict[tuple[bool, int], list[float]]()
    for run in runs:
        other, its_device = run.settings, _kind_and_model(run.device)
        near = device[0] == its_device[0] == "cpu"
        as_long = all(other.get(key) == mine.get(key) for key in ("task.name", *_EXTENT))
        if (its_device == device or near) and as_long:
            equal = sum(other.get(key) == mine[key] for key in mine if key != "seed")
            found.setdefault((its_device == device, equal), []).append(run.wall_time)
    if not found:
        return None
    most = max(found)
    return median(found[most]), most[0]


def _device(hardware: HardwareConfig) -> tuple[str, str]:
    """Return kind and model of the device that computes runs."""
    if hardware.device == "cpu" or not may_have_gpu():
        return "cpu", processor()
    from repro.runs.device import choose_device, describe_device  # imports PyTorch

    return _kind_and_model(describe_device(choose_device(hardware)))


def _kind_and_model(device: str) -> tuple[str, str]:
    """Parse the ``device`` of a record, such as ``cpu (AMD EPYC, threads: 1, AVX512)``."""
    kind, _, described = device.partition(", training: ")[0].partition(" (")
    return kind, described.partition(", threads:")[0].removesuffix(")")


def _disk_space(todo: Sequence[RunConfig], archive: Archive) -> int | None:
    """Add up the median sizes of run folders of each task; None if one has no folder."""
    root, sizes = runs_dir(archive.results_dir, archive.scale), dict[str, list[int]]()
    for record in archive.records if todo else ():
        files = [path for path in (root / record.run_id).rglob("*") if path.is_file()]
        if files:
            task = record.settings["task.name"]
            sizes.setdefault(task, []).append(sum(path.stat().st_size for path in files))
    if any(config.task.name not in sizes for config in todo):
        return None
    return round(sum(median(sizes[config.task.name]) for config in todo))


def described(plans: Sequence[ArtefactPlan], estimate: Estimate) -> dict[str, Any]:
    """Return the result of :func:`plan` as values for JSON."""
    artefacts = [
        {
            "name": p.name,
            "done": p.done,
            "to_do": len(p.todo),
            "reasons": p.reasons,
            "tunes": p.tunes,
        }
        for p in plans
    ]
    return {"artefacts": artefacts, **vars(estimate)}


def print_plan(plans: Sequence[ArtefactPlan], estimate: Estimate) -> None:
    """Print the result of :func:`plan`."""
    for one in plans:
        why = ", ".join(f"{number} {reason}" for reason, number in one.reasons.items())
        total = one.done + len(one.todo)
        left = f", {len(one.todo)} to do: {why}" if one.todo else ""
        left += "; tuning may add more" if one.tunes else ""
        runs = f"{total:4} runs: {one.done} done{left}" if total else "needs no run"
        print(f"{one.name:26} {runs}")
    todo, hours = estimate.to_do, estimate.seconds / 3600
    time = f"{hours:.1f} hours" if hours >= 2 else f"{60 * hours:.0f} minutes"  # one after another
    if estimate.unknown:
        least = f", at least {time} on one CPU thread" if estimate.seconds else ""
        time = f"unknown for {estimate.unknown} without a similar run{least}"
    if estimate.elsewhere:
        time += f" ({estimate.elsewhere} of them by runs on another processor)"
    size = estimate.bytes
    space = "unknown" if size is None else f"{size / 2**20:.0f} MiB"
    print(
        f"{counted(todo, 'run')} to do, shared ones counted once: {estimate.trained} to train, "
        f"{todo - estimate.trained} only to evaluate\n"
        f"time, one run after another: {time}\ndisk: {space}"
    )
    for text in estimate.missing:
        print(f"missing: {text}")
