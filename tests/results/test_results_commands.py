"""``repro results``, ``repro compare`` and ``repro plan`` over records that are written by hand."""

import io
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from repro.atomic import atomic_write_text
from repro.cli import main
from repro.config.compose import compose_run
from repro.config.experiment import list_experiments, load_experiment
from repro.config.identity import settings
from repro.config.planning import plan_runs
from repro.evaluation.sufficient_statistics import ratios
from repro.report.explore import print_comparison
from repro.results import Measurement, Record, all_records, publish, run_folder
from repro.results.cells import may_stand_together
from repro.results.frame import load, pivoted, selected, text_of, varying
from repro.runs.device import choose_device, describe_device
from repro.runs.environment import processor
from repro.runs.plan import LEAST_MINUTES, plan
from repro.version import NUMERIC_EPOCH

Make = Callable[..., Record]
RIGHT = {"softmax": 0.5, "entmax": 0.95}
"""Share of right predictions by mapping."""


@pytest.fixture
def results(tmp_path: Path, make_record: Make) -> Path:
    for mapping, share in RIGHT.items():
        for seed in (1, 2):
            name = f"{mapping}-{seed}"
            right = np.arange(40) < 40 * share
            config = {"task": {"name": "morphology"}, "mapping": {"name": mapping}, "seed": seed}
            metrics = {"test/accuracy": 100 * float(right.mean()), "dev/loss": float(seed)}
            folder = run_folder(tmp_path, "demo", name)
            folder.write_statistics({"test/accuracy": ratios(right.astype(float), 1)})
            publish(
                tmp_path, make_record(run_id=name, seed=seed, config=config, metrics=metrics,
                                      signatures=dict.fromkeys(metrics, "s")),
            )  # fmt: skip
    return tmp_path


def output(capsysbinary: pytest.CaptureFixture[bytes], *arguments: str) -> bytes:
    assert main(list(arguments)) == 0
    return capsysbinary.readouterr().out


READERS: dict[str, Callable[[bytes], pd.DataFrame]] = {
    "csv": lambda content: pd.read_csv(io.BytesIO(content)),
    "json": lambda content: pd.DataFrame(json.loads(content)),
    "parquet": lambda content: pd.read_parquet(io.BytesIO(content)),
}


@pytest.mark.parametrize("form", READERS)
def test_files_hold_every_setting_and_metric(form, results, capsysbinary):
    where = f"results_dir={results}"
    frame = READERS[form](output(capsysbinary, "results", where, "--format", form))
    rows = frame.set_index("run_id")
    assert sorted(rows.index) == ["entmax-1", "entmax-2", "softmax-1", "softmax-2"]
    assert rows.loc["entmax-2", ["mapping.name", "seed", "test/accuracy", "dev/loss"]].tolist() == [
        "entmax", 2, 95.0, 2.0,
    ]  # fmt: skip
    assert set(rows["commit"]) == {"abc1234"}


def test_columns_of_a_parquet_file_keep_their_types(tmp_path, make_record, capsysbinary):
    for name, model in (("a", {"deep": True}), ("b", {"deep": False, "sizes": [1]}), ("c", {})):
        publish(tmp_path, make_record(run_id=name, config={"model": model}))
    content = output(capsysbinary, "results", f"results_dir={tmp_path}", "--format", "parquet")
    frame = READERS["parquet"](content).set_index("run_id").sort_index()
    assert frame["model.deep"].tolist()[:2] == [True, False]
    assert frame["model.deep"].dtype == "boolean"
    assert frame["model.sizes"].dropna().tolist() == ["[1]"]
    assert frame["test/accuracy"].dtype == float


def test_the_table_shows_what_differs_and_one_metric(results, capsysbinary):
    where = f"results_dir={results}"
    rows = [line.split() for line in output(capsysbinary, "results", where).decode().splitlines()]
    assert rows[0] == ["run_id", "mapping.name", "seed", "test/accuracy"]
    assert ["softmax-1", "softmax", "1", "50.00"] in rows
    chosen = output(capsysbinary, "results", where, "mapping=softmax", "--metric", "dev/loss")
    assert [line.split() for line in chosen.decode().splitlines()] == [
        ["run_id", "seed", "dev/loss"], ["softmax-1", "1", "1.0000"], ["softmax-2", "2", "2.0000"],
    ]  # fmt: skip
    latex = output(capsysbinary, "results", where, "seed=2", "--format", "latex").decode()
    cells = [line.rstrip("\\ ").split(" & ") for line in latex.splitlines() if " & " in line]
    assert cells == [
        ["run\\_id", "mapping.name", "test/accuracy"],
        ["entmax-2", "entmax", "95.00"],
        ["softmax-2", "softmax", "50.00"],
    ]


