import json
import os
import resource
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import forked
import pytest
import torch
from tutorial import TINY_INFLECTION as TINY

from repro.cli import main
from repro.config.experiment import list_experiments, load_experiment
from repro.results import RunFolder, list_runs
from repro.results.sweeps import read_sweeps, swept, write_sweep
from repro.runs.environment import may_have_gpu


@pytest.fixture
def no_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the packages of all extras be missing."""

    def absent(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("repro.config.errors.version", absent)


def repro(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "repro", *arguments]
    environment = {**os.environ, "COLUMNS": "300"}
    return subprocess.run(command, capture_output=True, text=True, env=environment)


@pytest.mark.parametrize("command", [["--help"], ["run", "--help"], ["reproduce", "--help"]])
def test_help_answers_in_under_two_seconds(command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = repro(*command)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0
    assert "repro" in done.stdout
    # Processor time: other tests run beside this one.
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 2


def test_help_of_run_lists_the_choices_of_a_further_folder(tmp_path, capsys):
    (tmp_path / "mapping").mkdir()
    text = "defaults: [base_entmax, _self_]\nname: entmax\nalpha: 1.125\n"
    (tmp_path / "mapping" / "mine.yaml").write_text(text)
    for typed in (["-cd", str(tmp_path), "--help"], ["-h", f"--config-dir={tmp_path}"]):
        assert main(["run", *typed, "mapping=mine"]) == 0
        shown = capsys.readouterr().out
        assert "learned_alpha_entmax, mine, normmax" in shown
        assert "alpha: 1.125" in shown


def test_help_of_run_lists_the_choices_and_the_composed_configuration():
    shown = repro("run", "--help", "mapping=sparsemax", "seed=7").stdout
    assert "\nmapping: csoftmax, csparsemax, entmax, fusedmax," in shown
    assert "base_" not in shown  # the schemas are no choices
    assert "\nmapping:\n  name: sparsemax\n" in shown
    assert "\nseed: 7\n" in shown
    refused = repro("run", "--help", "mapping=sparsmax")
    assert refused.returncode == 2
    assert "no mapping 'sparsmax'" in refused.stderr


@pytest.mark.parametrize(
    ("command", "status"),
    [
        ("--help", 0),
        ("run --help", 0),
        ("run task=nmtt", 2),
        ("run maping=sparsemax", 2),
        ("run mapping.alpha=high", 2),
        ("plan peters2019/tabel1", 2),
        ("reproduce peters2019/tabel1", 2),
        ("status", 2),
        ("show", 2),
        ("results", 2),
        ("compare 0 1", 2),
        ("data list", 0),
        pytest.param("doctor", 0, marks=pytest.mark.skipif(may_have_gpu(), reason="asks PyTorch")),
        ("plan peters2019/table1 hardware=cpu", 0),
        ("run --dry-run hardware=cpu task=morphology", 0),
        ("run --dry-run hardware=cpu task=nmt", 0),
        ("run --dry-run hardware=cpu task=nli_alignment", 0),
    ],
)
def test_what_trains_nothing_imports_no_torch(command, status, tmp_path):
    folders = {f"REPRO_{key}_DIR": str(tmp_path) for key in ("RESULTS", "DATA")}
    done = without_torch(*command.split(), environment=os.environ | folders)
    assert done.returncode == status, done.stderr


def without_torch(
    *arguments: str, environment: Mapping[str, str] = os.environ
) -> "subprocess.CompletedProcess[str]":
    """Run a command in a process that fails if PyTorch or Numba is imported."""
    code = """
import sys
from repro.cli import main
try:
    status = main(sys.argv[1:])
except SystemExit as end:
    status = end.code
heavy = {"torch", "numba"} & {*sys.modules}
assert not heavy, heavy
sys.exit(status)
"""
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


def test_windows_is_refused_in_one_line():
    """What the command line imports exists there: the locks of runs, by ``fcntl``, do not."""
    code = """
