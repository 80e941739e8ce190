"""The command for a GPU, without one: commands and time are replaced."""

import json
import sys
import tarfile
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from benchmarks import gpu, gpu_report
from benchmarks.gpu import Step, plan, run_command, work
from benchmarks.gpu_report import Report
from benchmarks.machine import bytes_per_second
from benchmarks.training import Runner
from repro.cli import main
from repro.config.compose import compose_run
from repro.config.planning import PlannedRun

SPEED = {"settings": "a", "updates": 1000, "updates_per_second": 10.0, "symbols_per_second": 9.0}


class Card:
    """Fake of commands and clock: every command takes the seconds that are given for it."""

    def __init__(self, **seconds: float) -> None:
        self.seconds, self.now, self.begun = seconds, 0.0, list[str]()
        self.statuses: dict[str, int] = {}

    def clock(self) -> float:
        return self.now

    def run(self, command, limit, log):
        name = log.stem
        self.begun.append(name)
        needed = self.seconds.get(name, 1.0)
        self.now += min(needed, limit)
        return self.statuses.get(name, 0) if needed <= limit else None

    def work(self, steps, folder, seconds, where="here"):
        """Work, and return the state of each step."""
        self.begun.clear()
        states = {}
        for states in work(steps, folder, where, seconds, self.run, self.clock):  # noqa: B007
            pass
        return {name: one["state"] for name, one in states.items()}


def training():
    cell = ("task=morphology", "scale=full", "mapping=entmax")
    run = PlannedRun("peters2019/table1", "1 / 1", "medium (avg.)", 1, cell)
    return Step("long", ("true",), 60, (run,))


def test_the_plan_has_the_stated_order(tmp_path):
    steps = plan(["data_dir=corpora"], tmp_path)
    names = [step.name for step in steps]
    assert len({*names}) == len(names)
    assert names[:4] == ["tests-updates", "tests-tasks", "tests-kernels", "speed-inflection"]
    trainings = ["medium-first", "medium", "high-first", "high", "translation"]
    assert names[-8:] == ["benchmark", "demo", "demo-cpu", *trainings]
    (first, medium, *_, translation) = [step.runs for step in steps[-5:]]
    assert [run.row for run in first] == [row for row in gpu._FIRST for _ in range(3)]
    assert len(medium) == 27
    assert {run.row for run in translation} == {*gpu._ROWS}
    assert {run.column for run in (*first, *medium)} == {"medium (avg.)"}
    trained = [step for step in steps if "repro" in step.command or step.name.startswith("speed")]
    assert all("data_dir=corpora" in step.command for step in trained)
    assert len(trained) == len(steps) - 4
    for step in steps[:3]:
        assert f"--junitxml={tmp_path}/{step.name}.xml" in step.command


def test_every_cuda_test_is_in_one_step(tmp_path):
    """What the last step leaves out, the steps before it run."""
    *before, last = plan([], tmp_path)[:3]
    named = {word for step in before for word in step.command if word.startswith("tests")}
    assert {word.partition("=")[2] for word in last.command if "--ignore" in word} == named
    assert all((gpu.ROOT / path).is_dir() for path in named)


@pytest.mark.parametrize(
    ("given", "expected"),
    [([], "training.graphs=auto"), (["training.graphs=off"], "training.graphs=off")],
)
def test_runs_on_the_card_use_graphs_unless_told_otherwise(given, expected, tmp_path):
    steps = {step.name: step.command for step in plan(given, tmp_path)}
    for name in ("demo", "medium", "translation"):
        assert [word for word in steps[name] if "training.graphs" in word] == [expected]
    assert [word for word in steps["demo-cpu"] if "graphs" in word] == given


def test_trainings_are_commands_of_the_suite(tmp_path):
    """Each is planned by the command that would run it."""
    for step in plan([], tmp_path)[-5:]:
        words = step.command[step.command.index("reproduce") + 1 :]
        assert main(["plan", *words]) == 0


def test_timed_settings_are_those_of_runs(tmp_path):
    for step in plan([], tmp_path):
        if step.name.startswith("speed"):
            words = step.command[step.command.index("benchmarks.training") + 1 :]
            run = compose_run([one for one in words if "=" in one and not one.startswith("--")])
            assert run.hardware.device == ("cpu" if step.name.endswith("-cpu") else "cuda")


def test_what_does_not_fit_is_not_begun(tmp_path):
    steps = [Step("a", (), 100), Step("b", (), 1000), Step("c", (), 300)]
    card = Card(a=50, c=300)
    assert card.work(steps, tmp_path, 400) == {"a": "done", "c": "done"}
    assert card.begun == ["a", "c"]
    assert card.now == 350
    assert card.work(steps, tmp_path, 999) == {}  # nothing is begun: `b` takes longer
    assert card.work(steps, tmp_path, 1000)["b"] == "done"
    assert card.begun == ["b"]