def test_runs_are_sorted_and_several_metrics_shown(results, make_record, capsysbinary):
    where = f"results_dir={results}"
    config = {"mapping": {"name": "sparsemax"}}
    publish(results, make_record(run_id="last", config=config, finished="2999-01-01T00:00:00"))

    def listed(*arguments: str) -> list[list[str]]:
        lines = output(capsysbinary, "results", where, *arguments).decode().splitlines()
        return [line.split() for line in lines]

    assert listed()[1][0] == "last"  # the newest
    titles, *rows = listed("mapping=softmax,entmax", "--metric", "test/accuracy,dev/loss",
                           "--sort", "test/accuracy")  # fmt: skip
    assert titles[-2:] == ["test/accuracy", "dev/loss"]
    assert [row[0] for row in rows] == ["entmax-1", "entmax-2", "softmax-1", "softmax-2"]
    assert [row[0] for row in listed("mapping=softmax,entmax", "--sort", "dev/loss")[1:]] == [
        "entmax-1", "softmax-1", "entmax-2", "softmax-2",
    ]  # fmt: skip
    assert len(json.loads(output(capsysbinary, "results", where, "--json"))) == 5
    pivot = ["mapping=softmax,entmax", "--pivot", "mapping", "--metric", "test/accuracy"]
    best = listed(*pivot, "--sort", "test/accuracy")[1:]
    assert [row[0] for row in best] == ["entmax", "softmax"]
    by_name = listed(*pivot, "--sort", "mapping")[1:]
    assert by_name == sorted(best)
    assert main(["results", where, *pivot, "--sort", "dev/loss"]) == 2  # not in the pivot


def test_runs_are_grouped_sorted_and_selected_by_lists(tmp_path, make_record, capsys):
    for name, languages in (("one", ["drovan", "velisk"]), ("two", ["velisk"])):
        publish(tmp_path, make_record(run_id=name, config={"task": {"languages": languages}}))
    command = ["results", f"results_dir={tmp_path}", "--format", "csv"]
    assert main([*command, "--pivot", "task.languages"]) == 0
    groups = pd.read_csv(io.StringIO(capsys.readouterr().out))["task.languages"]
    assert [*groups] == ["[drovan,velisk]", "[velisk]"]
    for settings_of_runs, found in (
        (["--sort", "task.languages"], ["one", "two"]),
        (["task.languages=[velisk]"], ["two"]),
        (["task.languages=[drovan,velisk],[velisk]"], ["one", "two"]),
    ):
        assert main([*command, *settings_of_runs]) == 0
        table = pd.read_csv(io.StringIO(capsys.readouterr().out))
        assert sorted(table["run_id"]) == found


def test_a_pivot_names_what_it_averages_over_and_keeps_optimizers_apart(
    tmp_path, make_record, capsys
):
    for number, (optimizer, rate) in enumerate([("adam", 0.1), ("adam", 0.2), ("sgd", 1.0)]):
        config = {
            "mapping": {"name": "entmax", "alpha": 1.5},
            "training": {"optimizer": optimizer, "learning_rate": rate},
        }
        found = {"test/accuracy": 80.0 + number}
        publish(tmp_path, make_record(run_id=f"b{number}", config=config, metrics=found))
    # The main metric of the first run is not that of the runs with the key.
    other = {"test/uas": 70.0, "dev/loss": 1.0}
    publish(tmp_path, make_record(run_id="a", config={"mapping": {"name": "softmax"}},
                                  metrics=other, signatures=dict.fromkeys(other, "s")))  # fmt: skip
    for form, joined in (("table", "80.50 ± 0.71"), ("latex", r"80.50 $\pm$ 0.71")):
        command = ["results", f"results_dir={tmp_path}", "--pivot", "mapping.alpha"]
        assert main([*command, "--format", form]) == 0
        printed = capsys.readouterr()
        assert "test/accuracy" in printed.out
        assert "test/uas" not in printed.out
        rows = [line for line in printed.out.splitlines() if "adam" in line or "sgd" in line]
        assert joined in rows[0]
        assert "82.00" in rows[1]
        assert printed.err.splitlines()[0] == "averages over training.learning_rate"


def test_latex_tells_small_settings_apart(tmp_path, make_record, capsysbinary):
    for name, rate, layers in (("one", 0.001, 1), ("two", 0.0005, None)):
        config = {"training": {"learning_rate": rate}, "model": {"layers": layers}}
        publish(tmp_path, make_record(run_id=name, config=config))
    text = output(capsysbinary, "results", f"results_dir={tmp_path}", "--format", "latex").decode()
    rows = [line.rstrip("\\ ").split(" & ") for line in text.splitlines() if " & " in line]
    assert [row[-2:] for row in rows[1:]] == [["0.001", "1"], ["0.0005", "-"]]


