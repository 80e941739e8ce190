import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from repro.checksums import DamagedFileError, sidecar
from repro.config.experiment import Drawing, Experiment
from repro.report import draw_figure_data
from repro.report.choose import choose_attention, choose_lattice
from repro.report.examples import AttentionExample, Hypothesis, LatticeExample
from repro.report.figure import read_figure_data, render_figure
from repro.report.select import best_record
from repro.results import Measurement, ResultsError, figure_path, run_folder

Make = Callable[..., Measurement]


def lattice(
    index: int, *shares: float, lemma: str = "go", finite: bool = True, gold: str = "a"
) -> LatticeExample:
    hypotheses = tuple(
        Hypothesis((chr(ord("a") + n),), share, (share, 1.0)) for n, share in enumerate(shares)
    )
    return LatticeExample(index, "english", lemma, ("V",), gold, finite, hypotheses)


def attention(index: int, length: int, *, gold: str = "a", lemma: str = "") -> AttentionExample:
    source = tuple(lemma or "x" * length)
    weights = ((1.0,) + (0.0,) * (len(source) - 1),)
    return AttentionExample(index, "english", source, ("a",), gold, weights)


EVEN = lattice(7, 0.5, 0.5)


@pytest.mark.parametrize(
    ("others", "winner"),
    [
        ([lattice(0, 0.9, 0.1)], 7),
        ([lattice(0, 1.0)], 7),
        ([lattice(0, *[0.1] * 10)], 7),
        ([lattice(0, 0.34, 0.33, 0.33, gold="z")], 7),
        ([lattice(0, 0.25, 0.25, 0.25, 0.2, finite=False)], 7),
        ([lattice(3, 0.5, 0.5)], 3),
        ([lattice(9, 0.5, 0.5)], 7),
        ([lattice(9, 0.25, 0.25, 0.25, 0.25)], 9),
    ],
)
def test_the_most_even_complete_set_with_gold_wins(
    others: list[LatticeExample], winner: int
) -> None:
    for examples in ([EVEN, *others], [*others, EVEN]):
        assert examples[choose_lattice(examples, [])].index == winner


def test_a_preferred_lemma_wins_and_the_first_preference_first() -> None:
    examples = [EVEN, lattice(1, 1.0, lemma="draw"), lattice(2, 1.0, lemma="see")]
    assert choose_lattice(examples, ["none", "see", "draw"]) == 2
    assert choose_lattice(examples, ["draw", "see"]) == 1
    assert choose_lattice(examples, ["none"]) == 0
    two = [lattice(1, 0.9, 0.1, lemma="draw"), lattice(2, 0.5, 0.5, lemma="draw")]
    assert choose_lattice(two, ["draw"]) == 1


@pytest.mark.parametrize(
    ("examples", "winner"),
    [
        ([attention(0, 10), attention(1, 30), attention(2, 31)], 1),
        ([attention(0, 10), attention(1, 30, gold="b")], 0),
        ([attention(5, 10), attention(4, 10)], 1),
        ([attention(0, 40), attention(1, 33)], 1),
        ([attention(0, 10, gold="b"), attention(1, 20, gold="b")], 1),
    ],
)
def test_the_longest_correct_source_of_thirty_wins(
    examples: list[AttentionExample], winner: int
) -> None:
    assert choose_attention(examples, []) == winner


def test_a_preferred_source_wins() -> None:
    examples = [attention(0, 20), attention(1, 0, lemma="draw")]
    assert choose_attention(examples, ["draw"]) == 1


def test_no_examples_are_refused() -> None:
    with pytest.raises(ResultsError, match="kept no examples"):
        choose_lattice([], [])


