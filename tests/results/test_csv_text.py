import pandas as pd
import pytest

from repro.results.csv_text import escape_formula, to_csv, unescape_formula

FORMULAS = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"]


@pytest.mark.parametrize("text", FORMULAS)
def test_formulas_become_text(text: str) -> None:
    assert escape_formula(text) == f"'{text}"


@pytest.mark.parametrize("text", [*FORMULAS, "", "a=b", "'", "'=1", "'x", "''+", "1e-3"])
def test_every_text_is_restored(text: str) -> None:
    assert unescape_formula(escape_formula(text)) == text


def test_texts_of_older_files_stay_as_they_are() -> None:
    assert [unescape_formula(text) for text in ("-x", "=y", "z")] == ["-x", "=y", "z"]


def test_numbers_are_not_touched() -> None:
    frame = pd.DataFrame({"label": ["-a", "b"], "value": [-1.5, 2.0], "seed": [-1, 3]})
    assert to_csv(frame) == "label,value,seed\n'-a,-1.5,-1\nb,2.0,3\n"
