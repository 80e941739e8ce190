from dataclasses import replace
from pathlib import Path

import pytest

from repro.checksums import DamagedFileError, sidecar
from repro.results import Comparison, ResultsError, read_comparisons, write_comparisons

ONE = Comparison(
    row="csparsemax, c = 0.2",
    column="De-En REP",
    metric="test/rep",
    baseline="softmax",
    runs="a b",
    baseline_runs="c d",
    examples=1000,
    difference=-0.1 - 0.2,
    p_bootstrap=1 / 3,
    p_randomisation=1e-4,
    signature="bootstrap|trials:1000 randomisation|trials:10000",
)
NAME = "malaviya2018/table1"


def test_round_trip_is_exact_and_ordered(tmp_path: Path) -> None:
    two = replace(ONE, column="De-En DROP", metric="test/drop", runs="", p_bootstrap=1.0)
    path = write_comparisons(tmp_path, "demo", NAME, [ONE, two])
    assert path == tmp_path / "demo" / "significance" / "malaviya2018" / "table1.csv"
    assert read_comparisons(tmp_path, "demo", NAME) == [two, ONE]
    first = path.read_bytes()
    assert write_comparisons(tmp_path, "demo", NAME, [two, ONE]).read_bytes() == first


def test_no_file_means_no_comparison(tmp_path: Path) -> None:
    assert read_comparisons(tmp_path, "demo", NAME) == []


@pytest.mark.parametrize("p_value", [0.0, 1.5, float("nan")])
def test_p_values_are_probabilities(p_value: float) -> None:
    with pytest.raises(ResultsError, match="p-values of csparsemax"):
        replace(ONE, p_bootstrap=p_value)
    with pytest.raises(ResultsError, match="p-values of csparsemax"):
        replace(ONE, p_randomisation=p_value)


def test_an_empty_comparison_is_refused() -> None:
    with pytest.raises(ResultsError, match="at least one example"):
        replace(ONE, examples=0)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("examples", "sentences", "expected the columns row, column"),
        (",1000,", ",many,", "comparison 1: invalid literal"),
        (",0.0001,", ",2,", "comparison 1: p-values"),
    ],
)
def test_a_damaged_file_is_refused_by_name(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    path = write_comparisons(tmp_path, "demo", NAME, [ONE])
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(DamagedFileError, match=r"table1\.csv is damaged"):
        read_comparisons(tmp_path, "demo", NAME)
    sidecar(path).unlink()  # as if it was written by hand
    with pytest.raises(ResultsError, match=rf"table1\.csv: {message}"):
        read_comparisons(tmp_path, "demo", NAME)
