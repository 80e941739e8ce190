"""Which records of a tuned experiment count: those of the value chosen on validation data."""

from collections import defaultdict
from collections.abc import Sequence

from repro.config.experiment import Experiment
from repro.evaluation.tuning import TUNED_VALUE, best_value
from repro.results import Record

Cell = tuple[str, str]


def chosen_records(experiment: Experiment, records: Sequence[Record], scale: str) -> list[Record]:
    """Records of the value that is best for the first seed, for each row and column.

    Args:
        experiment: all records of rows that are not tuned are chosen.
        records: of the experiment at this scale, in any order.
        scale: says the first seed.
    """
    tune = experiment.tune
    if tune is None:
        return list(records)
    measured = tuning_values(experiment, records, scale)
    chosen = {cell: best_value(found, tune.metric) for cell, found in measured.items()}
    values = _value_of_runs(records)

    def counts(record: Record) -> bool:
        if experiment.tuning_of(record.row) is None:
            return True
        value = values.get(_run(record))
        return value is not None and value == chosen.get(_cell(record))

    return [record for record in records if counts(record)]


def tuning_values(
    experiment: Experiment, records: Sequence[Record], scale: str
) -> dict[Cell, dict[float, float]]:
    """The tuning metric of the first seed, by row and column and by value of the setting."""
    assert experiment.tune is not None
    values = _value_of_runs(records)
    found: dict[Cell, dict[float, float]] = defaultdict(dict)
    for record in records:
        tuned = record.metric == experiment.tune.metric and _run(record) in values
        if tuned and record.seed == experiment.seeds_at(scale, record.column)[0]:
            found[_cell(record)][values[_run(record)]] = record.value
    return dict(found)


def _value_of_runs(records: Sequence[Record]) -> dict[tuple[str, str, str], float]:
    return {_run(record): record.value for record in records if record.metric == TUNED_VALUE}


def _run(record: Record) -> tuple[str, str, str]:
    return record.row, record.column, record.run_id


def _cell(record: Record) -> Cell:
    return record.row, record.column
