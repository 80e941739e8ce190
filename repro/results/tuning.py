"""Planning of the next runs of a tuned setting: a wider grid, or the other seeds."""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from repro.config.experiment import Experiment, Tuning
from repro.config.planning import PlannedRun
from repro.evaluation.tuning import best_value

Measure = Callable[[PlannedRun], float | None]
"""The tuning metric of a run; ``None`` if the run is not done."""


def following_runs(
    experiment: Experiment, scale: str, planned: Sequence[PlannedRun], measure: Measure
) -> list[PlannedRun]:
    """Runs that the outcomes so far ask for; none once every cell is tuned and complete.

    Runs that failed or are not done take no part in the choice.

    Args:
        experiment: what is reproduced; without tuning there is nothing to follow.
        scale: says the seeds and the grid.
        planned: every run that was asked for so far, cell by cell.
        measure: the tuning metric of a run.
    """
    found: list[PlannedRun] = []
    cells = sorted(planned, key=lambda run: (run.row, run.column))
    for (row, column), runs in groupby(cells, key=lambda run: (run.row, run.column)):
        if (tune := experiment.tuning_of(row)) is None:
            continue
        seeds = experiment.seeds_at(scale, column)
        grid = experiment.grid_at(scale, column)
        most = len(grid) + experiment.max_extra_values(scale) if len(grid) > 1 else 1
        found += _following_of_cell(tune, most, seeds, [*runs], measure)
    return found


def _following_of_cell(
    tune: Tuning,
    most: int,
    seeds: Sequence[int],
    planned: Sequence[PlannedRun],
    measure: Measure,
) -> Iterator[PlannedRun]:
    tried = {run.value: run for run in planned if run.seed == seeds[0] and run.value is not None}
    measured = {value: score for value, run in tried.items() if (score := measure(run)) is not None}
    if not measured:
        return
    best = best_value(measured, tune.metric)
    wider = _beyond(tune, best, list(tried)) if len(tried) < most else None
    if wider is not None:
        yield tried[best].repeated(value=wider)
        return
    done = {(run.seed, run.value) for run in planned}
    yield from (tried[best].repeated(seed=s) for s in seeds if (s, best) not in done)


def _beyond(tune: Tuning, best: float, tried: Sequence[float]) -> float | None:
    """The value behind the end of the grid where the best one lies; None if it lies inside."""
    if tune.grid_factor is None:
        return None
    if best == max(tried):
        return best * tune.grid_factor
    return best / tune.grid_factor if best == min(tried) else None