def test_a_table_is_as_wide_as_the_terminal_and_names_what_it_leaves_out(
    tmp_path, make_record, monkeypatch, capsys
):
    shown = [["a long sentence " * 20], ["another one " * 20]]
    for seed, sentences in enumerate(shown):
        config = {
            "task": {"name": "nmt", "shown": sentences},
            "mapping": {"name": "softmax", "gamma": float(seed)},
            "data": {f"setting_with_a_long_name_{n}": seed for n in range(9)},
        }
        publish(tmp_path, make_record(run_id=f"run-{seed}", seed=seed, config=config))
    publish(tmp_path, make_record(run_id="lacking", config={}, metrics={"dev/loss": 1.0}))
    command = ["results", f"results_dir={tmp_path}", "--metric", "test/accuracy"]
    for width in (60, 90, 1000):
        monkeypatch.setenv("COLUMNS", str(width))
        assert main(command) == 0
        printed = capsys.readouterr()
        titles, *rows = printed.out.splitlines()
        assert max(map(len, (titles, *rows))) <= width
        assert [row.split()[0] for row in rows] == ["run-0", "run-1"]
        names = titles.split()
        assert names[:4] == ["run_id", "mapping.gamma", "seed", "test/accuracy"]
        left_out = {f"data.setting_with_a_long_name_{n}" for n in range(9)} | {"task.shown"}
        left_out -= {*names}
        assert (not left_out) == (width == 1000)
        assert all(name in printed.err for name in left_out)


def test_a_comparison_is_as_wide_as_the_terminal_and_marks_metrics(
    tmp_path, make_record, monkeypatch, capsys
):
    monkeypatch.setenv("COLUMNS", "80")
    metrics = {"test/accuracy": 90.0, "dev/loss": 1.0}
    for name, sentences, loss in (("one", ["long " * 90], 1.0), ("two", ["other " * 90], 1.00001)):
        config = {"task": {"name": "morphology", "shown": sentences}}
        found = metrics | {"dev/loss": loss}
        publish(tmp_path, make_record(run_id=name, config=config, metrics=found))
    assert main(["compare", "one", "two", f"results_dir={tmp_path}"]) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    assert "-0.0" not in text
    (loss,) = [line.split() for line in text.splitlines() if "dev/loss" in line]
    (accuracy,) = [line.split() for line in text.splitlines() if "test/accuracy" in line]
    assert (loss[1], accuracy[1]) == ("↓", "↑")


def test_small_values_of_a_comparison_are_not_printed_as_zero(capsys):
    shown = {"values": [0.0041, 0.0072], "differences": [0.0, 0.0031], "tests": [None, None]}
    metrics = {"train/epoch_minutes": {**shown, "higher_is_better": False, "best": 0.0041}}
    print_comparison({"runs": ["one", "two"], "settings": {}, "metrics": metrics})
    assert "0.0041* 0.0072 (+0.0031)" in capsys.readouterr().out


def test_a_pivot_aggregates_the_filtered_runs(results, capsysbinary):
    arguments = ["results", f"results_dir={results}", "--metric", "dev/loss", "--format", "csv"]
    whole = READERS["csv"](output(capsysbinary, *arguments, "--pivot", "mapping"))
    assert whole.to_dict("list") == {
        "mapping.name": ["entmax", "softmax"], "mean": [1.5, 1.5],
        "std": pytest.approx([0.5**0.5] * 2), "count": [2, 2],
    }  # fmt: skip
    part = READERS["csv"](output(capsysbinary, *arguments, "seed=2", "--pivot", "mapping,seed"))
    assert part[["mapping.name", "seed", "mean", "count"]].to_numpy().tolist() == [
        ["entmax", 2, 2.0, 1], ["softmax", 2, 2.0, 1],
    ]  # fmt: skip


def test_a_pivot_keeps_ensembles_apart(tmp_path, make_record):
    for seed in (1, 2, None):
        kind = "ensemble" if seed is None else "run"
        metrics = {"test/accuracy": 90.0 if seed is None else 70.0 + seed}
        publish(tmp_path, make_record(run_id=str(seed), seed=seed, kind=kind, metrics=metrics))
    found = pivoted(load(tmp_path, ensembles=True), ["scale"], "test/accuracy")
    assert found.set_index("kind")["test/accuracy"].to_dict() == {"run": 71.5, "ensemble": 90.0}


