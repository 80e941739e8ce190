"""Published numbers of every experiment equal a second transcription from the papers."""

import math

import pytest
from published_values import PUBLISHED, Cells

from repro.config.experiment import Experiment, list_experiments, load_experiment


def printed_cells(experiment: Experiment) -> Cells:
    """Every number that an experiment says a paper prints."""
    published = experiment.published
    return {
        (kind, row, column): number
        for kind in ("rows", "deviations", "other_rows")
        for row, numbers in getattr(published, kind).items()
        for column, number in numbers.items()
    }


@pytest.mark.parametrize("name", sorted({*list_experiments(), *PUBLISHED}))
def test_published_numbers_are_those_of_the_paper(name):
    assert printed_cells(load_experiment(name)) == PUBLISHED.get(name, {})


def test_the_transcription_is_complete():
    """The transcription has as many numbers as the tables of each paper, counted in the papers."""
    counts = {name: len(cells) for name, cells in PUBLISHED.items()}
    assert counts == {
        "niculae2017/table1": 4, "niculae2017/table2": 5 * 6, "niculae2017/table3": 4 * 4,
        "niculae2017/table4": 5 * 22 - 4, "niculae2017/table5": 5 * 2,
        "niculae2017/table6": 5 * 24, "niculae2017/table7": 5 * 18,
        "malaviya2018/table1": 8 * 12, "malaviya2018/table2": 5 * 2,
        "niculae2018/table1": 5 * 5, "niculae2018/table2": 3 * 4,
        "peters2019/table1": 9 * 4 + 2, "peters2019/table2": 2 * 18, "peters2019/table3": 3 * 2,
        "peters2019/figure6": 3, "peters2019/section4_1": 4, "peters2019/section4_2": 3 * 2,
        "niculae2017/section4_2": 2, "niculae2018/section5_2": 2,
    }  # fmt: skip
    numbers = [number for cells in PUBLISHED.values() for number in cells.values()]
    assert all(math.isfinite(number) and number > 0 for number in numbers)
