"""The command from its arguments to its files; a red gate stops it."""

import csv
from dataclasses import replace

import pytest
import torch

from benchmarks import command, gate
from benchmarks.linear_loss import FUSED, IN_A_ROW, Setting, in_subprocess
from benchmarks.rows import Row, Shape
from benchmarks.structures import CASES, LoopOracle
from repro.structures import sparsemap

QUICK = ["--threads", "1", "--shapes", "2x3", "--seconds", "0"]


@pytest.fixture
def gate_of(monkeypatch, tmp_path):
    """Replaces the tests behind the gate by one assertion."""

    def replace(assertion):
        path = tmp_path / "test_of_the_gate.py"
        path.write_text(f"def test_it():\n    {assertion}\n")
        monkeypatch.setattr(gate, "TESTS", dict.fromkeys(gate.TESTS, (str(path),)))

    return replace


def test_nothing_is_timed_behind_a_red_gate(gate_of, monkeypatch, tmp_path, capsys):
    gate_of("assert 1 == 2")
    timed = []
    monkeypatch.setattr(command, "run", timed.append)
    monkeypatch.setattr(command, "compare", timed.append)
    assert command.main([*QUICK, "--output", str(tmp_path / "results")]) == 1
    printed = capsys.readouterr().out
    assert "assert 1 == 2" in printed
    assert "nothing is timed" in printed
    assert "ms" not in printed
    assert not timed
    assert not (tmp_path / "results").exists()


def test_a_run_prints_and_writes_its_tables(gate_of, tmp_path, capsys):
    gate_of("assert True")
    threads = torch.get_num_threads()
    assert command.main([*QUICK, "--only", "softmax", "--output", str(tmp_path / "results")]) == 0
    assert torch.get_num_threads() == threads
    (folder,) = (tmp_path / "results").iterdir()
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["measurements.csv", "ratios.png", "table.md"]
    line = "| softmax | 2x3 | 1 |"
    assert line in (folder / "table.md").read_text(encoding="utf-8")
    assert line in capsys.readouterr().out


def test_parts_are_printed_only(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(gate, "failure", lambda kinds: None)
    monkeypatch.setattr(command, "_RESULTS", tmp_path / "results")
    assert command.main([*QUICK, "--only", "softmax"]) == 0
    assert "| softmax | 2x3 | 1 |" in capsys.readouterr().out
    assert not (tmp_path / "results").exists()


def test_names_of_rows_may_be_patterns():
    plan = command._plan(["--only", "soft*", "*_loss"])
    names = ["softmax", "cross_entropy_loss", "sparsemax_loss", "entmax_loss"]
    assert [row.name for row in plan.rows] == names
    assert plan.linear


def test_the_gate_runs_the_tests_of_what_is_measured():
    chosen = {only: command._plan(["--only", only]).kinds for only in ("softmax", "sparsemax_loss")}
    assert chosen == {"softmax": {"mapping"}, "sparsemax_loss": {"loss"}}
    assert command._plan(["--only", "linear_loss"]).kinds == {"linear"}
    assert command._plan([]).kinds == {"mapping", "loss", "peer", "linear", "structure"}
    assert command._plan(["--only", "sparsemap_tree"]).kinds == {"structure"}


def test_peers_are_measured_with_the_most_threads_only():
    plan = command._plan(["--threads", "1", "2", "--only", "peer_sparsemax", "softmax"])
    cells = {n: [(row.name, str(s)) for row, s in command._cells(plan, n)] for n in (1, 2)}
    assert len(cells[1]) == 4
    assert cells[2][4:] == [("peer_sparsemax", "1280x18000"), ("peer_sparsemax", "256x32000")]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "softmaxx"], "matches no row; rows: softmax, sparsemax"),
        (["--shapes", "12"], "--shapes"),
        (["--shapes", "0x3"], "0 is not a positive number"),
        (["--threads", "0"], "0 is not a positive number"),
    ],
)
def test_bad_arguments_are_refused_before_anything_runs(arguments, message, capsys):
    with pytest.raises(SystemExit):
        command.main(arguments)
    assert message in capsys.readouterr().err


def test_a_device_that_is_not_there_is_refused(monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit):
        command.main(["--device", "cuda"])
    assert "there is no CUDA device here" in capsys.readouterr().err


def test_threads_are_those_asked_for_and_given_back(monkeypatch):
    seen = []

    def passes(shape, device):
        seen.append(torch.get_num_threads())
        return int, int

    monkeypatch.setattr("benchmarks.timing._COPY_FLOATS", 8)
    row = Row("a", "mapping", passes, 5, "red")
    plan = command.Plan([row], None, [], [Shape(2, 3)], [1, 2], torch.device("cpu"), 0.0, None)
    before = torch.get_num_threads()
    bandwidths, found = command.run(plan)
    assert seen == [1, 2] == [measurement.threads for measurement in found] == list(bandwidths)
    assert torch.get_num_threads() == before


def test_sparsemap_is_timed_beside_the_loop_with_the_most_threads(gate_of, tmp_path, monkeypatch):
    """The loop finds what is compiled; every case has a target there."""
    gate_of("assert True")
    small = [replace(case, shape=(4, 4)) for case in CASES[::2]]
    monkeypatch.setattr(command, "CASES", small)
    arguments = ["--only", "sparsemap_*", "--seconds", "0", "--output", str(tmp_path)]
    assert command.main(arguments) == 0
    (folder,) = tmp_path.glob("*-cpu")
    lines = csv.DictReader((folder / "structures.csv").read_text(encoding="utf-8").splitlines())
    rows = list(lines)
    assert [row["name"] for row in rows] == [case.name for case in small]
    assert all(row["threads"] == "2" and row["target"] for row in rows)
    assert all(float(row["ratio"]) > 1 and float(row["gap"]) <= 1e-6 for row in rows)
    assert "| sparsemap_tree | 20 | 2 |" in (folder / "table.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("case", CASES[::2], ids=lambda case: case.name)
def test_the_loop_solves_the_same_problem(case):
    small = replace(case, shape=(5, 5))
    scores = small.scores(2)
    expected = sparsemap(case.structure, *scores).marginals.flatten(1)
    found = sparsemap(LoopOracle(small), *(s.detach().flatten(1) for s in scores)).marginals
    torch.testing.assert_close(found, expected.detach(), rtol=0, atol=2e-3)


def test_the_fused_loss_needs_less_memory_than_the_two_in_a_row():
    setting = Setting(tokens=512, vocabulary=20_000, size=8, chunk=16)
    costs = {path: in_subprocess(setting, path) for path in (IN_A_ROW, FUSED)}
    scores = setting.tokens * setting.vocabulary * 4 / 2**20
    assert costs[FUSED].peak < costs[IN_A_ROW].peak / 4
    assert costs[IN_A_ROW].peak > scores
    assert all(0 < cost.forward < cost.both for cost in costs.values())


def test_a_path_that_fails_says_why():
    with pytest.raises(RuntimeError, match=r"fused: exit status 1[\s\S]*alpha must be at least 1"):
        in_subprocess(Setting(tokens=2, vocabulary=3, size=2, alpha=0.5), FUSED)
