"""The package imports what ``pyproject.toml`` declares: no more, no less."""

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CUDA = ROOT / "repro" / "mappings" / "kernels" / "cuda"
INDIRECT = {"tensorboard"}
"""Imported by a declared package on our behalf: torch.utils.tensorboard."""


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def declared(requirements: list[str]) -> set[str]:
    return {normalized(re.split(r"[^\w.-]", text)[0]) for text in requirements}


def imported(*folders: Path, without: Path | None = None) -> dict[str, Path]:
    """Distributions of the modules that the files of folders import, with one of these files."""
    owners = packages_distributions()
    own = {path.stem for path in (ROOT / "tests").rglob("*.py")} | {"benchmarks", "repro", "tests"}
    found: dict[str, Path] = {}
    for path in (path for folder in folders for path in folder.rglob("*.py")):
        if without is not None and without in (path, *path.parents):
            continue
        for module in imports(path.read_text(encoding="utf-8")) - sys.stdlib_module_names - own:
            for owner in owners.get(module, [module]):  # an optional package may be missing
                found.setdefault(normalized(owner), path)
    return found


def imports(source: str) -> set[str]:
    """Top-level names of the modules that a source imports, also inside functions."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names


def test_imports_inside_of_functions_count():
    source = (
        "import a.b as c, d\nfrom e.f import g\nfrom . import h\ndef i():\n    from j import k\n"
    )
    assert imports(source) == {"a", "d", "e", "j"}


def test_every_import_is_declared_and_every_declaration_is_imported():
    found = imported(ROOT / "repro", without=CUDA)
    found |= imported(ROOT / "hydra_plugins")
    required = declared(PROJECT["dependencies"])
    optional = {
        name
        for extra in ("gpu", "slurm")
        for name in declared(PROJECT["optional-dependencies"][extra])
    }
    missing = {name: str(path) for name, path in found.items() if name not in required | optional}
    assert missing == {}
    assert required - found.keys() == INDIRECT


def test_kernels_for_cuda_import_what_their_extra_declares():
    found = imported(CUDA).keys() - declared(PROJECT["dependencies"])
    assert found == declared(PROJECT["optional-dependencies"]["gpu"])


@pytest.mark.parametrize("folder", ["tests", "benchmarks"])
def test_tests_and_benchmarks_import_what_is_declared_for_development(folder):
    extras = PROJECT["optional-dependencies"]
    known = declared(PROJECT["dependencies"] + extras["dev"] + extras["peers"] + extras["joeynmt"])
    found = imported(ROOT / folder)
    assert {name: str(path) for name, path in found.items() if name not in known} == {}
