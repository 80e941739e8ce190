"""The steps of ``make gpu``: stopped, continued, failed; and commands that compose."""

import json
import sys
from pathlib import Path

import pytest

from benchmarks import gpu
from repro.config.compose import compose_run


def step(name: str, code: str) -> gpu.Step:
    return gpu.Step(name, (sys.executable, "-c", code))


def states(folder: Path, steps: list[gpu.Step], limit: float) -> list[str]:
    return [one.state for one in gpu.run_steps(steps, limit, folder, "a machine")]


def test_a_step_that_is_done_is_not_repeated_and_others_continue(tmp_path: Path) -> None:
    count = f"open({str(tmp_path / 'count')!r}, 'a').write('x')"
    steps = [
        step("counts", count),
        step("fails", "raise SystemExit(3)"),
        step("waits", "import time; time.sleep(60)"),
    ]
    assert states(tmp_path, steps, limit=5) == ["done", "failed", "unfinished"]
    steps[2] = step("waits", "print('continued')")
    assert states(tmp_path, steps, limit=5) == ["done", "failed", "done"]
    assert (tmp_path / "count").read_text() == "x"
    assert json.loads((tmp_path / "02.json").read_text())["seconds"] >= 5
    assert (tmp_path / "02.log").read_text() == "continued\n"


def test_the_page_lists_every_step() -> None:
    outcomes = [gpu.Outcome("tests", "python -m pytest", "done", 90.0, "a machine")]
    assert "| tests | done | 1.5 | `python -m pytest` | a machine |" in gpu.page(outcomes)


def test_the_runs_compose(tmp_path: Path) -> None:
    runs = [one.command[4:] for one in gpu.steps(str(tmp_path)) if "run" in one.command]
    assert len(runs) == len(gpu.TASKS) + 1
    for settings in runs:
        assert compose_run(list(settings)).hardware.device == "cuda"


def test_without_a_device_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    if gpu.torch.cuda.is_available():
        pytest.skip("there is a device")
    assert gpu.main([]) == 2
    assert "CUDA" in capsys.readouterr().err
