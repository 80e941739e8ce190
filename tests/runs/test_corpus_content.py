"""A corpus whose content changed: an artefact is run again, and mixes no runs of both."""

import shutil
from pathlib import Path

from repro.config.experiment import load_experiment
from repro.results import Archive, load
from repro.results.frame import pivoted
from repro.results.layout import record_path
from repro.runs.plan import plan
from repro.runs.reproduce import reproduce

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


def test_an_artefact_is_run_again_if_its_corpus_changed(tmp_path, monkeypatch, caplog):
    name = "paper2020/table1"
    path = tmp_path / f"extension/experiments/{name}.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(EXPERIMENT)
    (tmp_path / "data/mine").mkdir(parents=True)
    monkeypatch.setenv("REPRO_EXTENSIONS", str(tmp_path / "extension"))
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
