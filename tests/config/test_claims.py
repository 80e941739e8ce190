import pytest

from repro.config import claims as module
from repro.config.claims import load_claims
from repro.config.errors import ConfigError
from repro.config.experiment import list_experiments

PAPERS = {"malaviya2018": 10, "niculae2017": 8, "niculae2018": 5, "peters2019": 12}
"""Papers with the fewest claims that they are expected to have."""


def test_every_paper_has_claims_about_known_cells():
    found = {one.paper: len(one.claims) for one in load_claims()}
    assert set(found) == set(PAPERS)
    assert all(found[paper] >= fewest for paper, fewest in PAPERS.items())


def test_claims_are_no_artefact():
    assert not [name for name in list_experiments() if name.endswith("/claims")]


@pytest.mark.parametrize(
    ("predicate", "named"),
    [
        ("order: {better: [softmax], than: [softmin]}", "softmin"),
        ("order: {better: [softmax]}", "than"),
        ("order: {than: [softmax]}", "better"),
        ("order: {better: [softmax], than: [softmax]}", "than"),
        ("order: {better: [softmax], than: [sparsemax], columns: [X]}", "columns"),
        ("order: {better: [softmax], than: [sparsemax], direction: up}", "direction"),
        ("order: {better: [softmax], than: [sparsemax], at_least: 7}", "at_least"),
        ("bound: {rows: [softmax]}", "lowest"),
        ("bound: {rows: [softmax], lowest: high}", "lowest"),
        ("bound: {rows: [hardmax], lowest: 1}", "hardmax"),
        ("order: {better: [softmax], than: [sparsemax], mean: true, choose: dev/bleu}", "mean"),
        ("order: {better: [softmax], than: [softmax, sparsemax], in_turn: true}", "in_turn"),
        ("order: {better: [softmax], than: [softmax], in_turn: true}", "than"),
        (
            "order: {better: [softmax, 1.5-entmax], than: [sparsemax, 1.5-entmax], in_turn: true}",
            "a row with itself",
        ),
        ("spread: {axis: method, than: method, choose: dev/bleu}", "choose"),
        ("spread: {axis: method, than: loss}", "loss"),
        ("spread: {axis: method, than: method, tolerance: 2}", "tolerance"),
        ("bound: {rows: [softmax], lowest: 1}\n    source: rumor", "source"),
        ("", "expected one of"),
        ("as_published: No.\n    bound: {rows: [softmax], lowest: 1}", "expected one of"),
    ],
)
def test_a_malformed_claim_is_refused_by_file_and_name(tmp_path, monkeypatch, predicate, named):
    file = tmp_path / "peters2019" / "claims.yaml"
    file.parent.mkdir()
    head = "claims:\n  - name: one\n    text: A claim.\n    place: §1\n    artefact: table2\n"
    file.write_text(f"{head}    {predicate}\n", encoding="utf-8")
    monkeypatch.setattr(module, "experiments_dirs", lambda: [tmp_path])
    with pytest.raises(ConfigError, match=named) as refused:
        load_claims()
    assert str(file) in str(refused.value)
