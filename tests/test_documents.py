"""The documents say what is true: examples run, links meet headings, commands exist."""

import doctest
import re
import subprocess
from importlib import import_module
from operator import attrgetter
from pathlib import Path

import pytest

from repro.config.compose import compose_run
from repro.config.experiment import list_experiments, load_experiment
from repro.config.paths import in_checkout
from repro.config.planning import plan_runs

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])

NEEDS_A_RUN = {"first-hour.md", "predict.md"}
"""Pages whose examples read a run, which other tests make."""
EXAMPLES = [
    page for page in DOCUMENTS if ">>>" in page.read_text("utf-8") and page.name not in NEEDS_A_RUN
]


@pytest.mark.parametrize("page", EXAMPLES, ids=lambda page: f"{page.parent.name}/{page.name}")
def test_examples_print_what_they_say(page, monkeypatch):
    monkeypatch.delenv("REPRO_RESULTS_DIR", raising=False)
    flags = doctest.NORMALIZE_WHITESPACE
    found = doctest.testfile(str(page), module_relative=False, encoding="utf-8", optionflags=flags)
    assert found.attempted >= 2
    assert found.failed == 0


def test_pages_with_examples_are_found():
    assert len(EXAMPLES) >= 16


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_into_pages_meet_a_heading(path):
    links = re.findall(r"\]\(([^):]*?)#([^)]+)\)", path.read_text(encoding="utf-8"))
    targets = [(path.parent / file if file else path, anchor) for file, anchor in links]
    assert [(page.name, name) for page, name in targets if name not in anchors(page)] == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_files_that_are_named_exist(path):
    folders = "repro|docs|tests|conf|experiments|benchmarks"
    text = path.read_text(encoding="utf-8")
    named = re.findall(rf"`((?:{folders})/[\w./-]+\.\w+)`", text)
    # A tutorial names the files that its reader makes, each above a block with its text.
    made = set(re.findall(r"^`([\w./-]+)`:\n\n```", text, re.MULTILINE))
    assert [name for name in named if name not in made and not (ROOT / name).exists()] == []


def anchors(page: Path) -> set[str]:
    """Collect the anchors by which links name the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title).strip().lower().replace(" ", "-") for title in headings}


def test_every_document_can_be_reached_from_the_readme():
    reached, waiting = set(), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        reached.add(page)
        links = re.findall(r"\]\(([^):#]+\.md)", page.read_text(encoding="utf-8"))
        found = {(page.parent / link).resolve() for link in links}
        waiting += [target for target in found - reached if target in DOCUMENTS]
    left = {page.relative_to(ROOT).as_posix() for page in set(DOCUMENTS) - reached}
    assert {page for page in left if not page.startswith("docs/mappings/")} == set()


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_no_document_names_a_path_of_one_machine(path):
    assert not re.search(r"(?<![\w.])/(?:home|root|work|tmp|Users)/", path.read_text("utf-8"))


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_prose_is_wrapped(path):
    """At 100 columns, as code is, but for links, code and tables."""
    left_out = r"```.*?```|<!-- (\w+) -->.*?<!-- /\1 -->"
    text = re.sub(left_out, "", path.read_text("utf-8"), flags=re.DOTALL)
    prose = re.sub(r"`[^`\n]*`|\[[^]\n]*\](\([^)\n]*\)|\[[^]\n]*\]|: .*)?", "x", text)
    lines = [one for one in prose.splitlines() if not one.lstrip().startswith(("|", "#"))]
    longest = max(lines, key=len)
    assert len(longest) <= 100, longest


def test_make_help_lists_every_artefact():
    assert in_checkout()
    printed = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True).stdout
    for name in list_experiments():
        assert f"reproduce-{name.replace('/', '-')} " in printed


CORPUS = {"nmt": ["data.corpus=multi30k", "data.source=de", "data.target=en"]}
EPOCHS = {
    "epochs, at most (parsing)": ["parsing"],
    "epochs, at most (snli / nli_alignment)": ["snli", "nli_alignment"],
    "epochs, or updates (nmt / summarization)": ["nmt", "summarization"],
}


@pytest.mark.parametrize("label", EPOCHS)
def test_the_epochs_of_the_scales_are_those_of_the_protocols(label):
    page = (ROOT / "docs" / "configuration.md").read_text()
    row = next(line for line in page.splitlines() if line.startswith(f"| {label} |"))
    for scale, cell in zip(("demo", "small", "full"), row.split("|")[2:5], strict=True):
        printed = [int(re.match(r"\d+", part.strip()).group()) for part in cell.split(" / ")]
        tasks = [
            [f"task={task}", f"scale={scale}", *CORPUS.get(task, [])] for task in EPOCHS[label]
        ]
        schedules = [compose_run(task).training for task in tasks]
        assert printed == [one.max_epochs or one.max_steps for one in schedules], scale


def test_the_costs_count_the_runs_of_every_artefact():
    text = (ROOT / "docs" / "costs.md").read_text("utf-8")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    listed = {row[0]: (row[2], row[3], row[5]) for row in rows if len(row) == 6 and "/" in row[0]}
    planned = {}
    for name in list_experiments():
        plans = (plan_runs(load_experiment(name), scale) for scale in ("demo", "small", "full"))
        if not name.startswith("ablations/"):
            counts = (len({frozenset(run.overrides) for run in runs}) for runs in plans)
            planned[name] = tuple(map(str, counts))
    assert listed == {name: counts for name, counts in planned.items() if counts[0] != "0"}


def test_make_names_the_artefacts_of_a_paper_for_an_unknown_one():
    command = ["make", "reproduce-peters2019-tabel1"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert found.returncode == 2
    assert "reproduce-peters2019-table1" in found.stderr
    assert "reproduce-malaviya2018-table1" not in found.stderr


ROW = re.compile(r"^\| `(repro/\S+)\.py` \| (.+?) \|", re.MULTILINE)


def test_the_way_of_a_number_is_short_and_its_functions_are_there():
    """The files that the overview follows from a command to a cell of the report."""
    text = (ROOT / "docs" / "overview.md").read_text(encoding="utf-8")
    _, _, section = text.partition("## One number, from command to cell")
    rows = ROW.findall(section.partition("\n## ")[0])
    assert 20 <= len(rows) <= 25
    for module, functions in rows:
        found = import_module(module.replace("/", "."))
        names = re.findall(r"`([\w.]+)`", functions)
        assert names
        for name in names:
            named = attrgetter(name)(found)
            assert callable(named) or isinstance(named, property)