def test_what_takes_longer_than_estimated_is_stopped_and_continued(tmp_path):
    steps, card = [Step("a", (), 100), Step("b", (), 1)], Card(a=500)
    assert card.work(steps, tmp_path, 200) == {"a": "stopped"}
    assert card.now == 200
    card.seconds["a"] = 300
    assert card.work(steps, tmp_path, 400) == {"a": "done", "b": "done"}
    assert json.loads((tmp_path / "state.json").read_text())["a"]["seconds"] == 500


def test_failed_steps_are_repeated_unless_the_outcome_is_known(tmp_path):
    steps, card = [Step("tests", (), 1, known=(0, 1)), Step("run", (), 1)], Card()
    card.statuses = {"tests": 1, "run": 1}
    assert card.work(steps, tmp_path, 100) == {"tests": "done", "run": "failed"}
    card.statuses = {}
    assert card.work(steps, tmp_path, 100) == {"tests": "done", "run": "done"}
    assert card.begun == ["run"]


def test_measurements_of_another_commit_or_device_are_repeated_but_not_runs(tmp_path):
    steps, card = [Step("tests", (), 1), training()], Card()
    card.work(steps, tmp_path, 1000)
    card.work(steps, tmp_path, 1000, where="there")
    assert card.begun == ["tests"]


def _runs(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_command_is_stopped_with_its_children(tmp_path):
    log = tmp_path / "logs" / "a.log"
    script = (
        "import signal, subprocess, sys, time\n"
        "child = subprocess.Popen(['sleep', '60'])\n"
        "print(child.pid, flush=True)\n"
        "signal.signal(signal.SIGTERM, lambda *_: (print('saved', flush=True), sys.exit(130)))\n"
        "time.sleep(60)\n"
    )
    assert run_command([sys.executable, "-c", script], 3, log) is None
    pid, saved = log.read_text().split()
    assert saved == "saved"
    deadline = time.monotonic() + 10  # a signal was sent; the process may still be on its way out
    while _runs(pid):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert run_command([sys.executable, "-c", "raise SystemExit(3)"], 60, log) == 3


@pytest.fixture
def card_of_fakes(monkeypatch):
    """Replaces the device by an H100 as its driver describes it."""
    properties = SimpleNamespace(memory_clock_rate=2_619_000, memory_bus_width=5120)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties)
    described = SimpleNamespace(text="a card, versions, commit abc")
    monkeypatch.setattr(gpu_report, "describe_machine", lambda _: described)
    return properties


MEASURED = "row,shape,milliseconds,ratio,forward,host,host_baseline"


def test_bandwidth_is_that_of_the_data_sheet(card_of_fakes):
    assert bytes_per_second(card_of_fakes) == pytest.approx(3.35e12, rel=1e-3)


def test_a_card_of_unknown_bandwidth_has_a_page(card_of_fakes, tmp_path):
    """Properties of devices have no clock of the memory in older versions of PyTorch."""
    vars(card_of_fakes).clear()
    measured = tmp_path / "benchmark" / "day-card"
    measured.mkdir(parents=True)
    (measured / "measurements.csv").write_text(
        f"{MEASURED}\nsparsemax,2560x32000,0.9,0.8,0.5,0.02,0.01\n"
    )
    Report(tmp_path, tmp_path, [], []).write(tmp_path / "gpu.md", {})
    page = (tmp_path / "gpu.md").read_text("utf-8")
    assert cells(page, "sparsemax")[2:] == ["500.0", "1,311", "", "20.0 (10.0)", "0.9", "0.80"]
    assert "limit is" not in page


