"""The page on adding a mapping: its files, unchanged, in a folder of their own."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tutorial import ROOT, TINY_INFLECTION, TINY_TRANSLATION, Page

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


@pytest.fixture
def page(tmp_path: Path) -> Page:
    return Page("add-a-mapping.md", tmp_path, *TINY_INFLECTION)


def test_a_mapping_in_a_folder_of_its_own_is_three_files(page):
    assert len(page.files) == 3


def test_a_mapping_inside_the_package_is_five_files(page):
    """Normmax has no kernel and one setting, ``alpha``."""
    inside = page.text[page.text.index("## Inside the package") :]
    table = re.findall(r"^\| `(\S+)` \|", inside, re.MULTILINE)
    assert len(table) == 5
    listed = {path.replace("/_<name>", "/_norm").replace("<name>", "normmax") for path in table}
    naming = {
        path.relative_to(ROOT).as_posix()
        for folder in ("repro/mappings", "repro/config", "repro/tasks", "conf", "docs/mappings")
        for path in (ROOT / folder).rglob("*.*")
        if path.suffix in (".py", ".yaml", ".md")
        and re.search(r"\b[Nn]ormmax\b", path.read_text(encoding="utf-8"))
    }
    assert naming == listed


@pytest.mark.parametrize("backwards", [False, True])
def test_it_is_built_whatever_was_imported_before(page, backwards):
    imports = IMPORTS[::-1] if backwards else IMPORTS
    command = [sys.executable, "-c", "\n".join([*imports, BUILD])]
    variables = os.environ | page.environment
    done = subprocess.run(command, capture_output=True, text=True, env=variables)
    # By hand: gamma = 4, sparsemax of (1/4, 0, 0, 0): all in the support, tau = -3/16.
    assert done.stdout == "[0.4375, 0.1875, 0.1875, 0.1875]\n", done.stderr


def test_its_commands_run(page):
    for command in page.commands:
        page.succeed(*[item.replace("seed=1,2,3", "seed=1") for item in command])
    assert [run.status for run in page.runs()] == ["done"] * 3


def test_its_settings_are_checked(page):
    errors = page.refuse("run", "mapping=lengthmax", "mapping.scale=0")
    assert "mapping.scale is 0.0; expected a number > 0" in errors


def test_a_name_that_exists_is_refused(page):
    page.write("repro/mappings/mine.py", "MAPPINGS = {'softmax': None}\n")
    assert "mappings 'softmax' is declared twice" in page.refuse("run", "mapping=sparsemax")


BARE = """
from repro.mappings import MappingSpec, ProbabilityMap, softmax


class Bare(ProbabilityMap):
    def forward(self, scores, mask=None, dim=-1):
        return softmax(scores, mask=mask, dim=dim)


MAPPINGS = [MappingSpec("bare", Bare)]
"""


def test_an_entry_of_another_type_is_refused(page):
    page.write(
        "repro/mappings/bare.py", BARE.replace('[MappingSpec("bare", Bare)]', "{'bare': Bare}")
    )
    page.write("conf/mapping/bare.yaml", "defaults: [base_unbounded, _self_]\nname: bare\n")
    assert "'bare'" in page.run("run", "mapping=bare").stderr


BOUNDED = """
from repro.mappings import Csparsemax, MappingSpec

MAPPINGS = [MappingSpec("again", Csparsemax, bounded=True)]
"""


def test_a_mapping_may_have_bounds(page):
    page.write("repro/mappings/again.py", BOUNDED)
    page.write("conf/mapping/again.yaml", "defaults: [base_bounded, _self_]\nname: again\n")
    page.tiny = TINY_TRANSLATION
    page.succeed("run", "task=nmt", "mapping=again", "model.fertility.strategy=constant")


def test_attention_needs_no_regularizer_and_a_loss_does(page):
    page.write("repro/mappings/bare.py", BARE)
    page.write("conf/mapping/bare.yaml", "defaults: [base_unbounded, _self_]\nname: bare\n")
    page.write("conf/loss/bare.yaml", "defaults: [base_loss, _self_]\nname: bare\n")
    page.succeed("run", "mapping=bare")
    failed = page.run("run", "mapping=bare", "loss=bare")
    assert "omega" in failed.stderr
    assert failed.stderr.count("\n") <= 3


def test_a_module_of_settings_that_fails_costs_one_line_where_it_is_used(page):
    name = "repro/config/schema/rowk.py"
    page.write(name, "\n\n\nfrom repro.config.schema.structure import StructureConfig\n")
    done = page.succeed("run", "mapping=lengthmax", "-q")
    (line,) = done.stderr.splitlines()
    assert f"{page.folder / 'extension' / name}:4: " in line
    assert page.succeed("--help").stderr == ""


@pytest.mark.parametrize("text", ["import nothing_of_this_name\n", "MAPPINGS = {\n"])
def test_a_mapping_that_fails_is_refused_with_file_and_line(page, text):
    page.write("repro/mappings/broken.py", text)
    (line,) = page.run("run", "mapping=lengthmax", "-q").stderr.splitlines()[-1:]
    assert "broken.py:1: " in line


def test_what_a_file_of_a_choice_lacks_is_said_in_one_line(page):
    page.write("repro/mappings/bare.py", BARE)
    assert "conf/mapping/bare.yaml" in page.refuse("run", "mapping=bare")
    page.write("conf/mapping/bare.yaml", "defaults: [base_unbounded, _self_]\nnam: bare\n")
    (line,) = page.refuse("run", "mapping=bare").splitlines()
    assert "mapping/bare.yaml: unknown key 'nam'" in line
    page.write("conf/mapping/bare.yaml", "name: bare\nnam: bare\n")
    (line,) = page.refuse("run", "mapping=bare").splitlines()
    assert "mapping/bare.yaml: its `defaults` name no schema; expected `defaults: [SCHEMA" in line
    assert "base_unbounded" in line
