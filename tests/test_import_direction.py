"""A stage imports earlier stages only, and the mappings import nothing else of the package."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import repro

ROOT = Path(repro.__file__).parent
ORDER = [
    "errors", "processes", "checksums", "atomic", "mappings", "structures", "losses", "config",
    "data", "decoding", "models", "training", "evaluation", "results", "report", "tasks", "runs",
    "app", "cli", "__main__",
]  # fmt: skip
MODULES = sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")


def stage_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported_stages(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "repro" and len(parts) > 1 and parts[1] in ORDER:
                yield parts[1]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_stage_imports_only_earlier_stages(path: Path) -> None:
    stage = stage_of(path)
    assert stage in ORDER, f"{path}: the stage {stage!r} is not in the order"
    later = {name for name in imported_stages(path) if ORDER.index(name) > ORDER.index(stage)}
    assert not later, f"{path} imports the later stages {sorted(later)}"


def test_mappings_stand_alone() -> None:
    found = {s for p in MODULES if stage_of(p) == "mappings" for s in imported_stages(p)}
    assert found == {"mappings"}


@pytest.mark.parametrize("stage", ["evaluation", "results", "report"])
def test_these_stages_know_no_model(stage: str) -> None:
    found = {s for p in MODULES if stage_of(p) == stage for s in imported_stages(p)}
    assert not found & {"models", "training", "tasks"}
