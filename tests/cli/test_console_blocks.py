"""The console blocks of the README and of the tutorials, in shells that know nothing else."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import forked
import pytest

from repro.atomic import atomic_write_text
from repro.results import load

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "tests" / "console_blocks.sh"
TUTORIALS = sorted((ROOT / "docs").glob("add-a-*.md"))
TUTORIAL = ROOT / "docs" / "add-a-metric.md"
CHECKOUT = [ROOT / "README.md", ROOT / "docs" / "first-hour.md"]


@pytest.fixture
def shell(tmp_path: Path) -> dict[str, str]:
    """Variables of a shell that has not been told anything.

    The code under test comes from this checkout, whatever is installed, and writes to ``tmp_path``.
    """
    return {
        "HOME": str(tmp_path), "PATH": os.defpath, "LANG": "C.UTF-8", "PYTHONPATH": str(ROOT),
        "REPRO_RESULTS_DIR": str(tmp_path / "results"), "REPRO_DATA_DIR": str(tmp_path / "data"),
    }  # fmt: skip


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The variable of a shell whose commands of the package are forks; see console_blocks.sh."""
    pipe = tmp_path / "commands"
    os.mkfifo(pipe)
    reader = Thread(target=_run_in_forks, args=[pipe])
    reader.start()
    yield {"COMMANDS": str(pipe)}
    if reader.is_alive():
        pipe.write_text("\n")  # an empty line is the end
    reader.join()


def _run_in_forks(pipe: Path) -> None:
    while folder := pipe.read_text(encoding="utf-8").strip():
        cwd, *arguments = Path(folder, "arguments").read_text("utf-8").split("\0")[:-1]
        variables = Path(folder, "environment").read_text("utf-8").split("\0")[:-1]
        environment = dict(line.split("=", 1) for line in variables)
        done = forked.run(*arguments, cwd=Path(cwd), environment=environment)
        Path(folder, "output").write_text(done.stdout, encoding="utf-8")
        Path(folder, "errors").write_text(done.stderr, encoding="utf-8")
        Path(folder, "status").write_text(f"{done.returncode}\n")


def run(page: Path, shell: dict[str, str], folder: Path) -> str:
    command = ["bash", str(SCRIPT), str(page)]
    done = subprocess.run(
        command, cwd=folder, env=shell, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-2000:]
    return done.stdout


@pytest.mark.parametrize("page", CHECKOUT, ids=lambda page: page.stem)
def test_a_page_in_a_checkout(page, shell, commands, tmp_path):
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    for path in ROOT.iterdir():
        if path.name not in (".venv", "results", "data"):
            (checkout / path.name).symlink_to(path)
    (checkout / ".venv").symlink_to(sys.prefix)  # what `make reproduce` would install
    printed = run(page, {**shell, **commands}, checkout)
    assert (tmp_path / "results" / "demo" / "report.html").exists()
    # Sessions of Python see the results of the commands.
    session = [sys.executable, "-m", "doctest", str(page)]
    done = subprocess.run(session, cwd=checkout, env=shell, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    if page.stem == "first-hour":
        succeeded(page, printed, checkout, tmp_path / "results")


def succeeded(page: Path, printed: str, checkout: Path, results: Path) -> None:
    """Check what a reader of the first hour would: answers, numbers, and files that it names."""
    answers = printed.partition("--best test/bleu data.folder=proverbs")[2].splitlines()
    assert answers[1] == "make haste slowly"
    runs = load(results)
    assert runs["data.corpus"].value_counts()["proverbs"] == 1
    mine = runs[(runs["data.corpus"] == "demo_translation") & (runs["mapping.alpha"] == 1.5)]
    tex = (checkout / "table.tex").read_text(encoding="utf-8")
    (row,) = [line.split(" & ") for line in tex.splitlines() if line.startswith("1.5 &")]
    assert float(row[1].split()[0]) == pytest.approx(mine["test/bleu"].mean(), abs=0.006)
    assert int(row[-1].split()[0]) == len(mine) > 0
    text = page.read_text(encoding="utf-8")
    named = {*re.findall(r"`results/(demo/[^`]+)`", text)}
    written = {*re.findall(r"(?:--heatmap|>) (\w+\.\w+)$", text, re.MULTILINE)}
    named -= {"demo/tables/<paper>/<table>.tex"}  # runs that were made tiny fill no cell
    assert len(named) == 3
    assert written == {"attention.svg", "proverb.svg", "table.tex"}
    assert [name for name in named if not [*results.glob(re.sub("<[^>]+>", "*", name))]] == []
    assert [name for name in written if not (checkout / name).is_file()] == []


def test_a_tutorial_in_a_folder_of_its_own(shell, tmp_path):
    text = TUTORIAL.read_text(encoding="utf-8")
    for name, content in re.findall(r"^`(\S+)`:\n\n```\w+\n(.*?)```", text, re.DOTALL | re.M):
        atomic_write_text(tmp_path / name, content)
    # What the README says puts `repro` on the path.
    shell["PATH"] = os.pathsep.join([str(Path(sys.prefix, "bin")), shell["PATH"]])
    run(TUTORIAL, shell, tmp_path)
    (folder,) = (tmp_path / "results").iterdir()
    assert [*(folder / "records").iterdir()]


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_every_tutorial_has_the_same_shell(page):
    """Their commands run elsewhere, without a shell: tests/test_add_a_*.py, test_tutorials.py."""
    lines = re.findall(r"^\$ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert [line for line in lines if not line.startswith("repro ")] == [
        "export REPRO_EXTENSIONS=$PWD"
    ]


def test_lines_that_are_not_run_as_printed_are_lines_of_a_page():
    script = SCRIPT.read_text(encoding="utf-8")
    listed = re.findall(r"^unlike\['([^']+)'\]=", script, re.MULTILINE)
    pages = "\n".join(page.read_text("utf-8") for page in [*CHECKOUT, TUTORIAL])
    printed = {re.sub(r"^\$ |  *#.*", "", line) for line in pages.splitlines()}
    assert len(listed) > 10
    assert {*listed} - printed == set()
