import pandas as pd
import pytest

from repro.results.frame import escape_formula, to_csv

FORMULAS = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"]


@pytest.mark.parametrize("text", FORMULAS)
def test_formulas_become_text(text):
    assert escape_formula(text) == f"'{text}"


def test_numbers_are_not_touched():
    frame = pd.DataFrame({"label": ["-a", "b"], "value": [-1.5, 2.0], "seed": [-1, 3]})
    assert to_csv(frame) == "label,value,seed\n'-a,-1.5,-1\nb,2.0,3\n"
