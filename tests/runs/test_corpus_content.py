"""A corpus whose content changed: an artefact is run again, and mixes no runs of both."""

import shutil
from pathlib import Path

import pytest
from three_runs import add_table

from repro.config import ConfigError
from repro.config.compose import compose_run
from repro.config.experiment import load_experiment
from repro.config.loading import group_choices
from repro.config.schema import RunConfig
from repro.results import Archive, load, read_records
from repro.results.frame import pivoted
from repro.results.layout import record_path
from repro.runs.execute import execute
from repro.runs.job import locate
from repro.runs.plan import plan
from repro.runs.reproduce import reproduce
from repro.tasks import task_spec

EXPERIMENT = """\
kind: table
title: "Entailment"
place: "Table 1"
base: [task=snli, data.folder=mine, model.vector_size=4, model.hidden_size=4]
seeds: [1, 2]
rows: [{name: attention, values: {softmax: [mapping=softmax]}}]
columns: [{name: metric, values: {accuracy: [metric=test/label_accuracy]}}]
scales: {demo: {overrides: [training.max_epochs=1]}}
"""


def write_pairs(folder: Path, last: str) -> None:
    for split in ("train", "dev", "test"):
        rows = ["premise\thypothesis\tlabel", "a b\tc\tx", f"a\t{last}\ty"]
        (folder / f"{split}.tsv").write_text("\n".join(rows) + "\n")


@pytest.mark.parametrize("command", [plan, reproduce])
def test_rows_whose_folders_share_a_name_are_refused(tmp_path, monkeypatch, command):
    """Records state no more than the name: either row would show the run that ended last."""
    name = "paper2020/table1"
    one_row = "{one: [data.folder=one/mine]}"
    two_rows = "{one: [data.folder=one/mine], other: [data.folder=other/mine]}"
    text = EXPERIMENT.replace("data.folder=mine, ", "mapping=softmax, ").replace("[1, 2]", "[1]")
    for place, last in (("one", "b"), ("other", "c")):
        (tmp_path / place / "mine").mkdir(parents=True)
        write_pairs(tmp_path / place / "mine", last)
    places = [f"data_dir={tmp_path}", f"results_dir={tmp_path}/results", "hardware=cpu"]
    for begun in (False, True):
        if begun:
            shown = text.replace("{softmax: [mapping=softmax]}", one_row)
            add_table(tmp_path, monkeypatch, name, shown)
            assert [one.status for one in reproduce([name], "demo", places).outcomes] == ["done"]
        shown = text.replace("{softmax: [mapping=softmax]}", two_rows)
        add_table(tmp_path, monkeypatch, name, shown)
        with pytest.raises(ConfigError, match="other/mine has the name of one/mine"):
            command([name], "demo", places)
        assert len(read_records(tmp_path / "results", "demo")) == begun


def test_an_artefact_is_run_again_if_its_corpus_changed(tmp_path, monkeypatch, caplog):
    name = "paper2020/table1"
    add_table(tmp_path, monkeypatch, name, EXPERIMENT)
    (tmp_path / "data/mine").mkdir(parents=True)
    places = [f"data_dir={tmp_path}/data", f"results_dir={tmp_path}/results", "hardware=cpu"]

    def reasons() -> dict[str, int]:
        ((artefact,), _estimate) = plan([name], "demo", places)
        return dict(artefact.reasons)

    write_pairs(tmp_path / "data/mine", "b")
    assert reasons() == {"new": 2}
    first = reproduce([name], "demo", places)
    assert reasons() == {}
    assert reproduce([name], "demo", places).outcomes == []

    write_pairs(tmp_path / "data/mine", "c")
    assert reasons() == {"of another corpus content": 2}
    second = reproduce([name], "demo", places)
    assert [one.status for one in second.outcomes] == ["done", "done"]
    known = [{one.run_id for one in done.outcomes} for done in (first, second)]
    assert not known[0] & known[1]
    experiment = load_experiment(name)

    def shown() -> set[str]:
        return {
            one.run_id for one in Archive(tmp_path / "results", "demo").measurements(experiment)
        }

    assert shown() == known[1]
    # Without one of the new runs its cell stays empty: no old one takes its place.
    removed = second.outcomes[0]
    record_path(tmp_path / "results", "demo", removed.run_id).unlink()
    shutil.rmtree(removed.folder)
    assert shown() == {second.outcomes[1].run_id}
    assert name in caplog.text
    table = pivoted(load(tmp_path / "results"), ["mapping"], "test/label_accuracy")
    assert table["count"].tolist() == [1, 2]
    (tmp_path / "data/mine/dev.tsv").unlink()
    assert reasons() == {"of another corpus content": 1}


def own_run(tmp_path: Path, *overrides: str) -> RunConfig:
    (tmp_path / "data/mine").mkdir(parents=True, exist_ok=True)
    write_pairs(tmp_path / "data/mine", "b")
    places = [f"data_dir={tmp_path}/data", f"results_dir={tmp_path}/results", "hardware=cpu"]
    base = ["task=snli", "data.folder=mine", "model.vector_size=4", "model.hidden_size=4"]
    return compose_run([*base, "training.max_epochs=1", *places, *overrides])


def test_a_run_fails_if_its_corpus_changed_since_it_was_planned(tmp_path):
    """Also if this process has read the corpus before."""
    config = own_run(tmp_path)
    assert execute(locate(config)).status == "done"
    job = locate(own_run(tmp_path, "seed=2"))
    write_pairs(tmp_path / "data/mine", "longer")
    outcome = execute(job)
    assert outcome.status == "failed"
    assert "the files of mine changed after this run was planned" in outcome.error
    assert not read_records(tmp_path / "results", "demo")[1:]


@pytest.mark.parametrize("task", group_choices("task"))
def test_a_corpus_depends_on_the_declared_settings_alone(task, tmp_path, monkeypatch):
    config = compose_run([f"task={task}", "scale=demo", f"results_dir={tmp_path}"])
    read = set[str]()
    for group in ("task", "model", "mapping", "loss", "training", "decoding"):
        node = getattr(config, group)
        if node is None:
            continue

        def get(self: object, name: str, group: str = group) -> object:
            read.add(f"{group}.{name}")
            return object.__getattribute__(self, name)

        node.__class__ = type(type(node).__name__, (type(node),), {"__getattribute__": get})
    task_spec(task).identify(config)
    known = {"task.name", "task.tags"}  # names the task in messages; tags that are missing
    assert {one for one in read if not one.startswith(config.corpus_settings)} <= known
