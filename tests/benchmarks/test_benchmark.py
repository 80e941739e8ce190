"""Behind a green gate every row is measured, in turn with its baseline, and written."""

import csv
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from benchmarks import __main__ as command
from benchmarks import accuracy
from benchmarks.rows import Shape, all_rows, target_for
from benchmarks.timing import Timing, cpu_seconds, paired
from repro.mappings import MAPPINGS

QUICK = ["--threads", "1", "2", "--shapes", "4x4", "--seconds", "0"]


@pytest.fixture
def gate_of(monkeypatch, tmp_path):
    """Replaces the tests behind the gate by one assertion."""

    def replace(assertion):
        path = tmp_path / "test_of_the_gate.py"
        path.write_text(f"def test_it():\n    {assertion}\n")
        monkeypatch.setattr(command, "TESTS", dict.fromkeys(command.TESTS, (str(path),)))

    return replace


def test_nothing_is_timed_behind_a_red_gate(gate_of, monkeypatch, tmp_path, capsys):
    gate_of("assert 1 == 2")
    timed = []
    monkeypatch.setattr(command, "paired", lambda *given: timed.append(given))
    assert command.main([*QUICK, "--output", str(tmp_path / "results")]) == 1
    assert "assert 1 == 2" in capsys.readouterr().out
    assert not timed
    assert not (tmp_path / "results").exists()


def test_every_row_is_measured_and_written(gate_of, tmp_path):
    gate_of("assert True")
    before = torch.get_num_threads()
    assert command.main([*QUICK, "--output", str(tmp_path / "results")]) == 0
    assert torch.get_num_threads() == before
    (folder,) = (tmp_path / "results").iterdir()
    assert (folder / "ratios.png").read_bytes().startswith(b"\x89PNG")
    rows = list(csv.DictReader((folder / "measurements.csv").read_text("utf-8").splitlines()))
    kinds = {row.name: row.kind for row in all_rows()}
    assert {row["row"] for row in rows} == {*kinds} > {*MAPPINGS}
    table = (folder / "table.md").read_text("utf-8")
    for row in rows:
        once = kinds[row["row"]] in ("peer", "structure")
        assert row["threads"] == "2" if once else row["threads"] in "12"
        assert float(row["ratio"]) > 0
        assert f"| {row['row']} | 4x4 | {row['threads']} |" in table


def test_targets_hold_for_two_threads():
    assert target_for("cpu", 2, "sparsemax", Shape(1280, 50)) == 1.5
    assert target_for("cpu", 2, "sparsemax", Shape(1280, 400)) == 1.2
    assert target_for("cpu", 1, "sparsemax", Shape(1280, 400)) is None
    assert target_for("cpu", 2, "fusedmax", Shape(1280, 18_000)) is None
    assert target_for("cuda", 1, "sparsemax", Shape(1280, 50)) == 1.2
    met = command.Line("a", "1x2", 2, 1.0, 1.0, 1.2, 3, 1.2)
    assert [str(one)[-6:] for one in (met, met._replace(ratio=1.21))] == [" yes |", "| no |"]


def test_every_kind_has_tests_that_exist():
    assert {row.kind for row in all_rows()} <= set(command.TESTS)
    for paths in command.TESTS.values():
        assert all((Path(command.ROOT) / path).exists() for path in paths)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "softmaxx"], "matches no row; rows: softmax, sparsemax"),
        (["--shapes", "12"], "12 is not a shape such as 1280x50"),
        (["--shapes", "12x0"], "0 is not a positive number"),
        (["--shapes", "4x4", "4x5"], "--shapes 4x5: sparsemap_tree takes square ones"),
        (["--threads", "0"], "0 is not a positive number"),
    ],
)
def test_bad_arguments_are_refused_before_anything_runs(arguments, message, capsys):
    with pytest.raises(SystemExit):
        command.main(arguments)
    assert message in capsys.readouterr().err


def test_a_line_that_accuracy_does_not_have(capsys):
    with pytest.raises(SystemExit):
        accuracy.main(["--only", "softmaxx"])
    assert "matches no line; lines: softmax; entmax, α = 1.01;" in capsys.readouterr().err


