"""Metrics of summed statistics."""

import numpy as np
import pytest

from repro.evaluation.metrics import METRICS, formula_of, metric_of, score_outputs
from repro.evaluation.metrics.translation import Translations, length_quartiles
from repro.evaluation.sufficient_statistics import (
    mean_of_sums,
    metric_value,
    percentage_of_sums,
    ratios,
)


def test_only_whole_splits_of_computed_metrics_have_a_form():
    assert formula_of("test_duc2004/rougeW_whole") is mean_of_sums
    assert formula_of("test/uas") is percentage_of_sums
    assert formula_of("train/tokens_per_second") is None
    assert formula_of("test/label_recall/neutral") is None
    assert formula_of("test/label_recall") is None


def test_a_metric_reads_outputs_and_sums_or_neither():
    for metric in METRICS.values():
        assert (metric.outputs is None) == (metric.statistics is None) == (metric.from_sums is None)


def test_values_are_the_form_of_the_summed_statistics():
    texts = Translations([list("aabaab"), ["c", "c"], ["a"]], [list("abc"), ["c"], ["d", "e"]])
    found = score_outputs("test", texts)
    names = {f"test/{name}" for name in ("bleu", "bleu_lc", "rep", "rep_printed")}
    assert set(found.values) == set(found.statistics) == names
    for name, rows in found.statistics.items():
        form = formula_of(name)
        assert form is not None
        assert found.values[name] == metric_value(rows, form)
        assert metric_of(name).value(texts) == found.values[name]
    with pytest.raises(TypeError, match="drop is not defined for these Translations"):
        METRICS["drop"].value(texts)
    with pytest.raises(TypeError, match="uas is not defined for these Translations"):
        METRICS["uas"].value(texts)


def test_parts_by_length_leave_the_whole_as_it_is():
    """Four sources of one to four words; only the longest one repeats a pair of words."""
    hypotheses = [["a"], ["a"], ["a"], list("abab")]
    sources = [["x"] * length for length in (1, 2, 3, 4)]
    texts = Translations(hypotheses, [["c"]] * 4, sources=sources)
    found = score_outputs("test", texts).values
    assert found["test/rep"] == 100 * 2 / 4
    assert [found[f"test/rep/q{n}"] for n in (1, 2, 3, 4)] == [0, 0, 0, 200]
    assert "length:q4" in metric_of("test/rep/q4").signature
    assert length_quartiles([["x", "y"]] * 5) == ["q1"] * 5


def test_nothing_counted_is_zero_at_any_shape():
    sums = np.array([[[3.0, 4.0], [0.0, 0.0]]])
    assert mean_of_sums(sums).tolist() == [[0.75, 0.0]]
    assert mean_of_sums(ratios([2.0, 4.0]).sum(0)) == 3.0


def test_groups_weigh_the_same():
    rows = ratios([1, 1, 0, 1])
    assert metric_value(rows, mean_of_sums) == 0.75
    assert metric_value(rows, mean_of_sums, [0, 0, 0, 1]) == pytest.approx((2 / 3 + 1) / 2)
    with pytest.raises(ValueError, match="3 groups for 4 examples"):
        metric_value(rows, mean_of_sums, [0, 0, 1])