def test_large_seeds_and_values_are_exact(tmp_path, make_record):
    publish(tmp_path, make_record(run_id="one", seed=2**60 + 1))
    publish(tmp_path, make_record(run_id="all", seed=None, kind="ensemble"))
    assert set(load(tmp_path, ensembles=True)["seed"].dropna()) == {2**60 + 1}
    assert text_of(1234567.0) == "1234567"
    assert text_of(0.1) == "0.1"


def test_a_choice_is_found_by_the_name_of_its_file(tmp_path, make_record):
    publish(tmp_path, make_record(run_id="one", config={"loss": {"name": "softmax"}}))
    for name, count in (("cross_entropy", 1), ("softmax", 1), ("entmax", 0)):
        assert len(selected(load(tmp_path), [f"loss={name}"])) == count


def test_a_text_is_compared_as_a_text(tmp_path, make_record):
    """The release 2.10 is another than 2.1, whose run a filter must not remove."""
    for name, release in (("one", "2.1"), ("ten", "2.10")):
        publish(tmp_path, make_record(run_id=name, config={"data": {"release": release}}))
    for release, found in (("2.1", ["one"]), ("2.10", ["ten"]), ("2.1,2.10", ["one", "ten"])):
        rows = selected(load(tmp_path), [f"data.release={release}"])
        assert sorted(rows["run_id"]) == found


def test_a_choice_that_records_do_not_tell_from_another_is_refused(
    tmp_path, make_record, monkeypatch, refused
):
    """Else its runs would be shown, used or removed with those of the other."""
    file = tmp_path / "extension/conf/mapping/mine.yaml"
    atomic_write_text(file, "defaults: [entmax, _self_]\nalpha: 1.7\n")
    monkeypatch.setenv("REPRO_EXTENSIONS", str(tmp_path / "extension"))
    publish(tmp_path, make_record(run_id="one", config={"mapping": {"name": "entmax", "alpha": 2}}))
    where = f"results_dir={tmp_path}"
    for command in (["results"], ["runs", "remove", "--yes"], ["predict", "--best", "dev/loss"]):
        assert "records name it 'entmax', as they do entmax" in refused(
            *command, "mapping=mine", where
        )
    assert len(selected(load(tmp_path), ["mapping=entmax", "mapping.alpha=2"])) == 1
    file.write_text("defaults: [entmax, _self_]\nname: mine\n")  # a name of its own
    assert len(selected(load(tmp_path), ["mapping=mine"])) == 0


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["mapping=sparsemax"], "no finished run below"),
        (["--metric", "test/bleu"], "there are dev/loss, test/accuracy"),
        (["--pivot", "mapping.beta"], "mapping.beta"),
        (["--pivot", "nothing"], "no run has 'nothing'; there are command, commit, corpus, "),
        (["--sort", "nothing"], "no run has it; there are command, commit, corpus, "),
        (["--sort", "test/x"], "no run has it; there are test/accuracy"),
        (["--pivot", "seed", "--sort", "x"], "no run has it; there are count, seed, std, test/acc"),
        (["mapping.beta=2"], "mapping.beta"),
        (["data.folder=/own/c"], "records keep the name of a folder only"),
        (["--pivot", "seed", "--metric", "dev/loss,test/accuracy"], "a pivot averages one metric"),
        (["seeed=2"], "no run has a setting 'seeed' (did you mean 'seed'?)"),
        (["nothing=2"], "no run has a setting 'nothing'; there are command, commit, corpus, "),
    ],
)
def test_what_no_run_has_is_refused(arguments, expected, results, refused):
    assert expected in refused("results", f"results_dir={results}", *arguments)


def test_two_runs_are_compared_by_settings_metrics_and_tests(results, capsys):
    where = f"results_dir={results}"
    assert main(["compare", "softmax-1", "entmax-1", where]) == 0
    settings, metrics, _ = capsys.readouterr().out.split("\n\n")
    assert [line.split() for line in settings.splitlines()] == [
        ["setting", "softmax-", "entmax-1"], ["mapping.name", "softmax", "entmax"],
    ]  # fmt: skip
    rows = {line.split()[0]: line.split()[1:] for line in metrics.splitlines()[1:]}
    assert rows["test/accuracy"][:5] == ["↑", "50.00", "95.00*", "(+45.00,", "p"]
    assert rows["dev/loss"] == ["↓", "1.0000*", "1.0000*", "(+0.0000)"]  # it has no test
    assert main(["compare", "entmax-1", "entmax-1", where]) == 0
    assert capsys.readouterr().out.startswith("no setting differs\n")
    for wrong in ([], ["entmax", "softmax-1"], ["entmax-1"], ["entmax-1", "seed=1"], ["seed=3"]):
        assert main(["compare", *wrong, where]) == 2
    assert not (results / "demo" / "significance.csv").exists()  # reports alone keep tests


