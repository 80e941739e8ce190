"""Synthetic experiments and records: no number here was measured."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from measured import made_up_table, measurement

from repro.config.experiment import Axis, Column, Drawing, Experiment, Published
from repro.report import document
from repro.report.figures.canvas import plain_style
from repro.results import Archive, Measurement

EXPERIMENT = made_up_table(
    rows=[Axis("output α", {"1": [], "2": []}), Axis("attention α", {"a": [], "b": []})],
    columns=[Column("avg", "test/accuracy"), Column("ens", "test/accuracy", aggregate="ensemble")],
    seeds=[1, 2, 3],
    published=Published(
        source="Paper (2020), Table 9",
        rows={"1 / a": {"avg": 51.25}, "2 / b": {"avg": 60.0, "ens": 61.5}},
        other_rows={"OTHER (2018)": {"ens": 96.0}},
    ),
    notes=["A note."],
)


@pytest.fixture
def experiment() -> Experiment:
    return EXPERIMENT


@pytest.fixture
def figure_experiment() -> Experiment:
    drawing = Drawing("lattice", caption="A caption.", published="A figure.", prefer=["draw"])
    return replace(
        EXPERIMENT,
        artefact="figure9",
        kind="figure",
        columns=[Column("dev", "dev/accuracy")],
        published=Published(),
        drawing=drawing,
    )


@pytest.fixture
def records() -> list[Measurement]:
    """Three seeds for row "1 / a", two for "1 / b", one ensemble, nothing for the rest."""
    first = [measurement(run_id=f"a{s}", seed=s, value=50.0 + s) for s in (3, 1, 2)]
    second = [measurement(run_id=f"b{s}", row="1 / b", seed=s, value=40.0 + s) for s in (1, 3)]
    ensemble = measurement(run_id="e", kind="ensemble", column="ens", seed=None, value=55.125)
    return [*first, *second, ensemble]


@pytest.fixture
def plain() -> Iterator[None]:
    """Draw in the style of reports."""
    with plain_style():
        yield


class Filled(Archive):
    """An archive of made-up measurements, by name of the experiment."""

    def __init__(self, root: Path, scale: str, cells: Mapping[str, list[Measurement]]) -> None:
        super().__init__(root, scale)
        self.cells = cells

    def measurements(self, experiment: Experiment) -> list[Measurement]:
        return self.cells.get(experiment.name, [])


@pytest.fixture
def know(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Returns a function that makes the report know made-up experiments only, and no claims."""

    def know(*experiments: Experiment) -> None:
        found = {one.name: one for one in experiments}
        monkeypatch.setattr(document, "list_experiments", lambda: sorted(found))
        monkeypatch.setattr(document, "load_experiment", found.__getitem__)
        monkeypatch.setattr(document, "judge_claims", lambda archive: [])

    return know


@pytest.fixture
def filled() -> type[Filled]:
    return Filled
