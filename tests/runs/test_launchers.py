"""Sweepers and launchers of Hydra, the suite's and those of others."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from repro.cli import main
from repro.results import RunFolder, list_runs
from repro.results.files import read_object
from repro.runs.execute import monitored

SHORT = ["training.max_steps=2", "task.stored_examples=1", "hardware.threads=1"]


def statuses(results: Path) -> list[str]:
    return [run.status for run in list_runs(results, "demo")]


def without(package: str) -> bool:
    try:
        return find_spec(package) is None
    except ModuleNotFoundError:
        return True


@pytest.fixture(params=["local", "joblib", "basic"])
def launcher(request: pytest.FixtureRequest) -> str:
    if request.param == "joblib" and without("hydra_plugins.hydra_joblib_launcher"):
        pytest.skip("no joblib launcher here")
    return request.param


def test_a_launcher_brings_a_sweep_to_its_end(launcher, tiny, tmp_path, capfd):
    sweep = ["run", "-m", *tiny, *SHORT, "seed=1,2", f"hydra/launcher={launcher}"]
    assert main([*sweep, "--dry-run"]) == 0
    assert capfd.readouterr().out.splitlines()[-1] == "2 runs, 0 of them done"
    assert main([*sweep, "hardware.parallel_runs=2"]) == 0
    assert statuses(tmp_path) == ["done", "done"]


def test_a_sweep_lies_beside_its_runs(launcher, tiny, tmp_path, capfd, monkeypatch):
    monkeypatch.setenv("REPRO_RESULTS_DIR", str(tmp_path / "default"))
    folder = tmp_path / "my results"
    params = f"+hydra.sweeper.params={{results_dir: '{folder}', seed: '1,2'}}"
    assert main(["run", "-m", *tiny[1:], *SHORT, params, f"hydra/launcher={launcher}"]) == 0
    (found,) = folder.glob("demo/sweeps/*/sweep.json")
    assert {*read_object(found)["runs"]} == {run.run_id for run in list_runs(folder, "demo")}
    assert [path for path in found.parent.parent.iterdir() if path.is_dir()] == [found.parent]
    assert not (tmp_path / "default").exists()
    assert f"report scale=demo results_dir='{folder}' --sweep" in capfd.readouterr().err
    assert main(["status", f"results_dir={folder}"]) == 0
    assert found.parent.name in capfd.readouterr().out


def test_a_launcher_computes_the_runs_that_were_typed(launcher, tmp_path):
    """Hydra itself reads the release 2.10 as the number 2.1."""
    parser = ["task=parsing", "loss=structured_perceptron", "model.layers=1", "hardware=cpu"]
    typed = ["data.release=2.10", "seed=4", "++seed=1,2", f"hydra/launcher={launcher}"]
    sweep = ["run", "-m", *parser, *SHORT, "task.compared=0", *typed]
    assert main([*sweep, f"++results_dir={tmp_path}"]) == 0
    records = [RunFolder(run.path).read_record() for run in list_runs(tmp_path, "demo")]
    assert sorted(one.seed for one in records) == [1, 2]
    for record in records:
        assert record.config["data"]["release"] == "2.10"
        assert "data.release=2.10" in record.command.split()
        assert "results_dir" not in record.command
    (written,) = (tmp_path / "demo" / "sweeps").glob("*.json")
    assert read_object(written)["axes"] == {"seed": ["1", "2"]}


@pytest.mark.parametrize(("typed", "runs"), [("2.10", 1), ("2.10, 2.20", 2)])
def test_hydras_own_sweeper_computes_the_texts_that_were_typed(typed, runs, tmp_path):
    parser = ["task=parsing", "loss=structured_perceptron", "model.layers=1", "hardware=cpu"]
    sweep = [f"data.release={typed}", "hydra/sweeper=basic", f"++results_dir={tmp_path}"]
    assert main(["run", "-m", *parser, *SHORT, "task.compared=0", *sweep]) == 0
    records = [RunFolder(run.path).read_record() for run in list_runs(tmp_path, "demo")]
    assert len(records) == runs
    assert {one.config["data"]["release"] for one in records} == {*typed.split(", ")}


def test_hydras_own_sweeper_works_and_stops_at_a_failure(tiny, tmp_path, monkeypatch, capsys):
    sweep = ["run", "-m", *tiny, *SHORT, "hydra/sweeper=basic"]
    assert main([*sweep, "seed=1,2"]) == 0
    assert statuses(tmp_path) == ["done", "done"]
    assert main([*sweep, "seed=5,6", "name=mine"]) == 2  # only a grid is kept by its name
    assert statuses(tmp_path) == ["done", "done"]
    monkeypatch.setattr("repro.runs.train.build_task", lambda *_: 1 / 0)
    assert main([*sweep, "seed=3,4"]) == 1
    assert "ZeroDivisionError" in capsys.readouterr().err.splitlines()[-1]


IN_TURN = ["hydra/sweeper=optuna", "hydra.sweeper.direction=maximize", "hydra.sweeper.n_jobs=1"]


@pytest.mark.parametrize(
    ("sweep", "key"),
    [
        (["hardware=cpu,auto"], "hardware"),
        (["hydra/sweeper=basic", "hardware.threads=1,2", "seed=1,2"], "hardware.threads"),
        ([*IN_TURN, "hardware.threads=choice(1,2)", "seed=range(1,9)"], "hardware.threads"),
        ([*IN_TURN, "+study=mine"], "logger"),
    ],
)
@pytest.mark.filterwarnings("ignore")  # of Optuna 2 about its own dependencies
def test_what_is_no_part_of_an_identity_has_one_value(sweep, key, tiny, tmp_path, capsys):
    if IN_TURN[0] in sweep and without("hydra_plugins.hydra_optuna_sweeper"):
        pytest.skip("no Optuna sweeper here")
    (tmp_path / "conf/study").mkdir(parents=True)
    params = "# @package _global_\nhydra: {sweeper: {params: {logger: 'choice(none,csv)'}}}\n"
    (tmp_path / "conf/study/mine.yaml").write_text(params, encoding="utf-8")
    further = ["-cd", str(tmp_path / "conf")]
    assert main(["run", "-m", *tiny, *SHORT[:2], *sweep, *further]) == 2
    expected = f"repro: {key} is swept, but its runs would be one: name one value"
    assert capsys.readouterr().err.splitlines()[-1] == expected
    assert statuses(tmp_path) == []


def test_a_sweep_has_one_folder_of_results(tiny, tmp_path, refused):
    folder = tmp_path / "conf/experiment"
    folder.mkdir(parents=True)
    for name in ("a", "b"):
        text = f"# @package _global_\nresults_dir: {tmp_path}/{name}\n"
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    further = ["-cd", str(tmp_path / "conf"), "+experiment=a,b"]
    assert f"{tmp_path}/a and {tmp_path}/b" in refused("run", "-m", *further, *tiny[1:], *SHORT)
    assert not [*tmp_path.glob("?/demo/runs/*")]


def test_a_run_that_ended_without_a_word_is_a_failure(tiny, monkeypatch):
    """On a full disk, a run can mark nothing."""
    monkeypatch.setattr("repro.runs.launch.launch_jobs", lambda *_: None)
    assert main(["run", "-m", *tiny, *SHORT, "seed=1,2"]) == 1


def test_a_launcher_of_ones_own_extends_one_of_the_package(tiny, tmp_path, refused):
    path = tmp_path / "conf/hydra/launcher/ours.yaml"
    path.parent.mkdir(parents=True)
    sweep = ["run", "-m", *tiny, *SHORT, "seed=1,2", "hydra/launcher=ours"]
    sweep += ["-cd", str(tmp_path / "conf")]
    path.write_text("defaults: [local, _self_]\nparallel_runs: -1\n", encoding="utf-8")
    assert "hydra.launcher.parallel_runs is -1; expected an integer" in refused(*sweep)
    assert main([*sweep, "hydra.launcher.parallel_runs=1"]) == 0
    assert statuses(tmp_path) == ["done", "done"]


def test_reproduce_uses_the_launcher_that_it_is_given(table, tiny, tmp_path):
    command = ["reproduce", table, f"++{tiny[0]}", *tiny[1:], *SHORT]
    assert main([*command, "hydra/launcher=basic", "-q"]) == 0
    assert statuses(tmp_path) == ["done"] * 3
    assert [*tmp_path.glob("demo/sweeps/*/sweep.json")]
    one_by_one = [*command, "hydra.launcher.parallel_runs=1", "-q"]
    assert main(one_by_one) == 0  # nothing is left to do
    assert main([*command, "hydra.launcher.job=1"]) == 2  # no such setting


@pytest.mark.skipif(without("hydra_plugins.hydra_optuna_sweeper"), reason="no Optuna sweeper here")
@pytest.mark.filterwarnings("ignore")  # of Optuna 2 about its own dependencies
def test_optuna_maximizes_the_monitored_metric(tiny, tmp_path, capfd):
    tuned = "training.learning_rate=interval(0.0001,0.1)"
    search = ["run", "-m", *tiny, *SHORT, *IN_TURN, "hydra.sweeper.n_trials=3", tuned]
    for direction in ("[maximize,minimize]", "minimize"):
        assert main([*search, f"hydra.sweeper.direction={direction}"]) == 2
        assert "the larger the better; expected maximize" in capfd.readouterr().err
    without = [one for one in search if "direction" not in one]  # Optuna would minimize
    assert main(without) == 2
    assert main(search) == 0
    assert statuses(tmp_path) == ["done"] * 3
    ends = re.findall(r"^ +done \S+ (\d of \d)  (\S+)(?: .*)?$", capfd.readouterr().err, re.M)
    assert [counted for counted, _ in ends] == ["1 of 3", "2 of 3", "3 of 3"]
    assert {label.partition("=")[0] for _, label in ends} == {"training.learning_rate"}
    (found,) = (tmp_path / "demo" / "sweeps").glob("*/optimization_results.yaml")
    best = max(monitored(RunFolder(run.path)) for run in list_runs(tmp_path, "demo"))
    assert yaml.safe_load(found.read_text())["best_value"] == best
    found.unlink()
    chosen = "mapping=choice(entmax)"  # no trial of the second search is to do
    for _ in range(2):
        assert main(["run", "-m", *tiny, *SHORT, *IN_TURN, "hydra.sweeper.n_trials=1", chosen]) == 0
        (found,) = (tmp_path / "demo" / "sweeps").glob("*/optimization_results.yaml")
        found.unlink()