def test_a_run_is_shown_from_its_record_alone(tmp_path, make_record, capsys):
    publish(tmp_path, make_record(run_id="0123abcd"))
    assert main(["show", "0123", "--config", f"results_dir={tmp_path}"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("0123abcd  done  record only\n")
    assert "test/accuracy" in shown
    assert "config" in shown
    assert main(["show", "4567", f"results_dir={tmp_path}"]) == 2
    for name in ("0123abcd", "0123ffff"):  # one of them has no record yet
        run_folder(tmp_path, "demo", name).mark_running()
    assert main(["show", "0123", f"results_dir={tmp_path}"]) == 2


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (["compare", "softmax-1", "unknown"], "dev/loss"),
        (["compare", "softmax-1", "unknown", "--html", "compare.html"], "compare.html"),
        (["report"], "report.html"),
    ],
)
def test_an_unknown_metric_is_left_out_and_named_with_its_file(
    command, shown, results, make_record, monkeypatch, capsys, caplog
):
    monkeypatch.chdir(results)
    config = compose_run(["task=morphology"])
    for name, further in (("unknown", {"dev/loss": 1.0}), ("nothing", {})):
        metrics = {"test/novelty": 3.0, "odd": 1.0} | further
        record = make_record(
            run_id=name, config=settings(config), metrics=metrics,
            signatures=dict.fromkeys(metrics, ""),
        )  # fmt: skip
        published = publish(results, record)
    assert main([*command, f"results_dir={results}"]) == 0
    assert shown in capsys.readouterr().out
    named = [text for text in caplog.messages if str(published.with_stem("unknown")) in text]
    (warning,) = named
    assert "'test/novelty', 'odd'" in warning
    assert load(results).set_index("run_id")["test/novelty"]["unknown"] == 3  # data is complete


def test_runs_of_equal_settings_are_compared(tmp_path, make_record, capsys):
    for name in ("one", "two"):  # by two versions of the code
        publish(tmp_path, make_record(run_id=name))
    assert main(["compare", "one", "two", f"results_dir={tmp_path}"]) == 0
    assert capsys.readouterr().out.startswith("no setting differs\n")


def test_contents_of_a_corpus_and_epochs_of_the_code_are_compared(tmp_path, make_record, capsys):
    where = f"results_dir={tmp_path}"
    publish(tmp_path, make_record(run_id="one", epoch=6))
    publish(tmp_path, make_record(run_id="two", epoch=6, fingerprint="a" * 64))
    publish(tmp_path, make_record(run_id="three", epoch=7))
    fingerprints = {"fingerprint": ["f" * 12, "a" * 12]}
    for other, expected in (("two", fingerprints), ("three", {"epoch": [6, 7]})):
        assert main(["compare", "one", other, "--json", where]) == 0
        assert json.loads(capsys.readouterr().out)["settings"] == expected
    assert main(["compare", "one", "two", "three", where]) == 0
    settings = capsys.readouterr().out.partition("\n\n")[0]
    assert [line.split()[0] for line in settings.splitlines()[1:]] == ["fingerprint", "epoch"]


@pytest.mark.parametrize(
    ("changed", "column"),
    [
        ({"fingerprint": "a" * 64}, ["fingerprint", "a" * 12, "f" * 12]),
        ({"epoch": 7}, ["epoch", "7", "6"]),
        ({"seed": 2, "fingerprint": "a" * 64}, ["seed", "2", "1"]),  # the seed tells them apart
    ],
)
@pytest.mark.parametrize("form", ["table", "latex"])
def test_rows_of_equal_settings_show_what_tells_them_apart(
    changed, column, form, tmp_path, make_record, capsys
):
    publish(tmp_path, make_record(run_id="one"))
    publish(tmp_path, make_record(run_id="two", finished="2999-01-01T00:00:00", **changed))
    assert main(["results", f"results_dir={tmp_path}", "--format", form]) == 0
    lines = capsys.readouterr().out.replace("&", "").splitlines()
    rows = [words[:3] for words in map(str.split, lines) if len(words) > 2]
    assert [row[1] for row in rows] == column
    assert "test/accuracy" in rows[0]


