"""ROUGE on examples worked by hand; ROUGE-W against enumeration of common subsequences."""

from itertools import combinations

import numpy as np
import pytest

from repro.evaluation.rouge import (
    KINDS,
    RougeSettings,
    corpus_rouge,
    rouge,
    truncated,
    weighted_lcs_overlap,
)

PLAIN = RougeSettings(stemming=False)


def test_unigrams_bigrams_and_subsequence_by_hand():
    scores = rouge(["police kill the gunman"], [["police killed the gunman"]], PLAIN)
    assert scores["rouge1"][0].recall == pytest.approx(75)
    assert scores["rouge2"][0].fmeasure == pytest.approx(100 / 3)
    assert scores["rougeL"][0].precision == pytest.approx(75)


def test_stemming_joins_inflected_forms():
    stemmed = rouge(["police kill the gunman"], [["police killed the gunman"]])
    assert stemmed["rouge1"][0].fmeasure == pytest.approx(100)


def test_runs_count_for_more_than_scattered_words():
    # Lin (2004), §5: both candidates share ABCD with the reference, the first without gaps.
    reference = list("ABCDEFG")
    together = weighted_lcs_overlap(list("ABCDHIK"), reference)
    scattered = weighted_lcs_overlap(list("AHBKCID"), reference)
    assert together.precision == pytest.approx(100 * 4 / 7)
    assert scattered.precision == pytest.approx(100 * 4 ** (1 / 1.2) / 7)


def test_recall_of_weighted_subsequences_is_that_of_the_program():
    # What ROUGE-1.5.5 printed for 74 words against 26 with twelve in common: precision 0.12627,
    # recall 0.18732. Their quotient depends on the lengths alone.
    found = weighted_lcs_overlap(["a"] * 12 + ["b"] * 62, ["a"] * 12 + ["c"] * 14)
    assert found.recall / found.precision == pytest.approx(0.18732 / 0.12627, rel=1e-4)


def longest_by_enumeration(words, reference):
    return max(
        size
        for size in range(len(words) + 1)
        for kept in combinations(words, size)
        if is_subsequence(kept, reference)
    )


def is_subsequence(kept, reference):
    rest = iter(reference)
    return all(word in rest for word in kept)


def test_without_weight_it_is_the_longest_common_subsequence():
    generator = np.random.default_rng(3)
    for _ in range(50):
        words, reference = generator.choice(list("abc"), (2, 6)).tolist()
        found = weighted_lcs_overlap(words, reference, weight=1.0)
        expected = 100 * longest_by_enumeration(words, reference) / 6
        assert found.recall == pytest.approx(expected)


def test_identical_texts_score_one_hundred_and_disjoint_ones_zero():
    scores = rouge(["a b c d", "a b"], [["a b c d"], ["x y"]], PLAIN)
    for kind in KINDS:
        assert scores[kind][0].precision == pytest.approx(100)
        recall = 100 * 4 / 4**1.2 if kind == "rougeW1.2" else 100
        assert scores[kind][0].recall == pytest.approx(recall)
        assert scores[kind][1].fmeasure == 0


def test_several_references_are_averaged_or_the_best_is_taken():
    gold = [["a b", "x y"]]
    assert rouge(["a b"], gold, PLAIN)["rouge1"][0].fmeasure == pytest.approx(50)
    best = RougeSettings(stemming=False, best_reference=True)
    assert rouge(["a b"], gold, best)["rouge1"][0].fmeasure == pytest.approx(100)


def test_truncation_counts_bytes_and_leaves_no_half_character():
    assert truncated("aäb", 2) == "a"
    assert truncated("aäb", 3) == "aä"
    assert truncated("aäb", None) == "aäb"
    cut = RougeSettings(stemming=False, max_bytes=3)
    assert rouge(["a b c d"], [["a b c d"]], cut)["rouge1"][0].recall == pytest.approx(50)


def test_empty_summary_scores_zero():
    scores = rouge([""], [["a b"]], PLAIN)
    assert all(scores[kind][0].fmeasure == 0 for kind in KINDS)


def test_corpus_score_is_the_mean():
    scores = rouge(["a", "b"], [["a"], ["a"]], PLAIN)
    assert corpus_rouge(scores)["rouge1"].fmeasure == pytest.approx(50)


def test_signature_names_every_choice():
    signature = RougeSettings(max_bytes=75).signature
    assert signature.startswith("stem:yes|bytes:75|refs:average|rouge-score:")


def test_missing_references_are_refused():
    with pytest.raises(ValueError, match="summary 1 has no reference"):
        rouge(["a"], [[]])
    with pytest.raises(ValueError, match=r"shorter|longer"):
        rouge(["a"], [])