def test_the_best_run_and_the_smallest_name(make_record: Make) -> None:
    def run(run_id: str, value: float, **changes: Any) -> Measurement:
        return make_record(run_id=run_id, value=value, metric="dev/accuracy", **changes)

    records = [run("c", 90.0), run("b", 91.0), run("a", 91.0), run("z", 99.0, kind="ensemble")]
    records.append(make_record(run_id="y", value=99.0))
    assert best_record(records, "dev/accuracy", "e").run_id == "a"
    with pytest.raises(ResultsError, match="no run has a record of dev/loss"):
        best_record(records, "dev/loss", "e")


def store_runs(root: Path, make_record: Make) -> list[Measurement]:
    records = []
    for run_id, value in [("aa", 80.0), ("bb", 90.0)]:
        changes = {"column": "dev", "scale": "demo"}
        records.append(make_record(run_id=run_id, value=value, metric="dev/accuracy", **changes))
        hypotheses = [
            {"tokens": ["a"], "probability": 0.5, "steps": [0.5, 1.0]},
            {"tokens": [], "probability": 0.5, "steps": [0.5]},
        ]
        row = {"language": "english", "lemma": "x", "tags": ["V"], "gold": "a", "finite": True}
        rows = [{**row, "index": n, "run": run_id, "hypotheses": hypotheses} for n in (4, 2)]
        run_folder(root, "demo", run_id).write_hypotheses(rows)
    return records


def test_figure_data_hold_the_example_and_its_provenance(
    tmp_path: Path, figure_experiment: Experiment, make_record: Make
) -> None:
    records = store_runs(tmp_path, make_record)
    path = draw_figure_data(tmp_path, "demo", figure_experiment, records)
    assert path == tmp_path / "demo" / "figures" / "paper2020" / "figure9.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    assert content["example"]["run"] == "bb"
    assert content["example"]["index"] == 2
    assert content["record"]["value"] == 90.0
    assert {"run_id", "metric", "scale", "corpus", "fingerprint"} <= set(content["record"])
    data = read_figure_data(tmp_path, "demo", figure_experiment.name)
    assert data is not None
    paths = render_figure(tmp_path, "demo", data)
    assert paths["svg"].read_bytes().startswith(b"<?xml")
    assert paths["png"].read_bytes().startswith(b"\x89PNG")


def test_what_cannot_be_drawn_is_refused(
    tmp_path: Path, experiment: Experiment, figure_experiment: Experiment, make_record: Make
) -> None:
    with pytest.raises(ResultsError, match="is a table"):
        draw_figure_data(tmp_path, "demo", experiment, [])
    with pytest.raises(ResultsError, match="no run has a record"):
        draw_figure_data(tmp_path, "demo", figure_experiment, [])
    records = store_runs(tmp_path, make_record)
    heatmap = replace(figure_experiment, drawing=Drawing("attention"))
    with pytest.raises(ResultsError, match="run bb: the run kept no examples"):
        draw_figure_data(tmp_path, "demo", heatmap, records)
    assert not figure_path(tmp_path, "demo", figure_experiment.name, "json").exists()


def test_damaged_figure_data_are_refused(
    tmp_path: Path, figure_experiment: Experiment, make_record: Make
) -> None:
    name = figure_experiment.name
    assert read_figure_data(tmp_path, "demo", name) is None
    records = store_runs(tmp_path, make_record)
    path = draw_figure_data(tmp_path, "demo", figure_experiment, records)
    good = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(good))
    with pytest.raises(DamagedFileError, match=path.name):
        read_figure_data(tmp_path, "demo", name)
    sidecar(path).unlink()  # from here on as if it was written by hand
    record = {**good["record"], "value": math.nan}
    for content, message in [
        ("{", "not JSON"),
        ("[]", "expected an object with the keys"),
        (json.dumps({**good, "extra": 1}), "expected an object with the keys"),
        (json.dumps({**good, "example": 3}), "must be objects"),
        (json.dumps({**good, "record": record}), "field 'value' is nan"),
        (json.dumps({**good, "experiment": "other/figure1"}), "belongs to 'other/figure1'"),
    ]:
        path.write_text(content)
        with pytest.raises(ResultsError, match=message):
            read_figure_data(tmp_path, "demo", name)
