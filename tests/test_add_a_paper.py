"""The page on adding a paper: its tables, its figure and its claims, in a folder of their own."""

from tutorial import Page

from repro.report.claims import Verdict, judge_claims
from repro.results import figure_path, table_path
from repro.results.cells import Archive

PAPER = "invented2027"
TINY = [
    "hardware=cpu", "data.train_premises=200", "model.vector_size=8", "model.hidden_size=8",
    "training.max_epochs=2", "task.stored_examples=5",
]  # fmt: skip


def test_a_paper_is_a_file_for_each_artefact_and_its_claims(tmp_path, monkeypatch):
    page = Page("add-a-paper.md", tmp_path, *TINY)
    names = ["table1", "table2", "figure1"]
    assert {*page.files} == {f"experiments/{PAPER}/{name}.yaml" for name in [*names, "claims"]}
    for command in page.commands:
        page.succeed(*command)
    assert len(page.runs()) == 2 * 3  # shared by all artefacts
    results = tmp_path / "results"
    for name in ("table1", "table2"):
        assert "±" in table_path(results, "demo", f"{PAPER}/{name}", "md").read_text("utf-8")
    assert figure_path(results, "demo", f"{PAPER}/figure1", "png").exists()
    report = (results / "demo" / "report.html").read_text(encoding="utf-8")
    assert "Nothing in Particular" in report
    assert "Sparsemax leaves out at least a tenth of the words." in report

    monkeypatch.setenv("REPRO_EXTENSIONS", page.environment["REPRO_EXTENSIONS"])
    archive = Archive(results, "demo", {f"{PAPER}/{name}": TINY for name in names})
    judged = {one.claim.name: one for one in judge_claims(archive) if one.paper == PAPER}
    assert {name: one.verdict for name, one in judged.items()} == {
        "sparse-attention": Verdict.HOLDS,
        "softmax-is-sparser": Verdict.FAILS,
        "readable": Verdict.NO_PREDICATE,
    }

    claims = f"experiments/{PAPER}/claims.yaml"
    page.write(claims, page.files[claims].replace('rows: ["sparsemax"]', 'rows: ["sparse"]'))
    errors = page.refuse("report", "scale=demo")
    assert claims in errors
    assert "'sparse'" in errors