import sys
sys.modules["fcntl"] = None
from repro.cli import main
sys.platform = "win32"
sys.exit(main(sys.argv[1:]))
"""
    for arguments in (["run", "task=nmt"], ["doctor"], ["--help"]):
        command = [sys.executable, "-c", code, *arguments]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 2
        assert "Linux" in done.stderr
        assert done.stderr.count("\n") == 1


def test_a_run_from_any_directory_leaves_nothing_there(tmp_path, capsys):
    (tmp_path / "cwd").mkdir()
    done = forked.run("run", *TINY, f"results_dir={tmp_path / 'r'}", cwd=tmp_path / "cwd")
    assert done.returncode == 0, done.stderr
    assert "test/accuracy" in done.stdout
    again = without_torch("run", *TINY, f"results_dir={tmp_path / 'r'}")
    assert (again.returncode, again.stdout) == (0, done.stdout), again.stderr
    assert list((tmp_path / "cwd").iterdir()) == []
    (folder,) = (tmp_path / "r" / "demo" / "runs").iterdir()
    assert main(["show", folder.name[:5], f"results_dir={tmp_path / 'r'}"]) == 0
    shown = capsys.readouterr().out
    assert "acc|" in shown
    assert "repro run hardware" not in shown  # where it ran is not how to repeat it
    assert "task.setting=medium" in shown


@pytest.mark.parametrize(
    "arguments",
    [
        ["predict", "feed", "--text", "a\udcff"],
        ["run", "task=snli", "results_dir=/tmp/\udcff"],
        ["run", "-m", "task=snli", "results_dir=/tmp/\udcff"],
        ["results", "corpus=\udcff"],
    ],
)
def test_arguments_that_are_not_utf8_are_refused(arguments, refused):
    line = refused(*arguments)
    assert line.endswith("is not UTF-8")
    assert repr(arguments[-1]) in line


@pytest.mark.parametrize("variable", ["REPRO_RESULTS_DIR", "REPRO_DATA_DIR"])
def test_folders_that_are_not_utf8_are_refused_before_a_run(
    variable, tmp_path, monkeypatch, refused
):
    monkeypatch.setenv("REPRO_RESULTS_DIR", str(tmp_path))
    monkeypatch.setenv(variable, str(tmp_path / "\udcff"))
    for sweep in ([], ["-m"]):
        assert "is not UTF-8" in refused("run", *sweep, *TINY)
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["LONG"],
        ["show", "LONG"],
        ["show", "LONG=1"],
        ["show", "--LONG"],
        ["data", "LONG"],
        ["data", "verify", "data_dir=LONG"],
        ["run", "mapping.alpha=LONG"],
        ["run", "mapping=LONG"],
        ["run", "results_dir=LONG"],
    ],
)
def test_long_words_are_not_repeated_in_full(arguments, capsys):
    long = [one.replace("LONG", "x" * 3000) for one in arguments]
    try:
        status = main(long)
    except SystemExit as refused:  # of argparse
        status = int(refused.code or 0)
    assert status == 2
    assert 20 < capsys.readouterr().err.count("x") < 400


def test_a_reader_may_leave_early():
    command = [sys.executable, "-m", "repro", "reproduce", "--list"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as listing:
        listing.stdout.close()
        assert listing.stderr.read() == ""
    assert listing.returncode == 141


def test_ctrl_c_leaves_a_checkpoint_and_the_same_command_continues(tmp_path):
    results = f"results_dir={tmp_path}"
    long = [item for item in TINY if "max_steps" not in item]
    running = forked.start("run", *long, results, "training.max_epochs=400")
    while not list(tmp_path.glob("demo/runs/*/history.jsonl")):  # long before a checkpoint is due
        time.sleep(0.05)
        assert running.process.is_alive()
    os.kill(running.process.pid, signal.SIGINT)
    ended = running.finish(60)
    assert ended.returncode == 130
    assert "the same command continues" in ended.stderr
    (folder,) = (tmp_path / "demo" / "runs").iterdir()
    assert not (folder / "FAILED").exists()
    step = torch.load(folder / "checkpoint.pt", weights_only=True)["progress"]["step"]
    assert 0 < step < 400 * 10


def test_an_interrupt_at_a_terminal_leaves_the_line_of_its_echo(monkeypatch, capsys):
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("repro.cli._dispatch", interrupted)
    found = []
    for terminal in (True, False):
        monkeypatch.setattr(sys.stderr, "isatty", lambda terminal=terminal: terminal)
        assert main(["show"]) == 130
        found.append(capsys.readouterr().err)
    assert found[0] == f"\n{found[1]}"


def test_sigterm_during_the_last_evaluation_keeps_the_training(tmp_path, monkeypatch, capsys):
    def terminated(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(10)

    command = ["run", *TINY, f"results_dir={tmp_path}"]
    with monkeypatch.context() as patched:
        patched.setattr("repro.runs.train.evaluate_best", terminated)
        assert main(command) == 130
    assert "the same command continues" in capsys.readouterr().err
    (run,) = list_runs(tmp_path, "demo")
    assert run.status == "running"
    assert torch.load(run.checkpoint, weights_only=True)["progress"]["finished"]
    with monkeypatch.context() as patched:
        patched.setattr("repro.training.loop.update", terminated)  # nothing is trained twice
        assert main(command) == 0
    assert run.status == "done"


def test_a_sweep_is_checked_before_its_first_run(tmp_path, refused):
    results = f"results_dir={tmp_path}"
    assert "mapping.alpha is 0.5; expected a number >= 1" in refused(
        "run", "-m", *TINY, results, "mapping.alpha=1.5,0.5"
    )
    assert not (tmp_path / "demo").exists()


@pytest.mark.parametrize("option", [[], ["--dry-run"]])
def test_a_sweep_with_the_name_of_another_one_is_refused(tmp_path, refused, option):
    path = write_sweep(tmp_path, swept([["seed=1"], ["seed=2"]], ["a", "b"], "demo", "seeds"))
    command = ["run", "-m", *option, *TINY, f"results_dir={tmp_path}", "seed=3,4", "name=seeds"]
    assert f"repro run -m seed=1,2 name=seeds; choose another name, or remove {path}" in refused(
        *command
    )
    assert [one.axes["seed"] for one in read_sweeps(tmp_path, "demo")] == [["1", "2"]]
    assert list_runs(tmp_path, "demo") == []


def test_a_failing_job_of_a_sweep_is_told_at_the_end(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    runs = tmp_path / "demo" / "runs"
    tiny = [*TINY, "hardware.parallel_runs=1", f"results_dir={tmp_path}"]
    sweep = ["run", "-m", *tiny, "seed=1,2"]
    assert main(sweep) == 0
    first, second = sorted(runs.iterdir())
    for name in ("DONE", "record.json"):
        (first / name).unlink()
    (first / "record.json").mkdir()  # cannot be replaced by a file
    capsys.readouterr()
    assert main(sweep) == 1
    told = capsys.readouterr().err
    assert "1 of 2 runs failed" in told
    assert first.name in told
    assert (first / "traceback.txt").read_text()
    assert (second / "DONE").exists()
    (second / "record.json").write_text('{"metric": ')  # torn
    repaired = forked.run("run", *tiny, f"seed={_seed(second)}")
    assert repaired.returncode == 0
    assert f"{second}: damaged (record.json)" in repaired.stderr
    assert "Traceback" not in repaired.stderr
    (second / "SHA256SUMS").unlink()  # as an earlier version left a run
    (second / "DONE").write_text(json.dumps({"run_id": second.name}))
    (second / "record.json").write_text('{"metric": ')
    damaged = forked.run("run", *tiny, f"seed={_seed(second)}")
    assert damaged.returncode == 2
    torn = f"{second / 'record.json'}: not JSON"
    assert damaged.stderr.splitlines()[-1].startswith(f"repro: {torn}")
    assert "Traceback" not in damaged.stderr


def _seed(run: Path) -> str:
    (line,) = [s for s in (run / "config.yaml").read_text().splitlines() if s.startswith("seed:")]
    return line.removeprefix("seed: ")


COLUMNS = ["plan", "niculae2018/table2", "--columns"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["run", "mapping.alfa=2"], "did you mean 'alpha'"),
        (["run", "task=nmtt"], "(did you mean 'nmt'?); choose task= one of"),
        (["reproduce", "peters2019/table9"], "did you mean 'peters2019/table"),
        (["reproduce", "peters2019/table1", "scale=huge"], "scale= one of demo, full, small"),
        (["run", "scale=small", "data_dir=nowhere"], "repro data fetch sigmorphon2018"),
        (["reproduce", "peters2019/table1", "scale=small", "data_dir=nowhere"], "nowhere"),
        (["report", "scale=tiny"], "choose from: demo, full, small"),
        (["report", "scale=full", "results_dir=nowhere"], "no results in nowhere/full"),
        (["report", "scal=demo"], "unknown setting 'scal=demo'; this command takes scale=... and"),
        (["show", "--config"], "--config: expected a run"),
        (["results", "--json", "--format", "csv"], "--json and --format csv: expected one of them"),
        (["run", "mapping.alpha"], "cannot read 'mapping.alpha'"),
        (["run", "-m", "--cfg", "job"], "-m: --cfg, --info and --hydra-help only print one"),
        (["run", "--cfg", "job", "--info"], "Only one of --run, --multirun, --cfg"),
        (["run", "--cfg", "jbo"], "--cfg is 'jbo'; expected one of job, hydra, all"),
        (["run", "seed=3", "--cfg"], "--cfg is ''; expected one of job, hydra, all"),
        (["run", "--info", "nope"], "--info is 'nope'; expected one of all, config, defaults, "),
        (["run", "--dry-run", "-c", "job"], "--dry-run: --cfg, --info and --hydra-help only"),
        (["run", "--cfg", "job", "-p", "task.foo"], "--package task.foo: the run has no such"),
        (["plan", "niculae2018", "scale=subset"], "'subset'; choose from: demo, small"),
        (["plan", "scale=tiny"], "no artefact has a scale 'tiny'"),
        (["run", "task=parsing", "mapping.alpha=2"], "does not use mapping.alpha=2"),
        (["run", "--cfg", "job", "task=parsing", "mapping.alpha=2"], "not use mapping.alpha=2"),
        (["run", "-m", "task=parsing", "mapping.alpha=2", "seed=1,2"], "not use mapping.alpha=2"),
        (["run", "-m", "task=parsing", "+mapping.alpha=2"], "does not use +mapping.alpha=2"),
        (["run", "-m", "mapping=softmax,entmax", "task=true"], "task=true: "),
        (["run", "-m", "training=1_000"], "training=1_000: "),
        (["run", "-m", "logger=0", "seed=1,2"], "logger=0: "),
        (["run", "-m", "hydra/launcher=1"], "hydra/launcher=1: "),
        (["reproduce", "peters2019/table1", "hydra/launcher=1"], "hydra/launcher=1: "),
        (["run", "results_dir=/dev/null"], "/dev/null is a file; expected a folder"),
        (["report", "results_dir=/dev/null/below"], "/dev/null is a file; expected a folder"),
        (["reproduce", "peters2019/figure3", "results_dir=/dev/null"], "/dev/null is a file"),
        (["reproduce", "peters2019/table1", "peters2019/tabel2"], "mean 'peters2019/table2'"),
        (["reproduce", "peters2018"], "did you mean 'peters2019'"),
        (["reproduce", "peters2019/table1", "hydra/launcher=moon"], "no hydra/launcher 'moon'"),
        (["show", "zzzz"], "begins with 'zzzz'"),
        (["data", "fetch", "nothing"], "sigmorphon2018"),
        (["data", "verify", "dat_dir=x"], "data_dir="),
        (["runn"], "'run'"),
        (["run", "mapping=sparsmax"], "'sparsemax'"),
        (["run", "loss=entmx"], "'entmax'"),
        (["run", "maping=entmax"], "'mapping'"),
        (["run", "seed=1,2"], "run -m"),
        (["run", "mapping.alpha=1,", "1.5"], "without spaces"),
        (["plan", "peters2019/tabel1"], "'peters2019/table1'"),
        (["reproduce", "peters2019/figure3", "--scale", "demo"], "scale=VALUE"),
        (["run", "--seed", "3"], "seed=VALUE"),
        (["results", "--seed=3"], "no option --seed; a setting is seed=VALUE"),
        (["reproduce", "peters2019/table1", "-m"], "no option -m; a setting is KEY=VALUE"),
        (["reproduce", "peters2019/table1", "-cd", "x"], "no option -cd; a setting is KEY=VALUE"),
        (["reproduce", "peters2019/table1", "scale", "demo"], "KEY=VALUE"),
        (["reproduce", "peters2019/figure5", "--dryrun", "scale=demo"], "no option --dryrun"),
        (["reproduce", "peters2019", "scale=smal"], "'small'"),
        (["reproduce", "--dry-run", "peters2019/table1", "--columns", ""], "no column ''"),
        (["plan", "peters2019/table1", "--columns", ""], "no column ''"),
        (["plan", "peters2019/table1", "--rows", "1 / 3"], "no row '1 / 3'; choose from: 1 / 1, "),
        ([*COLUMNS, 'nowhere,"MultiNLI, nowhere"'], "'nowhere, MultiNLI, nowhere'"),
        ([*COLUMNS, "nowhere,MultiNLI nonzero"], "no column 'nowhere'"),
        ([*COLUMNS, "MultiNLI nonzero", "seed=none"], "seed=none: niculae2018/table2 sets seed"),
    ],
)
def test_bad_input_is_one_clear_line(arguments, expected, refused):
    assert expected in refused(*arguments)


@pytest.mark.usefixtures("no_extras")
@pytest.mark.parametrize("command", [["run"], ["run", "-m", "seed=1,2"]])
def test_a_logger_without_its_package_is_refused_before_the_first_run(command, tmp_path, refused):
    assert "logger=wandb needs wandb" in refused(
        *command, "logger=wandb", f"results_dir={tmp_path}"
    )
    assert not (tmp_path / "demo" / "runs").exists()


@pytest.mark.parametrize("command", [["run"], ["run", "-m"], ["reproduce", "peters2019/table1"]])
def test_a_missing_device_is_refused_before_the_first_run(command, tmp_path, monkeypatch, refused):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    line = refused(*command, "hardware=cuda", f"results_dir={tmp_path}")
    assert line.startswith("hardware=cuda: no CUDA device here")
    assert not (tmp_path / "demo" / "runs").exists()


def test_a_read_only_results_folder_is_refused_before_the_first_run(tmp_path, monkeypatch, refused):
    monkeypatch.setattr("os.access", lambda path, mode: Path(path) != tmp_path)
    assert f"{tmp_path} is read-only" in refused("run", f"results_dir={tmp_path / 'new'}")


def test_a_file_that_the_system_refuses_is_one_clear_line(monkeypatch, refused):
    def refuse(*_arguments: object) -> int:
        raise PermissionError(13, "Permission denied", "data/conll2018")

    monkeypatch.setattr("repro.data.commands.run", refuse)
    assert refused("data", "verify") == "data/conll2018: Permission denied"


def test_the_artefacts_are_listed(capsys):
    assert main(["reproduce", "--list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list_experiments()


def test_settings_may_stand_behind_an_option(tmp_path, capsys):
    where = f"results_dir={tmp_path}"
    assert main(["reproduce", "peters2019/figure5", "--dry-run", "scale=demo", where]) == 0
    assert capsys.readouterr().out.endswith(" to do, 0 done\n")
    assert not (tmp_path / "demo" / "runs").exists()
    assert main(["reproduce", "peters2019/figure3", "--fresh", "scale=demo", where]) == 0
    report = tmp_path / "demo" / "report.html"
    assert capsys.readouterr().out == f"{report}\n"
    assert load_experiment("peters2019/figure3").title in report.read_text(encoding="utf-8")


def test_names_settings_and_options_stand_in_any_order(tmp_path, capsys):
    RunFolder(tmp_path / "demo" / "runs" / "0123abcd").mark_running()
    assert main(["show", f"results_dir={tmp_path}", "--config", "0123"]) == 0
    assert capsys.readouterr().out.startswith("0123abcd  interrupted")
    assert main(["data", "list", "--json", f"data_dir={tmp_path}", "sigmorphon2018"]) == 0
    assert [one["name"] for one in json.loads(capsys.readouterr().out)] == ["sigmorphon2018"]


@pytest.mark.usefixtures("no_extras")
@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["run", "-m", "hydra/launcher=slurm"], "[slurm]"),
        (["run", "-m", "hydra/launcher=joblib"], "[parallel]"),
        (["run", "-m", "hydra/sweeper=optuna"], "[optuna]"),
        (["reproduce", "peters2019/table1", "hydra/launcher=slurm", "--detach"], "[slurm]"),
        *(
            (["plan", "peters2019/table1", "hydra/launcher=slurm", setting], named)
            for setting, named in (
                ("hydra.launcher.time=0", "hydra.launcher.time is 0; expected an integer >= 1"),
                ("hydra.launcher.memory_gb=x", "is 'x'; expected an integer >= 1, or null"),
                ("hydra.launcher.setup=x", "hydra.launcher.setup is 'x'; expected a list"),
                ("hydra.launcher.report=1", "hydra.launcher.report is 1; expected true or false"),
            )
        ),
        (["run", "-m", "hydra/launcher=slurm", "hydra/sweeper=basic"], "[slurm]"),
        (["run", "-m", "hydra/sweeper=basic", "+hydra.sweeper.x=1"], "hydra.sweeper.x: unknown"),
        (["reproduce", "peters2019/table1", "hydra/launcher=slurm"], "[slurm]"),
        (["reproduce", "peters2019/table1", "--detach"], "hydra/launcher=slurm"),
        (["run", "-m", "--detach"], "hydra/launcher=slurm"),
        (["run", "hydra/launcher=slurm"], "-m"),
        (["run", "++hydra.launcher.parallel_runs=3"], "-m"),
        (["run", "hydra.launcher.parallel_runs=2"], "-m"),
        (["run", "--detach"], "-m"),
        (["run", "name=mine"], "name=mine names a sweep; add -m"),
        (["run", "hydra.job.chdir=true"], "hydra.job.chdir=true changes nothing"),
        (["run", "hydra.run.dir=here", "--dry-run"], "hydra.run.dir=here changes nothing"),
        *(
            (command, f"is {value}; expected an integer >= 0, or null")
            for typed, value in (("two", "'two'"), ("1.5", "1.5"), ("-3", "-3"), ("true", "True"))
            for command in (
                ["run", "-m", "--dry-run", "seed=1,2", f"hydra.launcher.parallel_runs={typed}"],
                ["run", "-m", "seed=1,2", f"hydra.launcher.parallel_runs={typed}"],
                ["reproduce", "peters2019/table1", f"hydra.launcher.parallel_runs={typed}"],
            )
        ),
        *(
            ([command, "peters2019/table1", setting], named)
            for command in ("plan", "reproduce")
            for setting, named in (
                ("+hydra.launcher.foo=1", "hydra.launcher.foo: unknown key 'foo'"),
                ("hydra.launcher=3", "hydra.launcher is 3; expected hydra/launcher=NAME"),
                ("hydra/launcher=nope", "no hydra/launcher 'nope'"),
                ("hydra.launcher.foo=1", "foo"),
                ("hydra.sweeper.dry_run=true", "changes nothing in an artefact"),
                ("hydra/sweeper=grid", "changes nothing in an artefact"),
                ("+hydra.callbacks.x._target_=nope.X", "changes nothing in an artefact"),
                ("hydra.job.chdir=true", "changes nothing in an artefact"),
                ("hydra.searchpath=[conf]", "use REPRO_EXTENSIONS"),
            )
        ),
    ],
)
def test_a_launcher_that_cannot_be_used_is_refused_before_any_work(
    arguments, named, tmp_path, monkeypatch, refused
):
    if "joblib" in arguments[-1] or "optuna" in arguments[-1]:
        monkeypatch.setattr("hydra.core.plugins.Plugins.discover", lambda *_: [])
    line = refused(*arguments, f"results_dir={tmp_path / 'r'}")
    assert named in line
    assert len(line) < 140  # no error of Hydra around it
    assert not (tmp_path / "r").exists()


@pytest.mark.usefixtures("no_extras")
@pytest.mark.parametrize(
    "command",
    [
        ["plan", "peters2019/figure2"],
        ["reproduce", "peters2019/figure2", "--dry-run"],
        ["run", "-m", "seed=1,2", "--dry-run"],
    ],
)
def test_runs_of_a_launcher_are_listed_without_its_extra(command, tmp_path, capsys):
    assert main([*command, "hydra/launcher=slurm", f"results_dir={tmp_path}"]) == 0
    assert capsys.readouterr().out


def test_show_without_a_run_lists_the_newest_ten(tmp_path, capsys):
    assert main(["show", f"results_dir={tmp_path}"]) == 2
    capsys.readouterr()
    names = [f"run{number:02}" for number in range(12)]
    for place, name in enumerate(names):
        folder = tmp_path / ("demo" if place % 2 else "small") / "runs" / name
        folder.mkdir(parents=True)
        os.utime(folder, (place, place))
    assert main(["show", f"results_dir={tmp_path}"]) == 0
    _, *rows = capsys.readouterr().out.splitlines()
    assert [row.split()[0] for row in rows] == names[:1:-1]


SPECIAL = "mü ll[er] {1}=o'k, 'ähm"


def test_folders_with_special_characters_need_no_quotes(tmp_path, capsys, monkeypatch):
    own = tmp_path / SPECIAL / "own"
    own.mkdir(parents=True)
    for split in ("train", "dev", "test"):
        (own / f"{split}.de").write_text("das ist ein Satz\n" * 4)
        (own / f"{split}.en").write_text("this is a sentence\n" * 4)
    monkeypatch.chdir(tmp_path / SPECIAL)
    results = tmp_path / SPECIAL / "results"
    tiny = [
        "hardware=cpu", "training.max_steps=1", "model.embedding_size=4", "model.hidden_size=4",
        "task=nmt", "decoding.max_length=3", "decoding.beam_size=1", "task.stored_examples=0",
    ]  # fmt: skip
    corpus = ["data.generated=false", "data.source=de", "data.target=en", "data.merges=0"]
    command = [*tiny, *corpus, f"results_dir={results}"]
    assert main(["run", *command, "data.folder=own", "data_dir=."]) == 0, capsys.readouterr().err
    (run,) = list_runs(results, "demo")
    capsys.readouterr()
    for sweep in ([], ["-m", "seed=2,3"]):
        assert main(["run", *sweep, *command, f"data.folder={own}", "--dry-run"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2 + 3
    assert {path.name for path in (tmp_path / SPECIAL).iterdir()} == {"own", "results"}
    reproduce = ["peters2019/figure3", f"results_dir={results}", f"data_dir={own}"]
    assert main(["reproduce", *reproduce]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == str(results / "demo" / "report.html")
    assert main(["show", run.run_id, f"results_dir={results}"]) == 0


def test_corpora_are_listed_and_verified(tmp_path, capsys):
    for command in (["data"], ["data", "list"]):
        assert main(command) == 0
        assert {"sigmorphon2018", "multi30k"} <= {*capsys.readouterr().out.split()}
    assert main(["data", "verify", "sigmorphon2018", f"data_dir={tmp_path}"]) == 1


def test_bash_completes_command_lines(tmp_path):
    (tmp_path / "demo" / "runs" / "0123abcd").mkdir(parents=True)
    line = "repro run task=parsing model.lstm_s"
    shown = f"repro show results_dir={tmp_path} 0"
    script = f"""
        repro() {{ {shlex.quote(sys.executable)} -m repro "$@"; }}
        eval "$(repro completion)"
        for COMP_LINE in "repro rep" {shlex.quote(line)} "{shown}" "repro data fetch sigmor"; do
            COMP_POINT=${{#COMP_LINE}}
            _repro
            printf '%s|' "${{COMPREPLY[@]}}"
        done
        complete -p repro
    """
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    assert done.stderr == ""
    *words, registered = done.stdout.split("|")
    expected = ["0123abcd", "model.lstm_size=", "report ", "reproduce ", "sigmorphon2018"]
    assert sorted(words) == expected
    assert "-F _repro" in registered


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [([], "reproduce"), (["help"], "reproduce"), (["help", "plan"], "repro plan"),
     (["help", "run"], "mapping")],
)  # fmt: skip
def test_the_command_alone_and_help_explain(arguments, shown, capsys):
    with suppress(SystemExit):
        assert main(arguments) == 0
    printed = capsys.readouterr()
    assert shown in printed.out
    assert printed.err == ""