def cells(page: str, first: str) -> list[str]:
    """Return the cells of the table row that begins with a cell."""
    (line,) = (line for line in page.splitlines() if line.startswith(f"| {first} |"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_page_shows_what_the_steps_left(card_of_fakes, tmp_path, monkeypatch):
    folder, (run,) = tmp_path / "gpu", training().runs
    demo = PlannedRun("demo", "parsing", "", 1, ("task=parsing", "scale=demo"))
    found = {(folder, run): 91.0, (folder, demo): 90.0, (folder / "cpu", demo): 89.5}
    settings = {folder: ["data_dir=corpora", "training.graphs=auto"]}

    class Records:
        def __init__(self, place, scale, extra):
            assert [*extra[run.experiment]] == settings.get(place, ["data_dir=corpora"])
            self.place = place

        def find(self, one):
            value = found.get((self.place, one))
            return value and SimpleNamespace(metrics={"test/accuracy": value, "test/uas": value})

    monkeypatch.setattr(gpu_report, "Archive", Records)
    measured = folder / "benchmark" / "day-card"
    measured.mkdir(parents=True)
    (measured / "measurements.csv").write_text(
        f"{MEASURED}\nsparsemax,2560x32000,0.9,0.8,0.5,0.02,0.01\n"
        "sparsemax_loss,2560x32000,3.5,3.5,1.0,0.02,0.01\n"
    )
    speeds = {"rows": [SPEED], "processes": {"12": 999.6}}
    (folder / "speed-a.json").write_text(json.dumps(speeds))
    (folder / "tests-tasks.xml").write_text(
        '<testsuites><testsuite tests="5" failures="1" errors="1" skipped="1">'
        '<testcase classname="t" name="one"><failure/></testcase>'
        '<testcase classname="t" name="two"/></testsuite></testsuites>'
    )
    states = {"tests-tasks": {"state": "done", "seconds": 90.0, "where": "abc, a card"}}
    other = PlannedRun(run.experiment, run.row, run.column, 2, run.cell)
    report = Report(folder, tmp_path, [run, other, demo], ["data_dir=corpora"])
    report.write(tmp_path / "gpu.md", states)
    page = (tmp_path / "gpu.md").read_text("utf-8")
    assert "a card, versions, commit abc" in page
    assert cells(page, "tests-tasks")[1:] == ["done", "1.5", "abc, a card"]
    assert "2 passed, 2 failed, 1 skipped" in page
    assert "`t::one`" in page
    assert "`t::two`" not in page
    # 2 x 327.68 MB in 0.5 ms, of 3,352 GB/s
    assert cells(page, "sparsemax")[2:5] == ["500.0", "1,311", "39 %"]
    assert cells(page, "sparsemax_loss")[2:5] == ["1000.0", "", ""]
    assert cells(page, "speed-a")[1:] == ["`a`", "9", "100.0", "1,000"]
    assert "12 side by side: 1,000 updates/s" in page
    name = "peters2019/table1 medium (avg.) 1 / 1"
    assert cells(page, name)[1:] == ["accuracy", "91.00", "", "1 of 2"]
    assert cells(page, "demo parsing")[1:] == ["uas", "90.00", "89.50", "1 of 1"]


def test_the_page_is_written_when_nothing_has_run(card_of_fakes, tmp_path):
    runs = [run for step in plan([], tmp_path) for run in step.runs]
    Report(tmp_path, tmp_path, runs, []).write(tmp_path / "gpu.md", {})
    assert cells((tmp_path / "gpu.md").read_text("utf-8"), "demo snli")[-1] == "0 of 1"


def packed(archive: Path) -> set[str]:
    with tarfile.open(archive) as stream:
        return {*stream.getnames()}


def test_the_archive_has_no_weights_and_keeps_to_its_size(tmp_path, monkeypatch, capsys):
    folder, page = tmp_path / "gpu", tmp_path / "gpu.md"
    page.write_text("page")
    noise = np.random.default_rng(0).bytes(60_000)
    files = {
        "state.json": b"{}", "full/records/1.json": noise[:9000], "logs/a.log": noise[:30_000],
        "full/statistics/1.npz": noise[:20_000], "full/runs/1/model.safetensors": noise,
        "demo/corpora/a.tsv": noise,
    }  # fmt: skip
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    report, archive = Report(folder, tmp_path, [], []), tmp_path / "gpu.tgz"
    kept = {"gpu/gpu.md", "gpu/state.json", "gpu/full/records/1.json"}
    optional = {"gpu/full/statistics/1.npz", "gpu/logs/a.log"}
    assert report.pack(page, archive) == []
    assert packed(archive) == kept | optional
    monkeypatch.setattr(gpu_report, "LIMIT", 35_000)
    assert report.pack(page, archive) == ["logs/a.log"]
    assert "logs/a.log" in capsys.readouterr().out
    assert packed(archive) == kept | {"gpu/full/statistics/1.npz"}
    assert archive.stat().st_size <= 35_000


def test_without_a_card_it_says_so(capsys, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert gpu.main(["data_dir=corpora", "--minutes", "1"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_wrong_setting_is_refused_before_anything_runs(capsys, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(gpu, "run_command", None)
    assert gpu.main(["data_dri=corpora"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "data_dri" in line


def test_one_call_leaves_page_and_archive(card_of_fakes, tmp_path, monkeypatch):
    (tmp_path / "docs").mkdir()
    begun = []
    monkeypatch.setattr(gpu, "ROOT", tmp_path)
    monkeypatch.setattr(gpu, "run_command", lambda command, limit, log: begun.append(log.stem) or 0)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "a card")
    assert gpu.main(["data_dir=corpora", "--minutes", "30"]) == 0
    assert len(begun) == len(plan([], tmp_path))
    assert cells((tmp_path / "docs" / "gpu.md").read_text("utf-8"), "high")[1] == "done"
    assert packed(tmp_path / "results" / "gpu.tgz") == {"gpu/gpu.md", "gpu/state.json"}


def test_the_speed_of_a_training_counts_its_updates():
    runner = object.__new__(Runner)
    runner.name, runner.seconds, runner.symbols = "a", [0.5, 1.5], [10, 30]
    runner.counted = [True, True]
    runner.task = SimpleNamespace(batches=lambda epoch: range(7))
    for steps, epochs, updates in ((None, 3, 21), (20, 3, 20), (20, None, 20)):
        training = SimpleNamespace(max_steps=steps, max_epochs=epochs)
        runner.config = SimpleNamespace(training=training)
        speed = runner.speed()
        assert (speed["updates"], speed["updates_per_second"]) == (updates, 1.0)
        assert speed["symbols_per_second"] == 20.0
