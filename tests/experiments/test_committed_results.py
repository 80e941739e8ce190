"""The committed results: every figure of recorded runs, and commands that repeat the runs."""

from pathlib import Path

import pytest

from repro.config.compose import compose_run
from repro.config.experiment import list_experiments, load_experiment
from repro.config.identity import flattened, settings, without_nuisance
from repro.report.figures import read_figure_data
from repro.results import Archive, Record, figure_path
from repro.results.store import survey_records

RESULTS = Path(__file__).parents[2] / "results"


@pytest.mark.parametrize("scale", ["small", "subset", "full"])
def test_every_figure_of_measured_runs_is_drawn(scale):
    archive, drawn = Archive(RESULTS, scale), list[str]()
    for experiment in map(load_experiment, list_experiments()):
        if experiment.drawing is None or scale not in experiment.scales or experiment.computed:
            continue
        if archive.measurements(experiment):
            assert read_figure_data(RESULTS, scale, experiment.name), experiment.name
            assert figure_path(RESULTS, scale, experiment.name, "svg").exists()
            drawn.append(experiment.name)
    assert drawn or scale != "small"


def test_examples_of_figures_are_not_those_of_a_corpus():
    """Texts of small and subset scale are the suite's own; the papers' are named by digests."""
    for path in (RESULTS / "small" / "figures").glob("*/*.json"):
        data = read_figure_data(
            RESULTS, "small", path.relative_to(path.parents[1]).with_suffix("").as_posix()
        )
        parts = data.example.get("sentences") or data.example.get("pairs") or [data.example]
        assert {one["split"] for one in parts if "index" in one} <= {"own"}, path.name


def test_the_command_of_a_record_composes_its_settings():
    different: dict[str, Record] = {}
    for scale in ("small", "subset", "full"):
        records, refused = survey_records(RESULTS, scale)
        assert refused == []
        for record in records:
            words = [word for word in record.overrides if not word.startswith("seed=")]
            if words:
                different.setdefault(" ".join(words), record)
    assert len(different) > 50
    for record in different.values():
        composed = flattened(settings(compose_run(record.overrides)))
        recorded = without_nuisance(record.config)
        assert composed == flattened(recorded), record.run_id
