from dataclasses import replace

import pytest

from repro.results import Comparison, ResultsError, read_comparisons, write_comparisons

ONE = Comparison(
    metric="test/rep", runs="a b", baseline_runs="c d", signature="randomisation|trials:10000",
    examples=1000, difference=-0.1 - 0.2, p_value=1 / 3,
)  # fmt: skip


def test_round_trip_is_exact_and_ordered(tmp_path):
    two = replace(ONE, metric="test/drop", runs="", p_value=1.0)
    path = write_comparisons(tmp_path, "demo", [ONE, two])
    assert path == tmp_path / "demo" / "significance.csv"
    assert read_comparisons(tmp_path, "demo") == {two.identity: two, ONE.identity: ONE}
    first = path.read_bytes()
    assert write_comparisons(tmp_path, "demo", [two, ONE]).read_bytes() == first


def test_no_file_means_no_comparison(tmp_path):
    assert read_comparisons(tmp_path, "demo") == {}


@pytest.mark.parametrize("p_value", [0.0, 1.5, float("nan")])
def test_p_values_are_probabilities(p_value):
    with pytest.raises(ResultsError, match=r"p-value of test/rep|p_value"):
        replace(ONE, p_value=p_value)


def test_an_empty_comparison_is_refused():
    with pytest.raises(ResultsError, match="at least one example"):
        replace(ONE, examples=0)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b"examples", b"sentences", "1: expected the columns metric"),
        (b",1000,", b",many,", "2: invalid literal"),
        (b",1000,", b",\xff,", "2"),
        (repr(1 / 3).encode(), b"2", "2: p-value"),
    ],
)
def test_a_damaged_file_is_refused_by_name(tmp_path, old, new, message):
    path = write_comparisons(tmp_path, "demo", [ONE])
    path.write_bytes(path.read_bytes().replace(old, new, 1))
    with pytest.raises(ResultsError, match=rf"significance\.csv:{message}"):
        read_comparisons(tmp_path, "demo")
