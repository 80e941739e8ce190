"""The built wheel is complete: it works away from the checkout."""

import os
import subprocess
import sys
import zipfile
from importlib.metadata import PathDistribution, distribution, packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

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


REFUSAL = """
import os, sys
from importlib.machinery import PathFinder

class Declared(PathFinder):
    undeclared = frozenset(os.environ["UNDECLARED"].split())

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name.partition(".")[0] not in cls.undeclared:
            return PathFinder.find_spec(name, path, target)

sys.meta_path[:] = [Declared if finder is PathFinder else finder for finder in sys.meta_path]
"""


def not_brought(requirements: list[str]) -> frozenset[str]:
    """Modules of this environment that no requirement brings, at any remove."""
    waiting = [Requirement(text) for text in requirements]
    closure: set[tuple[str, str]] = set()
    while waiting:
        requirement = waiting.pop()
        for extra in ("", *requirement.extras):
            applies = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
            key = (canonicalize_name(requirement.name), extra)
            if not applies or key in closure:
                continue
            closure.add(key)
            for text in distribution(requirement.name).requires or ():
                inner = Requirement(text)
                if inner.marker is None or inner.marker.evaluate({"extra": extra}):
                    inner.marker = None
                    waiting.append(inner)
    brought = {name for name, _ in closure}
    return frozenset(
        module
        for module, owners in packages_distributions().items()
        if module not in ("repro", "hydra_plugins")
        and not brought & {canonicalize_name(owner) for owner in owners}
    )


@pytest.fixture(scope="module")
def undeclared(unpacked: Path) -> frozenset[str]:
    """Modules of this environment that no requirement of the wheel brings, at any remove."""
    (metadata,) = unpacked.glob("*.dist-info")
    return not_brought(PathDistribution(metadata).requires or [])


@pytest.fixture(scope="module")
def environment(unpacked: Path, undeclared: frozenset[str]) -> dict[str, str]:
    """An environment in which only the wheel and its requirements can be imported."""
    (unpacked.parent / "refusal").mkdir()
    (unpacked.parent / "refusal" / "sitecustomize.py").write_text(REFUSAL)
    path = os.pathsep.join([str(unpacked.parent / "refusal"), str(unpacked)])
    names = " ".join(sorted(undeclared))
    return {**os.environ, "PYTHONPATH": path, "UNDECLARED": names, "COLUMNS": "300"}


def run(environment: dict[str, str], cwd: Path, *arguments: str) -> str:
    command = [sys.executable, "-P", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def repro(environment: dict[str, str], cwd: Path, *arguments: str) -> str:
    return run(environment, cwd, "-m", "repro", *arguments)


def test_what_is_not_required_cannot_be_imported(environment, undeclared, tmp_path):
    assert {"pytest", "hypothesis", "networkx"} - undeclared <= {"networkx"}  # torch brings that
    assert not {"torch", "scipy", "hydra", "pyarrow"} & undeclared
    code = "try:\n    import pytest\nexcept ModuleNotFoundError as e:\n    print(e)"
    assert "No module named 'pytest'" in run(environment, tmp_path, "-c", code)


def test_mappings_and_losses_need_torch_alone(environment, tmp_path):
    """Kernels, whose compiler is missing here, are replaced by code in PyTorch."""
    alone = environment | {"UNDECLARED": " ".join(sorted(not_brought(["torch"])))}
    assert {"numba", "numpy"} <= {*alone["UNDECLARED"].split()}
    code = """
import torch
from repro.losses import Entmax15Loss
from repro.mappings import MAPPINGS
scores = torch.tensor([[1.0, 0.5, -1.0]], requires_grad=True)
for spec in MAPPINGS.values():
    arguments = (scores, torch.tensor(0.5)) if spec.bounded else (scores,)
    spec.module()(*arguments)[..., 0].sum().backward()
Entmax15Loss()(scores, torch.tensor([0])).backward()
print(scores.grad.isfinite().all().item())
"""
    assert "True" in run(alone, tmp_path, "-c", code)


def test_every_module_but_kernels_for_cuda_can_be_imported(environment, tmp_path):
    code = """
import importlib, pkgutil, repro
names = [found.name for found in pkgutil.walk_packages(repro.__path__, "repro.")]
names = [name for name in names if ".cuda." not in name and not name.endswith("__main__")]
for name in names:
    importlib.import_module(name)
print(len(names))
"""
    assert int(run(environment, tmp_path, "-c", code)) > 200


def test_experiments_and_corpora_are_inside(environment, tmp_path):
    listed = repro(environment, tmp_path, "reproduce", "--list")
    assert [line.split()[0] for line in listed.splitlines()] == list_experiments()
    assert "sigmorphon2018" in repro(environment, tmp_path, "data", "list")


def test_a_run_and_a_report_work_and_stay_in_the_working_directory(environment, tmp_path):
    tiny = ["model.hidden_size=4", "model.embedding_size=4", "training.max_steps=1"]
    short = ["decoding.max_length=3", "decoding.max_hypotheses=4", "task.setting=medium"]
    quickest = ["mapping=normmax", "loss=cross_entropy"]  # to compile: the wheel's code is new
    repro(environment, tmp_path, "run", "hardware=cpu", *tiny, *short, *quickest)
    repro(environment, tmp_path, "report")
    assert [path.name for path in tmp_path.iterdir()] == ["results"]
    assert (tmp_path / "results" / "demo" / "report.html").exists()


def test_the_version_is_that_of_the_citation(unpacked):
    (metadata,) = unpacked.glob("*.dist-info")
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {PathDistribution(metadata).version}\n" in citation


def test_nothing_but_the_package_is_inside(unpacked):
    names = {path.name for path in unpacked.iterdir()}
    assert {name for name in names if not name.endswith(".dist-info")} == {"repro", "hydra_plugins"}


def test_every_module_of_the_package_is_inside(unpacked):
    modules = {path.relative_to(ROOT) for path in (ROOT / "repro").rglob("*.py")}
    assert {path.relative_to(unpacked) for path in (unpacked / "repro").rglob("*.py")} == modules
