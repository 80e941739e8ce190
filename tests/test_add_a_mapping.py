"""The page on adding a mapping: its files, unchanged, in a folder of their own."""

import os
import re
import subprocess
import sys
from pathlib import Path

import forked
import pytest

from repro.results import list_runs

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "add-a-mapping.md").read_text(encoding="utf-8")
FILES = dict(
    re.findall(r"^`(\S+)`:\n\n```(?:python|yaml)\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE)
)
COMMANDS = [line.split() for line in re.findall(r"^\$ repro (.+)$", PAGE, re.MULTILINE)]
TINY = [
    "hardware=cpu", "task.setting=medium", "task.stored_examples=0", "model.embedding_size=4",
    "model.hidden_size=4", "model.layers=1", "training.max_steps=1", "decoding.max_length=3",
    "decoding.max_hypotheses=4",
]  # fmt: skip
BUILD = """
mapping = build_mapping(compose_run(["mapping=lengthmax", "mapping.scale=2"]).mapping)
print(mapping(torch.tensor([1.0, 0.0, 0.0, 0.0])).tolist())
"""
IMPORTS = [
    "import torch",
    "import repro.mappings",
    "from repro.tasks.instantiate import build_mapping",
    "from repro.config.compose import compose_run",
    "import repro.config.schema.registry",
]


@pytest.fixture(scope="module")
def extension(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("extension")
    for path, text in FILES.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    return folder


def environment(extension: Path, folder: Path) -> dict[str, str]:
    return {
        "REPRO_EXTENSIONS": str(extension),
        "REPRO_RESULTS_DIR": str(folder / "results"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def repro(extension: Path, cwd: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return forked.run(*arguments, cwd=cwd, environment=environment(extension, cwd))


def test_the_page_touches_no_file_that_exists() -> None:
    assert len(FILES) == 3
    assert [path for path in FILES if (ROOT / path).exists()] == []


def test_a_mapping_inside_the_package_is_five_files() -> None:
    """Normmax has no kernel: besides its files only the shared reference and schema name it."""
    inside = PAGE[PAGE.index("## Inside the package") :]
    table = re.findall(r"^\| `(\S+)` \|", inside, re.MULTILINE)
    assert len(table) == 5
    listed = {path.replace("/_<name>", "/_norm").replace("<name>", "normmax") for path in table}
    assert [path for path in listed if not (ROOT / path).exists()] == []
    naming = {
        path.relative_to(ROOT).as_posix()
        for folder in ("repro/mappings", "repro/config", "repro/tasks", "conf", "docs/mappings")
        for path in (ROOT / folder).rglob("*.*")
        if path.suffix in (".py", ".yaml", ".md")
        and re.search(r"\bnormmax\b", path.read_text(encoding="utf-8"))
    }
    shared = {"repro/mappings/_reference.py", "repro/config/schema/mapping.py"}
    overview = "docs/mappings/README.md"
    assert naming - shared - {overview} <= listed


@pytest.mark.parametrize("backwards", [False, True])
def test_it_is_built_whatever_was_imported_before(
    extension: Path, tmp_path: Path, backwards: bool
) -> None:
    imports = IMPORTS[::-1] if backwards else IMPORTS
    command = [sys.executable, "-c", "\n".join([*imports, BUILD])]
    variables = {**os.environ, **environment(extension, tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, env=variables)
    # By hand: gamma = 4, sparsemax of (1/4, 0, 0, 0): all in the support, tau = -3/16.
    assert done.stdout == "[0.4375, 0.1875, 0.1875, 0.1875]\n", done.stderr


def test_its_commands_run(extension: Path, tmp_path: Path) -> None:
    for command in COMMANDS:
        shorter = [item.replace("seed=1,2,3", "seed=1") for item in command]
        done = repro(extension, tmp_path, *shorter, *TINY)
        assert done.returncode == 0, done.stderr
    assert [run.status for run in list_runs(tmp_path / "results", "demo")] == ["done"] * 3


def test_its_settings_are_checked(extension: Path, tmp_path: Path) -> None:
    refused = repro(extension, tmp_path, "run", "mapping=lengthmax", "mapping.scale=0")
    assert refused.returncode == 2
    assert "mapping.scale is 0.0; expected a number > 0" in refused.stderr


def test_a_name_that_exists_is_refused(extension: Path, tmp_path: Path) -> None:
    (tmp_path / "repro" / "mappings").mkdir(parents=True)
    module = tmp_path / "repro" / "mappings" / "mine.py"
    module.write_text("MAPPINGS = {'softmax': None}\n")
    refused = repro(tmp_path, tmp_path, "run", "mapping=sparsemax", *TINY)
    assert refused.returncode == 2
    assert "mappings 'softmax' is declared twice" in refused.stderr
