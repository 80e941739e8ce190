"""Selection of the records of a tuned experiment that have the value chosen on validation data."""

from collections import defaultdict
from collections.abc import Sequence

from repro.config.experiment import Experiment
from repro.evaluation.tuning import best_value
from repro.results import Measurement

Cell = tuple[str, str]


def chosen_records(
    experiment: Experiment, records: Sequence[Measurement], scale: str
) -> list[Measurement]:
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

    def counts(record: Measurement) -> bool:
        if experiment.tuning_of(record.row) is None:
            return True
        return record.tuned is not None and record.tuned == chosen.get(_cell(record))

    return [record for record in records if counts(record)]


def tuning_values(
    experiment: Experiment, records: Sequence[Measurement], scale: str
) -> dict[Cell, dict[float, float]]:
    """The tuning metric of the first seed, by row and column and by value of the setting."""
    assert experiment.tune is not None
    found: dict[Cell, dict[float, float]] = defaultdict(dict)
    for record in records:
        first = record.seed == experiment.seeds_at(scale, record.column)[0]
        if first and record.metric == experiment.tune.metric and record.tuned is not None:
            found[_cell(record)][record.tuned] = record.value
    return dict(found)


def _cell(record: Measurement) -> Cell:
    return record.row, record.column