def test_a_row_that_a_kernel_refuses_is_named_and_the_others_are_measured(
    monkeypatch, tmp_path, capsys
):
    rows = [row for row in all_rows() if row.name in ("sparsemax", "fusedmax")]

    def refuse(_shape, _device):
        def fail():
            raise RuntimeError("REPRO_KERNELS=require: refused")

        return fail, fail

    rows[1] = rows[1]._replace(passes=refuse)
    monkeypatch.setattr(command, "all_rows", lambda: rows)
    monkeypatch.setattr(command, "failure", None)  # not called
    arguments = ["--threads", "1", "--shapes", "4x4", "--seconds", "0", "--tested"]
    assert command.main([*arguments, "--output", str(tmp_path)]) == command.UNMEASURED
    assert f"{rows[1].name} 4x4: REPRO_KERNELS=require" in capsys.readouterr().err
    (path,) = tmp_path.glob("*/measurements.csv")
    (row,) = csv.DictReader(path.read_text("utf-8").splitlines())
    assert row["row"] == rows[0].name


def test_what_was_measured_is_written_if_stopped(monkeypatch, tmp_path):
    times = iter([Timing([1.0], [2.0])])

    def stop_after_one(*_given):
        for timing in times:
            return timing
        raise SystemExit(143)

    monkeypatch.setattr(command, "paired", stop_after_one)
    with pytest.raises(SystemExit):
        command.main(["--tested", *QUICK, "--output", str(tmp_path)])
    (path,) = tmp_path.glob("*/measurements.csv")
    (row,) = csv.DictReader(path.read_text("utf-8").splitlines())
    assert float(row["ratio"]) == 0.5


def test_passes_alternate_and_the_warm_up_does_not_count():
    order = []
    times = iter([100.0, 100.0, 3.0, 1.0, 4.0, 2.0, 9.0, 1.0])

    def clock(work):
        work()
        return next(times, 0.0) or 5.0

    timing = paired(lambda: order.append("a"), lambda: order.append("b"), clock, seconds=0.0)
    assert order == ["a", "b"] * (1 + timing.rounds)
    assert (timing.measured[0], timing.baseline[0]) == (3.0, 1.0)


def test_the_ratio_is_the_median_over_rounds():
    timing = Timing([3.0, 4.0, 9.0], [1.0, 2.0, 1.0])
    assert timing.rounds == 3
    assert timing.ratio == 3.0


def test_more_time_means_more_rounds_up_to_a_limit():
    rounds = [paired(int, int, cpu_seconds, seconds).rounds for seconds in (1e-9, 30.0)]
    assert rounds[0] < rounds[1] == 300


def test_a_card_is_measured_at_further_shapes_and_the_time_of_the_host_too(monkeypatch):
    """Here the processor takes the place of the card, and its clock that of the events."""
    rows = {row.name: row for row in all_rows()}
    assert {Shape(4096, 1024), Shape(256, 131_072)} < {*rows["csoftmax"].shapes_on("cuda")}
    assert Shape(2560, 32_000) in rows["entmax_loss"].shapes_on("cuda")
    assert all(row.shapes_on("cpu") == row.shapes for row in rows.values())
    monkeypatch.setattr(torch.cuda, "synchronize", lambda _device: None)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _device: None)
    monkeypatch.setattr(command, "bytes_per_second", lambda _properties: 1e9)
    monkeypatch.setattr(command, "clock_for", lambda *_given: cpu_seconds)
    options = SimpleNamespace(device="cuda", shapes=[Shape(4, 4)], seconds=0.0)
    given = [rows["sparsemax"]], options, torch.device("cpu"), list[str]()
    (line,) = command._timings(*given)
    assert min(line.forward, line.host, line.host_baseline) > 0
    known = {"shape": "1000x1000", "forward": 16.0, "host": 3.0, "host_baseline": 2.0}
    assert str(line._replace(**known)).split("|")[-4:] == [" 0 ", " 50 % ", " 1.5 ", ""]
