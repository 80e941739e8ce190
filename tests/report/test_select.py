import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from measured import measurement

from repro.config.experiment import Drawing
from repro.report.document import _gather
from repro.report.figures import export_figure_data, read_figure_data, render_figure
from repro.results import Archive, Measurement, ResultsError, figure_path, run_folder


def store_runs(root: Path) -> list[Measurement]:
    """Of two runs with the largest value the first by name counts, of others nothing."""
    ensemble = measurement(run_id="all", value=99.0, metric="dev/accuracy", kind="ensemble")
    records = [ensemble, measurement(run_id="other", value=99.0)]
    for run_id, value in [("cc", 90.0), ("aa", 80.0), ("bb", 90.0)]:
        changes = {"column": "dev", "scale": "demo"}
        records.append(measurement(run_id=run_id, value=value, metric="dev/accuracy", **changes))
        hypotheses = [
            {"tokens": ["a"], "probability": 0.5, "steps": [0.5, 1.0]},
            {"tokens": [], "probability": 0.5, "steps": [0.5]},
        ]
        row = {"language": "english", "lemma": "x", "tags": ["V"], "gold": "a", "finite": True}
        rows = [{**row, "index": n, "run": run_id, "hypotheses": hypotheses} for n in (4, 2)]
        run_folder(root, "demo", run_id).write_hypotheses(rows)
    return records


def test_figure_data_hold_the_example_and_its_provenance(tmp_path, figure_experiment):
    records = store_runs(tmp_path)
    path = export_figure_data(Archive(tmp_path, "demo"), figure_experiment, records)
    assert path == tmp_path / "demo" / "figures" / "paper2020" / "figure9.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    assert content["example"]["run"] == "bb"
    assert content["example"]["index"] == 2
    assert content["record"]["value"] == 90.0
    assert {"run_id", "metric", "scale", "corpus", "fingerprint"} <= set(content["record"])
    data = read_figure_data(tmp_path, "demo", figure_experiment.name)
    paths = render_figure(tmp_path, "demo", data)
    assert "<svg" in paths["svg"].read_text(encoding="utf-8")
    assert paths["png"].read_bytes().startswith(b"\x89PNG")
    assert paths["pdf"].read_bytes().startswith(b"%PDF")


def test_an_unchanged_figure_is_not_drawn_again(tmp_path, figure_experiment, monkeypatch):
    records = store_runs(tmp_path)
    export_figure_data(Archive(tmp_path, "demo"), figure_experiment, records)
    data = read_figure_data(tmp_path, "demo", figure_experiment.name)
    paths = render_figure(tmp_path, "demo", data)
    before = {suffix: path.read_bytes() for suffix, path in paths.items()}

    def refuse(_data: object) -> None:
        raise AssertionError("drawn again")

    with monkeypatch.context() as patched:
        patched.setattr("repro.report.figures.data.draw_figure", refuse)
        render_figure(tmp_path, "demo", data)
        with pytest.raises(AssertionError, match="drawn again"):
            render_figure(tmp_path, "demo", replace(data, example={**data.example, "gold": "b"}))
        patched.setattr("repro.report.figures.data._code_digest", lambda: "other code")
        with pytest.raises(AssertionError, match="drawn again"):
            render_figure(tmp_path, "demo", data)
    paths["png"].write_bytes(b"another picture")
    render_figure(tmp_path, "demo", data)
    assert {suffix: path.read_bytes() for suffix, path in paths.items()} == before


def test_what_cannot_be_drawn_is_refused(tmp_path, experiment, figure_experiment):
    with pytest.raises(ResultsError, match="is a table"):
        export_figure_data(Archive(tmp_path, "demo"), experiment, [])
    with pytest.raises(ResultsError, match="no run has a record"):
        export_figure_data(Archive(tmp_path, "demo"), figure_experiment, [])
    records = store_runs(tmp_path)
    for drawing, message in [("attention", "kept no examples"), ("pie", "no drawing 'pie'")]:
        other = replace(figure_experiment, drawing=Drawing(drawing))
        with pytest.raises(ResultsError, match=message):
            export_figure_data(Archive(tmp_path, "demo"), other, records)
    assert not figure_path(tmp_path, "demo", figure_experiment.name, "json").exists()


def test_damaged_figure_data_are_refused(tmp_path, figure_experiment):
    name = figure_experiment.name
    assert read_figure_data(tmp_path, "demo", name) is None
    records = store_runs(tmp_path)
    path = export_figure_data(Archive(tmp_path, "demo"), figure_experiment, records)
    good = json.loads(path.read_text(encoding="utf-8"))
    record = {**good["record"], "value": math.nan}
    for content, message in [
        ("{", "not JSON"),
        ("[]", "expected an object"),
        (json.dumps({**good, "extra": 1}), "unknown key 'extra'"),
        (json.dumps({**good, "example": 3}), "field 'example' is 3; expected a mapping"),
        (json.dumps({**good, "record": record}), "field 'record'.value is nan"),
        (json.dumps({**good, "experiment": "other/figure1"}), "belongs to 'other/figure1'"),
    ]:
        path.write_text(content)
        with pytest.raises(ResultsError, match=message):
            read_figure_data(tmp_path, "demo", name)


def test_the_data_of_other_settings_are_neither_shown_nor_lost(tmp_path, figure_experiment):
    records = store_runs(tmp_path)
    path = export_figure_data(Archive(tmp_path, "demo"), figure_experiment, records)
    plain, name = path.read_bytes(), figure_experiment.name
    changed = Archive(tmp_path, "demo", {name: ["training.max_epochs=1"]})
    assert changed.figure_shows(name, {"aa", "bb"})
    assert not changed.figure_shows(name, {"aa", "cc"})  # the best run is another
    others = [
        measurement(run_id="own", value=9.0, metric="dev/accuracy", column="dev", scale="demo")
    ]
    shutil.copytree(run_folder(tmp_path, "demo", "aa").path, tmp_path / "demo/runs/own")
    shutil.rmtree(run_folder(tmp_path, "demo", "bb").path)
    assert _gather(changed, figure_experiment, others, renewed=True).startswith(
        f"not drawn: figures/{name}.json shows runs that are gone"
    )
    assert path.read_bytes() == plain
