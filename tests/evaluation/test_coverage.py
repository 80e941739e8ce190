"""REP and DROP on examples worked by hand."""

import pytest

from repro.evaluation.metrics.translation import drop_counts, rep_counts


def rep(hypothesis, reference, **settings):
    return rep_counts([hypothesis.split()], [reference.split()], **settings)[0, 0]


@pytest.mark.parametrize(
    ("hypothesis", "reference", "cost"),
    [
        ("a b a b a b", "a b c", 2 + 2),  # "a b" occurs 3 times, 1 allowed; "b a" 2, 0 allowed
        ("a b x a b", "c d", 2),  # a bigram unknown to the reference counts in full
        ("a b c d", "x y", 0),  # single bigrams cost nothing
        ("a a b", "a b", 2),  # "a a" once: as a bigram below two, as a doubled word 2 * 1
        ("a a a b", "a b", 2 + 4),  # "a a" twice: as a bigram 2, as a doubled word 2 * 2
        ("very very good", "very very good", 0),  # what the reference repeats is no mistake
    ],
)
def test_repeated_bigrams_and_words_in_a_row_cost_what_the_reference_lacks(
    hypothesis, reference, cost
):
    assert rep(hypothesis, reference) == cost


def test_corpus_score_is_normalized_by_reference_words():
    counts = rep_counts([["a", "a"], ["b"]], [["a", "x", "y"], ["b"]])
    assert counts.tolist() == [[2, 3], [0, 1]]


def test_drop_counts_source_words_not_links():
    gold = frozenset({(0, 0), (0, 1), (1, 2), (3, 3)})
    ours = frozenset({(0, 0), (2, 1)})
    assert drop_counts([ours, frozenset()], [gold, frozenset()]).tolist() == [[2, 3], [0, 0]]


def test_a_translation_without_links_drops_every_aligned_word():
    assert drop_counts([frozenset()], [frozenset({(0, 0), (2, 1)})]).tolist() == [[2, 2]]


def test_lists_of_different_length_are_refused():
    with pytest.raises(ValueError, match=r"shorter|longer"):
        rep_counts([["a"]], [])
    with pytest.raises(ValueError, match=r"shorter|longer"):
        drop_counts([], [frozenset()])


def test_the_printed_formula_counts_surplus_words():
    # Words: "a" 3 - 1, "c" 1 - 0, each 2; bigrams: "a a" 2 - 0.
    assert rep("a a a c", "a b", as_printed=True) == 2 + 2 * (2 + 1)
    assert rep("a b", "b a", as_printed=True) == 0
