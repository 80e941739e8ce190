"""The built wheel is complete: it works away from the checkout."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from repro.config.experiment import list_experiments

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def run(unpacked: Path, cwd: Path, *arguments: str) -> str:
    command = [sys.executable, "-P", "-m", "repro", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(unpacked), "COLUMNS": "300"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_experiments_and_corpora_are_inside(unpacked: Path, tmp_path: Path) -> None:
    listed = run(unpacked, tmp_path, "reproduce", "--list")
    assert [line.split()[0] for line in listed.splitlines()] == list_experiments()
    assert "sigmorphon2018" in run(unpacked, tmp_path, "data", "list")


def test_a_run_and_a_report_work_and_stay_in_the_working_directory(
    unpacked: Path, tmp_path: Path
) -> None:
    tiny = ["model.hidden_size=4", "model.embedding_size=4", "training.max_steps=1"]
    short = ["decoding.max_length=3", "decoding.max_hypotheses=4", "task.setting=medium"]
    quickest = ["mapping=normmax", "loss=cross_entropy"]  # to compile: the wheel's code is new
    run(unpacked, tmp_path, "run", "hardware=cpu", *tiny, *short, *quickest)
    run(unpacked, tmp_path, "report")
    assert [path.name for path in tmp_path.iterdir()] == ["results"]
    assert (tmp_path / "results" / "demo" / "report.html").exists()


def test_nothing_but_the_package_is_inside(unpacked: Path) -> None:
    names = {path.name for path in unpacked.iterdir()}
    assert {name for name in names if not name.endswith(".dist-info")} == {"repro"}


def test_every_module_of_the_package_is_inside(unpacked: Path) -> None:
    modules = {path.relative_to(ROOT) for path in (ROOT / "repro").rglob("*.py")}
    assert {path.relative_to(unpacked) for path in (unpacked / "repro").rglob("*.py")} == modules
