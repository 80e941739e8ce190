"""Predictions for inputs of a user: one tiny run, the command and the function."""

import doctest
import json
import shutil
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch
from predicted import printed

import repro
from repro.cli import main
from repro.config.compose import compose_run
from repro.config.experiment import list_experiments
from repro.errors import DataError
from repro.prediction import Wanted
from repro.results import Archive, ResultsError, RunFolder
from repro.runs import loading
from repro.runs.execute import execute
from repro.runs.job import locate
from repro.runs.own_examples import _write, write_own_examples


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A run of inflection; its corpus is gone."""
    root = tmp_path_factory.mktemp("predict")
    sizes = ["model.embedding_size=8", "model.hidden_size=8", "model.layers=1"]
    limits = ["training.max_epochs=1", "decoding.max_length=6", "task.stored_examples=0"]
    few = ["task=morphology", "task.setting=medium", "hardware=cpu"]
    overrides = [*few, *sizes, *limits, f"results_dir={root}"]
    outcome = execute(locate(compose_run(overrides), overrides))
    assert outcome.status == "done", outcome.error
    shutil.rmtree(root / "demo" / "corpora")
    return RunFolder(outcome.folder)


def test_a_run_that_has_not_ended_is_named(tmp_path):
    RunFolder(tmp_path / "demo" / "runs" / "aa11").mark_running()
    with pytest.raises(ResultsError, match="run aa11 has no weights yet"):
        repro.load("aa", results_dir=tmp_path)


def root_of(folder: RunFolder) -> str:
    return f"results_dir={folder.path.parents[2]}"


def inputs_of(folder: RunFolder, language: str) -> list[str]:
    """Lemma, tags and language of the test data."""
    lines = folder.predictions_file("test", language).read_text("utf-8").splitlines()
    fields = [line.split("\t") for line in lines]
    return [f"{lemma}\t{tags}\t{language}" for lemma, _, tags in fields]


def languages_of(folder: RunFolder) -> list[str]:
    preparation = folder.read_preparation()
    return list(preparation["languages"])


def test_predictions_are_the_stored_ones(folder):
    for language in languages_of(folder):
        stored = folder.predictions_file("test", language).read_text("utf-8")
        assert printed(folder.path, inputs_of(folder, language)) == stored


def test_examples_of_figures_are_predicted_once_and_again_after_a_change(
    folder, tmp_path, monkeypatch
):
    language = languages_of(folder)[0]
    lines, path = inputs_of(folder, language)[:3], tmp_path / "examples" / "morphology.tsv"
    path.parent.mkdir()
    monkeypatch.setattr("repro.runs.own_examples.experiments_dirs", lambda: [tmp_path])
    own = own_examples_of(folder)
    assert not own.path.exists()  # no such file of inputs

    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    for gold in ("abc", "abd"):
        path.with_name("morphology.gold.txt").write_text(f"{gold}\n" * 3, "utf-8")
        own_examples_of(folder)
        assert {(row["split"], row["gold"]) for row in own.read_hypotheses()} == {("own", gold)}
        found = ["".join(row["output"]).removesuffix("</s>") for row in own.read_attention()]
        outputs = [line.split("\t")[1] for line in printed(folder.path, lines).splitlines()]
        assert found == outputs
        written = own.hypotheses.stat().st_mtime_ns
        assert own_examples_of(folder).hypotheses.stat().st_mtime_ns == written
    shutil.rmtree(own.path)


def own_examples_of(folder: RunFolder) -> RunFolder:
    _write(folder)
    return folder.own_examples


def test_the_order_is_kept_and_memory_is_bounded_by_the_pool(folder):
    run, read, waiting = repro.load(folder.path), 0, 0
    lines = [line for language in languages_of(folder) for line in inputs_of(folder, language)]

    def counted():
        nonlocal read
        for number, line in enumerate(lines, start=1):
            read = number
            yield number, line

    shares: list[float] = []
    for place, one in enumerate(run.stream(counted(), Path("x"), Wanted(), 7, shares.append)):
        waiting = max(waiting, read - place)
        assert one.line.split("\t")[0] == lines[place].split("\t")[0]
    assert waiting == 7
    assert shares.count(1.0) == -(-len(lines) // 7)


def test_a_command_prints_a_line_for_each_input(folder, tmp_path, capsys, monkeypatch):  # fmt: skip
    language = languages_of(folder)[0]
    stored = folder.predictions_file("test", language).read_text("utf-8")
    file = tmp_path / "input.txt"
    file.write_text("".join(f"{line}\n" for line in inputs_of(folder, language)), "utf-8")
    assert main(["predict", folder.run_id[:6], str(file), root_of(folder)]) == 0
    assert capsys.readouterr().out == stored
    best = ["--best", "test/accuracy", "task=morphology"]
    with file.open(encoding="utf-8") as stream:
        monkeypatch.setattr("sys.stdin", stream)
        assert main(["predict", *best, root_of(folder)]) == 0
    assert capsys.readouterr().out == stored

    good = file.read_text("utf-8")
    file.write_text(good + "lemma\n" + good, "utf-8")
    assert main(["predict", str(folder.path), str(file)]) == 2
    captured = capsys.readouterr()
    assert captured.out == stored
    assert f"{file}:{good.count(chr(10)) + 1}: expected lemma TAB tags" in captured.err


def test_json_has_scores_attention_and_the_best_outputs(folder, capsys):
    text = inputs_of(folder, languages_of(folder)[0])[0]
    command = ["predict", folder.run_id, "--text", text, "--json", root_of(folder)]
    assert main([*command, "--n-best", "3", "decoding.beam_size=3"]) == 0
    row = json.loads(capsys.readouterr().out)
    (one,) = repro.load(folder.path, "decoding.beam_size=3").predict([text.split("\t")], n_best=3)
    assert row["output"] == one.output == row["n_best"][0]["output"]
    assert row["log_probability"] == one.log_probability == row["n_best"][0]["log_probability"]
    assert row["exact"] is one.exact
    torch.testing.assert_close(torch.tensor(row["attention"]["weights"]), one.attention.weights)
    assert row["attention"]["columns"] == row["source"]
    assert row["attention"]["rows"] == row["target"]
    assert main([*command, "--n-best", "4", "decoding.beam_size=3"]) == 2


def test_heat_maps_of_runs_side_by_side(folder, tmp_path):
    texts = inputs_of(folder, languages_of(folder)[0])[:2]
    given = [part for text in texts for part in ("--text", text)]
    one, both = [folder.run_id], [folder.run_id, str(folder.path)]
    runs = {"svg": both, "png": one, "pdf": both, "html": one}
    files = {ending: tmp_path / f"attention.{ending}" for ending in runs}
    for ending, file in files.items():
        drawing = ["--heatmap", str(file), root_of(folder)]
        assert main(["predict", *runs[ending], *given, *drawing]) == 0
    root = ElementTree.fromstring(files["svg"].read_bytes())
    assert f"entmax, α = 1.5, {folder.run_id}" in [*root.itertext()]
    assert files["png"].read_bytes().startswith(b"\x89PNG")
    assert files["pdf"].read_bytes().startswith(b"%PDF")
    assert files["html"].read_bytes().count(b"<svg") == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--text", "a"], "expected a run"),
        (["feed"], "no run below"),
        (["FOLDER"], "FOLDER has no config.yaml"),
        (["FOLDER", "--text", "a"], "FOLDER has no config.yaml"),
        (["RUN", "FOLDER"], "FOLDER has no config.yaml"),
        (["RUN", "absent.txt"], "absent.txt: No such file"),
        (["RUN", "--text", "a\tV\tnowhere"], "input 1:1: unknown language 'nowhere'"),
        (["RUN", "--text", "x" * 600 + "\tV\tLANGUAGE"], "an input has at most 500"),
        (["RUN", "RUN", "--text", "a"], "several runs need --heatmap"),
        (["RUN", "--text", "a", "--heatmap", "x.gif"], "expected a file .svg, .png, .pdf, .html"),
        (["RUN", "--text", "a", "--n-best", "2"], "and --json"),
        (["RUN", "--text", "a", "seed=2"], "seed=2: expected decoding.KEY"),
        (["RUN", "--text", "a", "decoding.beam_size=0"], "decoding.beam_size is 0"),
        (["RUN", "--text", "a", "decoding.beam_size=1001"], "decoding.beam_size is 1001"),
        (["RUN", "--text", "a", "decoding.beam=3"], "unknown key 'beam'"),
        (["RUN", "--text", "a", "decoding.beam_size=1,2"], "beam_size=1,2: expected a single"),
        (["RUN", "/dev/null", "--heatmap", "x.svg"], "x.svg: there is no input to draw"),
        (["--best", "test/bleu", "--text", "a"], "no run has 'test/bleu'"),
        (["--best", "test/accuracy", "kind=ensemble", "--text", "a"], "has 'test/accuracy'"),
        (["--best", "test/accuracy", "seed=9", "--text", "a"], "has 'test/accuracy'"),
    ],
)
def test_what_does_not_fit_is_refused(folder, arguments, message, tmp_path, monkeypatch, refused):
    monkeypatch.chdir(tmp_path)
    Path("FOLDER").mkdir()
    language = languages_of(folder)[0]
    given = [one.replace("RUN", folder.run_id).replace("LANGUAGE", language) for one in arguments]
    assert message in refused("predict", *given, root_of(folder))


def test_missing_weights_name_the_command_that_trains_them(folder, tmp_path):
    (tmp_path / "demo" / "records").mkdir(parents=True)
    shutil.copy(folder.record, tmp_path / "demo" / "records" / f"{folder.run_id}.json")
    for found in (tmp_path / "demo" / "runs" / folder.run_id, None):
        with pytest.raises(ResultsError, match="trains them: repro run task=morphology"):
            repro.load(folder.run_id[:5], results_dir=tmp_path)
        if found is not None:  # a folder without weights
            ignored = shutil.ignore_patterns("model.safetensors*")
            shutil.copytree(folder.path, found, ignore=ignored)


def test_the_best_run_is_one_with_weights(folder, tmp_path):
    """A better one, of which only the record is here, is chosen if none has weights."""
    copied = RunFolder(tmp_path / folder.path.relative_to(folder.path.parents[2]))
    shutil.copytree(folder.path, copied.path)
    mine = folder.read_record()
    better = replace(mine, run_id="f" * 12, seed=9, metrics={"test/accuracy": 100.0})
    records = tmp_path / "demo" / "records"
    records.mkdir()
    (records / f"{better.run_id}.json").write_text(better.to_json(), "utf-8")
    assert loading.best_run(tmp_path, "test/accuracy", []) == folder.run_id
    copied.remove_weights()
    assert loading.best_run(tmp_path, "test/accuracy", []) == better.run_id


def test_the_advice_for_removed_weights_trains_them(folder, tmp_path):
    copied = RunFolder(tmp_path / folder.path.relative_to(folder.path.parents[2]))
    shutil.copytree(folder.path, copied.path)
    copied.remove_weights()
    command = [*copied.read_record().overrides, "hardware=cpu", f"results_dir={tmp_path}"]
    assert execute(locate(compose_run(command), command)).status == "skipped"
    with pytest.raises(ResultsError) as refused:
        repro.load(copied.path)
    assert f"; delete {copied.done}, and this command trains them: repro" in str(refused.value)
    copied.done.unlink()
    assert execute(locate(compose_run(command), command)).status == "done"
    assert repro.load(copied.path).run_id == folder.run_id


@pytest.mark.parametrize("name", ["config.yaml", "preparation.json", "model.safetensors"])
@pytest.mark.parametrize("checksums", [True, False])
def test_a_damaged_file_of_a_copied_folder_is_named(folder, tmp_path, refused, name, checksums):
    left = [] if checksums else ["SHA256SUMS", "DONE"]
    copied = shutil.copytree(
        folder.path, tmp_path / "copied", ignore=shutil.ignore_patterns("lock", *left)
    )
    content = (copied / name).read_bytes()
    place = len(content) - 10
    (copied / name).write_bytes(content[:place] + b"\xff" + content[place + 1 :])
    assert str(copied / name) in refused("predict", str(copied), "--text", "a\tV")


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        (None, "languages"),
        ({"languages": 1}, "languages"),
        ({"source": ["a", 1]}, "source"),
        ({"target": "abc"}, "target"),
        ({"other": 1}, "other"),
    ],
)
def test_a_preparation_that_no_run_wrote_is_named(folder, tmp_path, changes, named):
    ignored = shutil.ignore_patterns("lock", "SHA256SUMS", "DONE")
    copied = RunFolder(shutil.copytree(folder.path, tmp_path / "copied", ignore=ignored))
    copied.write_preparation({} if changes is None else copied.read_preparation() | changes)
    with pytest.raises(ResultsError, match=named) as caught:
        repro.load(copied.path)
    assert str(caught.value).startswith(str(copied.preparation))


def test_inputs_in_memory_are_named_by_their_number(folder):
    run = repro.load(folder.path)
    assert run.predict([]) == []
    with pytest.raises(DataError, match="input 2:1: expected lemma TAB tags TAB language, none"):
        run.predict([inputs_of(folder, languages_of(folder)[0])[0], "lemma"])


def test_one_text_is_one_input(folder):
    run, text = repro.load(folder.path), inputs_of(folder, languages_of(folder)[0])[0]
    (one,) = run.predict(text)
    assert one.line == run.predict([text])[0].line


def test_a_notebook_shows_a_run_in_one_line_and_a_prediction_as_a_table(folder, capsys):
    run, text = repro.load(folder.path), inputs_of(folder, languages_of(folder)[0])[0]
    metrics = folder.read_record().metrics
    assert repr(run).startswith(f"{folder.run_id}: morphology: ")
    assert f"test/accuracy {metrics['test/accuracy']:.2f}" in repr(run)
    assert "\n" not in repr(run)
    one = run.predict(text)[0]
    table = ElementTree.fromstring(f"<div>{one._repr_html_()}</div>").find("table")
    head, *rows = table.findall("tr")
    assert len(head) == 1 + len(one.attention.columns)
    cells = [[cell.text for cell in row.findall("td")] for row in rows]
    zeros = [[weight == 0 for weight in row] for row in one.attention.weights.tolist()]
    assert [[text == "·" for text in row] for row in cells] == zeros
    assert main(["predict", "--best", "test/accuracy", "--text", text, root_of(folder)]) == 0
    assert repr(run) in capsys.readouterr().err


def test_a_word_that_is_no_run_is_named(folder, refused):
    assert "nope: expected a run" in refused("predict", "nope", "--text", "x", root_of(folder))


def test_unknown_symbols_of_a_text_are_named(folder, capsys):
    known = inputs_of(folder, languages_of(folder)[0])[0]
    lemma, *tags = known.split("\t")
    strange = "\t".join([f"Ж{lemma}Ж", *tags])
    assert main(["predict", folder.run_id, "--text", strange, "--json", root_of(folder)]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["unknown"] == ["Ж", "Ж"]
    (line,) = [one for one in printed.err.splitlines() if "Ж" in one]
    assert line.endswith(": Ж")
    assert main(["predict", folder.run_id, "--text", known, root_of(folder)]) == 0
    assert "unknown" not in capsys.readouterr().err


def test_an_interrupt_ends_quietly(folder, monkeypatch, capsys):
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(loading.LoadedRun, "predict", interrupted)
    assert main(["predict", folder.run_id, "--text", "a\tV", root_of(folder)]) == 130
    assert capsys.readouterr().err == ""


def test_the_page_shows_what_it_says(folder):
    page = str(Path(repro.__file__).parent.parent / "docs" / "predict.md")
    failed, tried = doctest.testfile(page, module_relative=False, globs={"run": folder.path})
    assert tried >= 5
    assert failed == 0


def test_artefacts_without_the_scale_have_no_own_examples(tmp_path):
    write_own_examples(Archive(tmp_path, "subset"), list_experiments())
    assert not [*tmp_path.iterdir()]
