"""ROUGE on examples worked by hand; ROUGE-W against enumeration of common subsequences."""

from itertools import combinations

import numpy as np
import pytest

from repro.evaluation.metrics.summarization import KINDS, Overlap, rouge, truncated, weighted_lcs

PLAIN = {"stemming": False}


def weighted_lcs_overlap(words, reference, weight=1.2):
    return Overlap.pooled([weighted_lcs(words, reference, weight)], weight)


def test_unigrams_bigrams_and_subsequence_by_hand():
    scores = rouge(["police kill the gunman"], [["police killed the gunman"]], **PLAIN)
    assert scores["rouge1"][0].recall == pytest.approx(75)
    assert scores["rouge2"][0].fmeasure == pytest.approx(100 / 3)
    assert scores["rougeL"][0].precision == pytest.approx(75)


def test_stemming_joins_inflected_forms():
    stemmed = rouge(["police kill the gunman"], [["police killed the gunman"]])
    assert stemmed["rouge1"][0].fmeasure == pytest.approx(100)


# Runs of common words in the reference, worked by hand, and what ROUGE-1.5.5 printed for the pair
# (-w 1.2 -d -a): precision, recall and F.
WEIGHTED = {
    "a gap in the summary is no gap": (
        "alpha beta xray gamma", "alpha beta gamma", [3], (0.75000, 0.80274, 0.77547),
    ),
    "a gap in the reference is one": (
        "alpha gamma", "alpha beta gamma", [1, 1], (0.89090, 0.47677, 0.62114),
    ),
    "a tie drops the last word of the reference": (
        "alpha gamma beta", "alpha beta gamma", [2], (0.66667, 0.53516, 0.59372),
    ),
    "a tie drops an inner word of the reference": (
        "beta alpha gamma", "alpha beta gamma", [1, 1], (0.59393, 0.47677, 0.52894),
    ),
    "two runs": (
        "the old cat sat there on a mat", "the cat sat on the old mat", [4, 1],
        (0.57778, 0.44744, 0.50432),
    ),
    "repeated words": ("a a b a", "a b a a", [2, 1], (0.67569, 0.51208, 0.58262)),
    "nothing in common": ("kappa", "alpha beta gamma", [], (0.0, 0.0, 0.0)),
}  # fmt: skip


@pytest.mark.parametrize(
    ("summary", "reference", "runs", "printed"), WEIGHTED.values(), ids=WEIGHTED
)
def test_weighted_subsequences_are_those_of_the_program(summary, reference, runs, printed):
    words, gold = summary.split(), reference.split()
    found = weighted_lcs_overlap(words, gold)
    hits = sum(run**1.2 for run in runs) ** (1 / 1.2)
    assert found.precision == pytest.approx(100 * hits / len(words))
    assert found.recall == pytest.approx(100 * hits / len(gold) ** 1.2)
    assert (found.precision, found.recall, found.fmeasure) == pytest.approx(
        tuple(100 * value for value in printed), abs=1.5e-3
    )


def test_counts_of_several_references_are_summed_before_they_are_divided():
    """Two references of three and five words, worked by hand.

    Unigrams: 2 of 3 and 1 of 5 are found, in summaries of 3 words. Pairs: none of 2, none of 4.
    Runs of common words: one of 1 and one of 1; one of 1.
    """
    found = rouge(["alpha xray gamma"], [["alpha beta gamma", "beta delta phi gamma psi"]], **PLAIN)
    for kind in ("rouge1", "rougeL"):
        (one,) = found[kind]
        assert (one.precision, one.recall) == pytest.approx((100 * 3 / 6, 100 * 3 / 8))
        assert one.fmeasure == pytest.approx(100 * 2 * 3 / 14)
    assert found["rouge2"] == [Overlap(0.0, 0.0, 0.0)]
    (weighted,) = found["rougeW1.2"]
    lengths = 3**1.44 + 5**1.44
    assert weighted.precision == pytest.approx(100 * (3 / (2 * 3**1.2)) ** (1 / 1.2))
    assert weighted.recall == pytest.approx(100 * (3 / lengths) ** (1 / 1.2))


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
    scores = rouge(["a b c d", "a b"], [["a b c d"], ["x y"]], **PLAIN)
    for kind in KINDS:
        assert scores[kind][0].precision == pytest.approx(100)
        recall = 100 * 4 / 4**1.2 if kind == "rougeW1.2" else 100
        assert scores[kind][0].recall == pytest.approx(recall)
        assert scores[kind][1].fmeasure == 0


def test_truncation_counts_bytes_and_leaves_no_half_character():
    assert truncated("aäb", 2) == "a"
    assert truncated("aäb", 3) == "aä"
    assert truncated("aäb", None) == "aäb"


@pytest.mark.parametrize(
    ("summary", "references"),
    [
        ("aa bb ccdd", ["aa bb cc dd"]),
        ("aa bb cc", ["aa bb ccdd"]),
        ("über aa bb", ["über aa xx"]),
        ("aa bb cc", ["aa bb ccdd", "aa bb ccxx"]),
    ],
)
def test_summaries_and_references_are_cut_to_the_same_bytes(summary, references):
    # ROUGE-1.5.5 -b 8 prints 1.0 for each: words that are cut in two keep their first part.
    found = rouge([summary], [references], stemming=False, max_bytes=8)
    for kind in ("rouge1", "rouge2", "rougeL"):
        assert found[kind][0].fmeasure == pytest.approx(100)
    assert rouge([summary], [references], **PLAIN)["rouge1"][0].fmeasure < 100


def test_empty_summary_scores_zero():
    scores = rouge([""], [["a b"]], **PLAIN)
    assert all(scores[kind][0].fmeasure == 0 for kind in KINDS)


def test_missing_references_are_refused():
    with pytest.raises(ValueError, match="summary 1 has no reference"):
        rouge(["a"], [[]])
    with pytest.raises(ValueError, match=r"shorter|longer"):
        rouge(["a"], [])
