"""Metrics of summed statistics against the metrics of the corpus."""

import numpy as np
import pytest

from repro.evaluation.attachment import attachment_statistics, score_attachment
from repro.evaluation.coverage import drop_score, rep_score
from repro.evaluation.metrics import form_of
from repro.evaluation.sufficient_statistics import (
    mean_of_sums,
    percentage_of_sums,
    statistics_of_scores,
)


def test_metrics_of_the_tables_have_a_form() -> None:
    for name in (
        "bleu",
        "bleu_lc",
        "rep",
        "drop",
        "meteor",
        "meteor_nltk",
        "rouge1",
        "rouge2",
        "rougeL",
        "rougeW",
    ):
        assert form_of(f"test/{name}") is not None, name


def test_only_whole_splits_of_known_metrics_have_a_form() -> None:
    assert form_of("test_duc2004/rougeW_whole") is mean_of_sums
    assert form_of("test/uas") is percentage_of_sums
    assert form_of("train/tokens_per_second") is None
    assert form_of("test/label_recall/neutral") is None


def test_sums_of_coverage_counts_give_the_scores() -> None:
    hypotheses = [list("aabaab"), ["c", "c"], []]
    references = [["a", "b", "c"], ["c"], ["d", "e"]]
    rep = rep_score(hypotheses, references)
    assert percentage_of_sums(rep.statistics.sum(0)) == pytest.approx(rep.value)
    gold = [frozenset({(0, 0), (1, 1)}), frozenset({(0, 0)}), frozenset()]
    drop = drop_score([frozenset({(0, 0)}), frozenset(), frozenset()], gold)
    assert percentage_of_sums(drop.statistics.sum(0)) == pytest.approx(drop.value)
    assert drop.statistics.tolist() == [[1.0, 2.0], [1.0, 1.0], [0.0, 0.0]]


def test_sums_of_attachment_counts_give_the_scores() -> None:
    gold, predicted = [[2, 0, 2], [0], [0, 1]], [[2, 0, 1], [0], [2, 0]]
    rows, scores = attachment_statistics(gold, predicted), score_attachment(gold, predicted)
    values = {f"test/{name}": percentage_of_sums(each.sum(0)) for name, each in rows.items()}
    assert values == pytest.approx(scores.as_metrics("test"))


def test_nothing_counted_is_zero_at_any_shape() -> None:
    sums = np.array([[[3.0, 4.0], [0.0, 0.0]]])
    assert mean_of_sums(sums).tolist() == [[0.75, 0.0]]
    assert mean_of_sums(statistics_of_scores([2.0, 4.0]).sum(0)) == 3.0