def test_values_of_another_signature_are_left_out_of_a_comparison(
    results, make_record, capsys, caplog
):
    where = f"results_dir={results}"
    known = {one.run_id: one for one in all_records(results)}
    for name, text in (("softmax-1", "t"), ("softmax-2", "s|v:9.9")):
        signatures = {"test/accuracy": text, "dev/loss": "s"}
        publish(results, replace(known[name], signatures=signatures))
    runs = ["entmax-1", "softmax-1", "softmax-2"]
    assert main(["compare", *runs, "--json", where]) == 0
    accuracy = json.loads(capsys.readouterr().out)["metrics"]["test/accuracy"]
    assert accuracy["values"] == [95, None, 50]
    assert accuracy["differences"] == [0, None, -45]
    assert accuracy["tests"][1] is None
    assert accuracy["tests"][2]["randomisation"] < 0.01
    (warning,) = caplog.messages
    assert warning == (
        "test/accuracy: the value of run softmax-1 is left out; its signature is t, not s"
    )
    page = results / "compare.html"
    assert main(["compare", *runs, "--html", str(page), where]) == 0
    data = json.loads(re.search(r'id="data">(.*?)</script>', page.read_text())[1])
    assert [run["metrics"].get("test/accuracy") for run in data["runs"]] == [95, None, 50]
    assert all("dev/loss" in run["metrics"] for run in data["runs"])


def test_a_metric_that_the_first_run_lacks_has_no_differences(results, capsys):
    (one,) = [one for one in all_records(results) if one.run_id == "softmax-1"]
    publish(results, replace(one, metrics={"dev/loss": 1.0}, signatures={"dev/loss": "s"}))
    assert main(["compare", "softmax-1", "entmax-1", "--json", f"results_dir={results}"]) == 0
    accuracy = json.loads(capsys.readouterr().out)["metrics"]["test/accuracy"]
    assert accuracy["values"] == [None, 95]
    assert accuracy["differences"] == [None, None]


def test_runs_of_two_epochs_are_compared_without_a_test(results, capsys):
    (one,) = [one for one in all_records(results) if one.run_id == "softmax-1"]
    publish(results, replace(one, epoch=one.epoch - 1))
    where = f"results_dir={results}"
    for other, tested in (("softmax-1", False), ("softmax-2", True)):
        assert main(["compare", "entmax-1", other, "--json", where]) == 0
        accuracy = json.loads(capsys.readouterr().out)["metrics"]["test/accuracy"]
        assert accuracy["differences"] == [0, -45]
        assert (accuracy["tests"][1] is not None) == tested


def test_a_pivot_says_that_runs_lack_a_setting(results, make_record, capsys):
    """As after a version that added it: one seed is no two runs without a word."""
    known = {one.run_id: one for one in all_records(results)}["entmax-1"]
    config = {**known.config, "mapping": {"name": "entmax", "power": 0.5}}
    publish(results, replace(known, run_id="again", config=config))
    where = f"results_dir={results}"
    assert main(["results", "--pivot", "mapping,seed", "--metric", "test/accuracy", where]) == 0
    assert capsys.readouterr().err == "averages over mapping.power\n"
    publish(
        results, replace(known, run_id="third", config=known.config | {"mapping": {"name": "x"}})
    )
    assert "mapping.name" in varying(all_records(results))


def test_speeds_of_different_devices_are_kept_apart(tmp_path, make_record, capsys):
    for name, device, speed in (("a", "cpu (A)", 1.0), ("b", "cpu (A)", 2.0), ("c", "cuda", 9.0)):
        metrics = {"train/tokens_per_second": speed, "dev/loss": speed}
        signatures = dict.fromkeys(metrics, "s")
        publish(tmp_path, make_record(run_id=name, device=device, metrics=metrics,
                                      signatures=signatures, seed=ord(name)))  # fmt: skip
    frame = load(tmp_path)
    speeds = pivoted(frame, ["mapping"], "train/tokens_per_second")
    assert dict(zip(speeds["device"], speeds["count"], strict=True)) == {"cpu (A)": 2, "cuda": 1}
    assert pivoted(frame, ["mapping"], "dev/loss")["count"].tolist() == [3]
    values = [Measurement.of(one, "train/tokens_per_second") for one in all_records(tmp_path)]
    assert may_stand_together(values[:2])
    assert not may_stand_together(values)
    where = f"results_dir={tmp_path}"
    pivot = ["results", where, "--pivot", "mapping", "--metric", "dev/loss", "--format", "csv"]
    assert main(pivot) == 0
    assert "averages over seed" in capsys.readouterr().err


def test_a_pivot_keeps_signatures_apart(results, capsys):
    for one in all_records(results):
        text = {"softmax-1": "t|v:1", "entmax-1": "s|v:9.9"}.get(one.run_id, "s|v:1")
        signatures = {"test/accuracy": text, "dev/loss": text}
        publish(results, replace(one, signatures=signatures))
    command = ["results", "--pivot", "mapping", "--metric", "test/accuracy"]
    assert main([*command, "--format", "csv", f"results_dir={results}"]) == 0
    table = pd.read_csv(io.StringIO(capsys.readouterr().out))
    found = table[["signature", "mapping.name", "mean", "count"]].to_numpy().tolist()
    assert found == [["s", "entmax", 95, 2], ["s", "softmax", 50, 1], ["t", "softmax", 50, 1]]


