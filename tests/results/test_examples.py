"""Examples that a run keeps for figures are checked where its folder is read."""

from pathlib import Path
from typing import Any

import pytest

from repro.results import ResultsError, RunFolder

Row = dict[str, Any]
NAN = float("nan")
ATTENTION: Row = {"source": ["a", "b"], "output": ["x", "</s>"], "weights": [[0.0, 1.0]] * 2}
PREMISE: Row = {"premise": ["a", "b"], "weights": [0.5, 0.5]}
ALIGNED: Row = {
    "premise": ["a", "b"],
    "hypothesis": ["x"],
    "premise_to_hypothesis": [[1.0], [1.0]],
    "hypothesis_to_premise": [[0.25, 0.75]],
    "structures": {"premise_to_hypothesis": [{"weight": 1.0, "partners": [0, 0]}],
                   "hypothesis_to_premise": [{"weight": 1.0, "partners": [1]}]},
}  # fmt: skip
HYPOTHESES: Row = {
    "finite": True,
    "hypotheses": [
        {"tokens": ["a", "</s>"], "probability": 0.75, "steps": [0.75, 1.0]},
        {"tokens": [], "probability": 0.25, "steps": [0.25]},
    ],
}
CANDIDATES: Row = {
    "words": ["a", "b"],
    "gold": [0, 1],
    "candidates": [{"heads": [0, 1], "weight": 0.5}, {"heads": [2, 0], "weight": 0.5}],
}
FORCED: Row = {
    "target": ["a"],
    "steps": [{"probability": 0.25, "support": 2, "alternatives": [["b", 0.75], ["a", 0.25]]}],
}


def hypotheses(*entries: tuple[float, list[float]], finite: bool = True) -> Row:
    found = [{"tokens": ["a"], "probability": p, "steps": steps} for p, steps in entries]
    return {"finite": finite, "hypotheses": found}


def step(**changes: Any) -> Row:
    return {**FORCED, "steps": [{**FORCED["steps"][0], **changes}]}


@pytest.mark.parametrize(
    ("kind", "row"),
    [
        ("attention", ATTENTION), ("attention", PREMISE), ("attention", ALIGNED),
        ("hypotheses", HYPOTHESES), ("hypotheses", hypotheses((0.5, [0.5]), finite=False)),
        ("candidates", CANDIDATES), ("forced", FORCED),
    ],
)  # fmt: skip
def test_what_a_model_puts_out_is_read(tmp_path: Path, kind: str, row: Row) -> None:
    folder = RunFolder(tmp_path)
    getattr(folder, f"write_{kind}")([row])
    assert getattr(folder, f"read_{kind}")() == [row]


@pytest.mark.parametrize(
    ("kind", "row"),
    [
        ("attention", {**ATTENTION, "weights": [[0.5, 0.4]] * 2}),
        ("attention", {**ATTENTION, "weights": [[1.5, -0.5]] * 2}),
        ("attention", {**ATTENTION, "weights": [[NAN, 1.0]] * 2}),
        ("attention", {**ATTENTION, "weights": [[0.0, 1.0]]}),
        ("attention", {**ATTENTION, "weights": None}),
        ("attention", {"weights": [[0.5]]}),
        ("attention", {}),
        ("attention", {**PREMISE, "weights": [1.0]}),
        ("attention", {**ALIGNED, "structures": None}),
        ("attention", {**ALIGNED, "hypothesis_to_premise": [[0.25, 0.5]]}),
        ("attention", {**ALIGNED, "premise_to_hypothesis": [[1.0]]}),
        ("attention", {**ALIGNED, "structures": {
            **ALIGNED["structures"],
            "hypothesis_to_premise": [{"weight": 1.0, "partners": [2]}],
        }}),
        ("hypotheses", hypotheses((1.0, [1.0, 1.0, 1.0]))),
        ("hypotheses", hypotheses((1.0, [1.0]))),
        ("hypotheses", hypotheses((0.9, [0.9, 1.0]))),
        ("hypotheses", hypotheses((1.0, [1.0, 1.0]), (1.0, [1.0, 1.0]), finite=False)),
        ("hypotheses", hypotheses((-0.5, [-0.5, 1.0]), finite=False)),
        ("hypotheses", {"finite": True, "hypotheses": [{}]}),
        ("candidates", {**CANDIDATES, "candidates": []}),
        ("candidates", {**CANDIDATES, "gold": [0]}),
        ("candidates", {**CANDIDATES, "candidates": [{"heads": [0, 3], "weight": 1.0}]}),
        ("candidates", {**CANDIDATES, "candidates": [{"heads": [0, 1], "weight": 0.5}]}),
        ("candidates", {**CANDIDATES, "candidates": [{"heads": [0, 1], "weight": NAN}]}),
        ("forced", {**FORCED, "steps": []}),
        ("forced", step(probability=0.5)),
        ("forced", step(probability=NAN)),
        ("forced", step(support=1)),
        ("forced", step(alternatives=[])),
        ("forced", step(alternatives=[["a", 0.25], ["b", 0.5]])),
        ("forced", step(alternatives=[["a", 0.9], ["b", 0.9]])),
    ],
)  # fmt: skip
def test_what_no_model_puts_out_is_refused(tmp_path: Path, kind: str, row: Row) -> None:
    folder = RunFolder(tmp_path)
    getattr(folder, f"write_{kind}")([row])
    with pytest.raises(ResultsError, match=rf"{kind}\.jsonl:1: "):
        getattr(folder, f"read_{kind}")()
