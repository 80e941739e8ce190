import json
import os
from pathlib import Path

import pytest

from repro.errors import DataError
from repro.evaluation.metrics.inflection import RULE_BASELINE_FILE, read_rule_baseline

GOOD = {"lang": "adyghe", "q": "medium", "ntrain": 1000, "test": 84.8}


def test_reads_accuracies_by_language_and_setting(tmp_path):
    path = tmp_path / RULE_BASELINE_FILE
    rows = [GOOD, GOOD | {"q": "high", "test": 90}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert read_rule_baseline(path) == {("adyghe", "medium"): 84.8, ("adyghe", "high"): 90.0}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "b.jsonl:2: "),
        ("[]", "b.jsonl:2: expected a JSON object"),
        (json.dumps(GOOD | {"lang": ""}), "b.jsonl:2: expected the language"),
        (json.dumps(GOOD | {"q": "low"}), "b.jsonl:2: expected medium or high in 'q', found 'low'"),
        (json.dumps(GOOD | {"q": []}), "b.jsonl:2: expected medium or high"),
        (json.dumps(GOOD | {"q": "high", "test": 100.5}), "b.jsonl:2: expected a percentage"),
        (json.dumps(GOOD | {"q": "high", "test": True}), "b.jsonl:2: expected a percentage"),
        (json.dumps(GOOD | {"q": "high", "test": float("nan")}), "b.jsonl:2: expected a percent"),
        (json.dumps({"lang": "a", "q": "high"}), "b.jsonl:2: expected a percentage"),
        (json.dumps(GOOD), "b.jsonl:2: adyghe in medium is repeated"),
    ],
)
def test_malformed_line_is_named(tmp_path, line, message):
    path = tmp_path / "b.jsonl"
    path.write_text(f"{json.dumps(GOOD)}\n{line}\n", encoding="utf-8")
    with pytest.raises(DataError, match=message):
        read_rule_baseline(path)


def test_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"b\.jsonl is missing"):
        read_rule_baseline(tmp_path / "b.jsonl")


@pytest.mark.real
def test_real_baseline_has_its_known_macro_averages():
    path = Path(os.environ.get("REPRO_DATA_DIR", "")) / RULE_BASELINE_FILE
    if not path.is_file():
        pytest.skip("REPRO_DATA_DIR does not hold the measurements of the rule baseline")
    accuracies = read_rule_baseline(path)
    for setting, count, macro in (("medium", 102, 63.50), ("high", 86, 77.37)):
        values = [value for (_, q), value in accuracies.items() if q == setting]
        assert len(values) == count
        assert round(sum(values) / count, 2) == macro