def test_runs_that_agree_with_filters_are_compared_with_the_first(results, capsys, monkeypatch):
    where = f"results_dir={results}"
    assert main(["compare", "mapping=softmax,entmax", "--json", where]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["runs"] == ["entmax-1", "entmax-2", "softmax-1", "softmax-2"]
    assert found["settings"]["seed"] == [1, 2, 1, 2]
    accuracy = found["metrics"]["test/accuracy"]
    assert accuracy["differences"] == [0, 0, -45, -45]
    assert (accuracy["best"], accuracy["higher_is_better"]) == (95, True)
    first, same, *others = accuracy["tests"]
    assert first is None
    assert same["randomisation"] == 1
    assert all(one["randomisation"] < 0.01 for one in others)
    monkeypatch.setenv("COLUMNS", "40")
    assert main(["compare", "mapping=softmax,entmax", where]) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 40
    assert [line.split()[0] for line in text.splitlines() if line.strip().startswith("s")]


def test_a_plan_counts_runs_and_estimates_their_cost(tmp_path, make_record, capsys):
    name, where = "peters2019/figure6", [f"results_dir={tmp_path}", "hardware=cpu"]
    configs = [
        compose_run([*run.overrides, *where]) for run in plan_runs(load_experiment(name), "demo")
    ]
    every = {str(settings(config)): config for config in configs}
    done, *others = every.values()
    plans, estimate = plan([name], "demo", where)
    assert (plans[0].done, len(plans[0].todo)) == (0, len(every))
    assert [*plans[0].reasons.values()] == [len(every)]
    assert (estimate.unknown, estimate.bytes, estimate.missing) == (len(every), None, ())
    assert main(["plan", name, "scale=demo", *where]) == 0
    assert "minutes" not in capsys.readouterr().out  # nothing is known
    assert plan(["peters2019/figure3"], "demo", where)[1].bytes == 0  # without a run

    record = make_record(
        config=settings(done), seed=done.seed, epoch=NUMERIC_EPOCH, wall_time=60.0,
        device=describe_device(choose_device(done.hardware)),
    )  # fmt: skip
    publish(tmp_path, record)
    assert sum(plan([name], "demo", where)[0][0].reasons.values()) == len(every)
    folder = run_folder(tmp_path, "demo", record.run_id).path
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(bytes(1000))
    (folder / "DONE").touch()
    plans, estimate = plan([name], "demo", where)
    assert (plans[0].done, len(plans[0].todo)) == (1, len(others))
    assert (estimate.seconds, estimate.bytes) == (60.0 * len(others), 1000 * len(others))
    assert main(["plan", name, "scale=demo", *where]) == 0
    assert f"{len(every)} runs: 1 done, {len(others)} to do" in capsys.readouterr().out

    publish(tmp_path, make_record(**{**vars(record), "epoch": NUMERIC_EPOCH - 1}))
    assert plan([name], "demo", where)[0][0].done == 1
    (again,), _ = plan([name], "demo", where, fresh=True)
    assert (again.done, sorted(again.reasons.values())) == (0, sorted([1, len(others)]))


def test_a_plan_takes_times_from_other_processors_where_there_are_no_others(
    tmp_path, make_record, monkeypatch, capsys
):
    name, where = "peters2019/figure6", [f"results_dir={tmp_path}", "hardware=cpu"]
    first = next(plan_runs(load_experiment(name), "demo"))
    config = compose_run([*first.overrides, *where, "seed=99"])
    other = make_record(config=settings(config), seed=99, epoch=NUMERIC_EPOCH,
                        wall_time=60.0, device="cpu (Another, threads: 1)")  # fmt: skip
    publish(tmp_path, other)
    (one,), estimate = plan([name], "demo", where)
    count = len(one.todo)
    assert (estimate.unknown, estimate.elsewhere) == (0, count)
    assert estimate.seconds == 60 * count
    assert main(["plan", name, "scale=demo", *where]) == 0
    assert f"({count} of them" in capsys.readouterr().out
    # Neither the number of threads nor the instruction set makes another device.
    here = f"cpu ({processor()}, threads: 99, AVX0)"
    publish(tmp_path, replace(other, run_id="here", wall_time=30.0, device=here))
    _, estimate = plan([name], "demo", where)
    assert (estimate.elsewhere, estimate.seconds) == (0, 30 * count)
    # A run is of the device that evaluated it, wherever its training began.
    monkeypatch.setattr("repro.runs.plan._device", lambda _: ("cuda", "A"))
    resumed = "cuda (A), training: cuda (B) and cuda (A)"
    publish(tmp_path, replace(other, run_id="resumed", wall_time=20.0, device=resumed))
    _, estimate = plan([name], "demo", where)
    assert (estimate.elsewhere, estimate.seconds) == (0, 20 * count)
    # A short trial is no basis.
    trial = compose_run([*first.overrides, *where, "training.max_steps=1"])
    for path in (tmp_path / "demo" / "records").iterdir():
        path.unlink()
    publish(tmp_path, replace(other, config=settings(trial)))
    assert plan([name], "demo", where)[1].unknown == count


def test_a_comparison_by_filters_keeps_the_settings_that_are_read_first(
    tmp_path, make_record, monkeypatch, capsys
):
    for seed, alpha in ((1, 1.5), (2, 2.0)):
        config = {
            "data": {f"setting_with_a_long_name_{n}": seed for n in range(9)},
            **{group: {"name": "entmax", "alpha": alpha} for group in ("loss", "mapping")},
        }
        publish(tmp_path, make_record(run_id=f"{seed}" * 12, seed=seed, config=config))
    monkeypatch.setenv("COLUMNS", "60")
    page = tmp_path / "c.html"
    assert main(["compare", "seed=1,2", f"results_dir={tmp_path}", "--html", str(page)]) == 0
    assert main(["compare", "seed=1,2", f"results_dir={tmp_path}"]) == 0
    printed = capsys.readouterr()
    for key in ("mapping.alpha", "loss.alpha"):
        assert key in printed.out
    assert "--format" not in printed.err
    assert "loss.alpha=1.5" in page.read_text(encoding="utf-8")


def test_a_figure_that_reads_records_alone_needs_no_folder(tmp_path, make_record):
    name, where = "peters2019/figure4", [f"results_dir={tmp_path}", "hardware=cpu"]
    first = next(plan_runs(load_experiment(name), "demo"))
    done = compose_run([*first.overrides, *where])
    publish(tmp_path, make_record(config=settings(done), seed=done.seed, epoch=NUMERIC_EPOCH))
    assert plan([name], "demo", where)[0][0].done == 1


def test_a_plan_tells_trained_runs_from_those_that_are_only_evaluated(tmp_path):
    where = [f"results_dir={tmp_path}", "hardware=cpu"]
    (one,), estimate = plan(["malaviya2018/table1"], "demo", where)
    trainings = set()
    for run in one.todo:
        content = settings(run)
        del content["decoding"], content["task"]["tuned_metric"]
        trainings.add(json.dumps(content))
    assert estimate.trained == len(trainings) < len(one.todo)


def test_unknown_times_have_the_lower_bound_of_the_costs_page(tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "costs.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\w+)[^|]*\|[^|]*\| ([\d.]+)\S* \|", page, re.MULTILINE)
    printed = {task: float(minutes) for task, minutes in rows if task in LEAST_MINUTES}
    assert printed == LEAST_MINUTES
    where = [f"results_dir={tmp_path}", f"data_dir={tmp_path / 'nowhere'}", "hardware=cpu"]
    (one,), estimate = plan(["peters2019/figure5"], "full", where)
    assert estimate.unknown == len(one.todo) == 3
    assert estimate.seconds == 3 * 60 * LEAST_MINUTES["nmt"]


def test_a_plan_names_missing_data_and_unknown_artefacts(tmp_path, capsys):
    where = [f"results_dir={tmp_path}", f"data_dir={tmp_path / 'nowhere'}"]
    assert main(["plan", "peters2019/figure4", "scale=small", *where]) == 0
    (line,) = [one for one in capsys.readouterr().out.splitlines() if one.startswith("missing: ")]
    assert "multi30k" in line
    assert main(["plan", "peters2019/nothing", *where]) == 2


def test_a_plan_is_that_of_some_columns(tmp_path, capsys):
    where = f"results_dir={tmp_path}"
    for columns, runs in ([], 20), (["--columns", "en"], 10):
        assert main(["plan", "niculae2018/table1", *columns, "--json", where]) == 0
        assert json.loads(capsys.readouterr().out)["to_do"] == runs


def test_a_plan_is_that_of_any_launcher(tmp_path):
    where = f"results_dir={tmp_path}"
    plans = [
        plan(["peters2019/figure2"], "demo", [where, *chosen])[0]
        for chosen in ([], ["hydra/launcher=local", "hydra.launcher.parallel_runs=2"])
    ]
    assert plans[0] == plans[1]


def test_a_paper_is_planned_as_all_its_artefacts(tmp_path, capsys):
    assert main(["plan", "niculae2018", f"results_dir={tmp_path}"]) == 0
    names = {line.split()[0] for line in capsys.readouterr().out.splitlines()}
    assert {one for one in list_experiments() if one.startswith("niculae2018/")} <= names
