"""The runs of a cell are found by their settings, however they were typed."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from repro.config.compose import compose_run
from repro.config.experiment import load_experiment
from repro.config.identity import settings
from repro.config.planning import PlannedRun, plan_runs
from repro.results import Archive, Measurement, Record, publish
from repro.results.cells import averaged
from repro.version import NUMERIC_EPOCH

CELL = ("task=morphology", "mapping=entmax", "scale=demo", "mapping.alpha=1.5")
PLAN = PlannedRun("paper2020/table9", "a", "b", 2, CELL)


@pytest.fixture
def record(tmp_path: Path, make_record: Callable[..., Record]) -> Callable[..., str]:
    def publish_run(run_id: str, *overrides: str, **changes: object) -> str:
        config = settings(compose_run([*PLAN.overrides, *overrides]))
        values = {"epoch": NUMERIC_EPOCH, "config": config, "seed": config["seed"]} | changes
        publish(tmp_path, make_record(run_id=run_id, **values))
        return run_id

    return publish_run


def found(folder: Path, fresh: bool = False) -> str | None:
    record = Archive(folder, "demo", fresh=fresh).find(PLAN)
    return None if record is None else record.run_id


def test_equal_settings_match_and_others_do_not(tmp_path, record):
    for n, other in enumerate(["seed=3", "mapping.alpha=2", "training.max_epochs=1"]):
        record(f"other{n}", other)
    assert found(tmp_path) is None
    record("same", "mapping.alpha=1.50", "hardware.threads=1")
    assert found(tmp_path) == "same"


def test_runs_of_an_earlier_epoch_fill_cells_until_there_are_new_ones(tmp_path, record):
    record("other", "precision=bf16")
    record("old", epoch=NUMERIC_EPOCH - 1)
    assert found(tmp_path) == "old"
    assert found(tmp_path, fresh=True) is None
    record("new")
    assert found(tmp_path) == "new"


def test_an_earlier_epoch_never_wins_and_of_one_epoch_the_last_run_does(tmp_path, record):
    record("new", finished="2030-01-01T00:00:00+00:00")
    record("old", epoch=NUMERIC_EPOCH - 1, finished="2030-01-03T00:00:00+00:00")
    assert found(tmp_path) == "new"
    record("again", finished="2030-01-02T00:00:00+00:00")
    assert found(tmp_path) == "again"


@pytest.mark.parametrize(
    "overrides", [["model.bidirectional=no"], ["data.corpus=another", "data.folder=my/texts"]]
)
def test_a_run_matches_whatever_form_its_settings_were_typed_in(tmp_path, record, overrides):
    record("same", *overrides)
    run = replace(PLAN, cell=(*CELL, *overrides))
    assert Archive(tmp_path, "demo").find(run).run_id == "same"


@pytest.mark.parametrize(
    "overrides", [["model=translator", "model.coverage_vector=true"], ["training.graphs=auto"]]
)
def test_a_run_with_further_settings_is_another_run(tmp_path, record, overrides):
    """The settings of a translator are those of the model for inflection, and more."""
    record("other", *overrides)
    assert found(tmp_path) is None
    record("same")
    assert found(tmp_path) == "same"


def test_a_removed_setting_counts_only_with_a_value_of_its_own(tmp_path, make_record):
    config = settings(compose_run(PLAN.overrides))
    for name, smoothing in (("a", 0.1), ("b", 0.0)):
        loss = config["loss"] | {"label_smoothing": smoothing}
        content = config | {"loss": loss}
        publish(tmp_path, make_record(run_id=name, config=content, epoch=NUMERIC_EPOCH, seed=2))
        assert found(tmp_path) == {"a": None, "b": "b"}[name]


def test_compared_runs_have_read_one_content_of_a_corpus(tmp_path, record, make_record):
    old, new = "a" * 64, "b" * 64
    other = replace(PLAN, seed=3)
    record("old", fingerprint=old, finished="2030-01-01T00:00:00+00:00")
    record("old3", "seed=3", fingerprint=old, finished="2030-01-01T00:00:00+00:00")
    record("new", fingerprint=new, finished="2030-01-02T00:00:00+00:00")

    def found(corpus_at_hand: str | None) -> list[str | None]:
        archive = Archive(tmp_path, "demo", corpus_at_hand=lambda run, corpus: corpus_at_hand)
        records = archive.find_all([PLAN, other])
        return [record and record.run_id for record in (records[PLAN], records[other])]

    assert found(None) == ["new", None]
    assert found(old) == ["old", "old3"]
    assert found(new) == ["new", None]
    assert found("c" * 64) == [None, None]
    # Alone, as in an artefact that needs no other seed, an older run still counts.
    assert Archive(tmp_path, "demo").find(other).run_id == "old3"
    # A run that reads another corpus is not concerned.
    record("less", "data.corpus=other", "seed=3", fingerprint=old)
    apart = replace(other, cell=(*CELL, "data.corpus=other"))
    records = Archive(tmp_path, "demo").find_all([PLAN, apart])
    assert [records[PLAN].run_id, records[apart].run_id] == ["new", "less"]


def test_rows_that_differ_in_the_model_read_one_corpus(tmp_path, record):
    deeper = replace(PLAN, cell=(*CELL, "model.layers=2"))
    record("old", fingerprint="a" * 64, finished="2030-01-01T00:00:00+00:00")
    record("new", "model.layers=2", fingerprint="b" * 64, finished="2030-01-02T00:00:00+00:00")
    records = Archive(tmp_path, "demo").find_all([PLAN, deeper])
    assert [one and one.run_id for one in (records[PLAN], records[deeper])] == [None, "new"]


def test_a_run_fills_the_cells_of_values_that_are_tried(tmp_path, make_record):
    (run, *_) = plan_runs(load_experiment("niculae2018/table1"), "demo")
    for value, names in ((run.value, ["niculae2018/table1"]), (run.value * 1.2345, [])):
        config = settings(compose_run(replace(run, value=value).overrides))
        record = make_record(config=config, seed=run.seed, epoch=NUMERIC_EPOCH)
        assert Archive(tmp_path, "demo").artefacts_of(record) == names


def test_a_cell_averages_the_speeds_of_one_device(make_record):
    """That of the newest run; what does not depend on the device is averaged over all."""
    speed, loss = "train/tokens_per_second", "dev/loss"
    runs = [
        make_record(
            run_id=name,
            device=device,
            finished=f"2026-01-0{day}T00:00:00+00:00",
            metrics={speed: 1.0, loss: 2.0},
            signatures={speed: "s", loss: "s"},
        )
        for name, device, day in (("a", "cpu", 1), ("b", "cuda", 3), ("c", "cuda", 2))
    ]
    kept = averaged(Measurement.of(one, metric) for one in runs for metric in (speed, loss))
    assert [one.run_id for one in kept if one.metric == speed] == ["b", "c"]
    assert [one.run_id for one in kept if one.metric == loss] == ["a", "b", "c"]
