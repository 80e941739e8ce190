"""BLEU against its definition."""

import math
from collections import Counter

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU

from repro.evaluation.bleu import bleu_of_statistics, detokenised_bleu, tokenised_bleu

HYPOTHESES = ["the cat sat on the mat today", "a dog barks at the moon", "it rains all day long"]
REFERENCES = ["the cat sat on the mat", "the dog barks at a moon", "it rains all the day long"]


def bleu_by_definition(hypotheses, references):
    """Papineni et al. (2002): clipped precisions up to four words, brevity penalty."""
    ours = theirs = 0
    matches, totals = np.zeros(4), np.zeros(4)
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        words, gold = hypothesis.split(), reference.split()
        ours, theirs = ours + len(words), theirs + len(gold)
        for n in range(1, 5):
            found = Counter(tuple(words[k : k + n]) for k in range(len(words) - n + 1))
            wanted = Counter(tuple(gold[k : k + n]) for k in range(len(gold) - n + 1))
            matches[n - 1] += sum((found & wanted).values())
            totals[n - 1] += sum(found.values())
    brevity = min(0.0, 1 - theirs / ours)
    return 100 * math.exp(brevity + np.log(matches / totals).mean())


def test_tokenised_bleu_equals_the_definition():
    score = tokenised_bleu(HYPOTHESES, REFERENCES)
    assert score.value == pytest.approx(bleu_by_definition(HYPOTHESES, REFERENCES), abs=1e-9)
    assert "tok:none" in score.signature


def test_tokens_are_left_as_they_are():
    assert tokenised_bleu(["a b c d,"], ["a b c d,"]).value == pytest.approx(100)
    assert tokenised_bleu(["a b c d ,"], ["a b c d,"]).value < 100
    assert detokenised_bleu(["a b c d ,"], ["a b c d,"]).value == pytest.approx(100)


def test_case_counts_unless_it_is_ignored():
    shouted = [text.upper() for text in REFERENCES]
    assert tokenised_bleu(shouted, REFERENCES).value < 1
    assert tokenised_bleu(shouted, REFERENCES, lowercase=True).value == pytest.approx(100)
    assert "case:lc" in tokenised_bleu(shouted, REFERENCES, lowercase=True).signature


@pytest.mark.parametrize("bleu", [tokenised_bleu, detokenised_bleu])
def test_statistics_of_sentences_sum_to_the_corpus_score(bleu):
    score = bleu(HYPOTHESES, REFERENCES)
    assert bleu_of_statistics(score.statistics.sum(0)) == pytest.approx(score.value, abs=1e-9)


def test_bleu_of_many_sums_is_that_of_sacrebleu():
    generator = np.random.default_rng(3)
    totals = -np.sort(-generator.integers(0, 12, (400, 4)), axis=1)
    matches = generator.integers(0, totals + 1)
    sums = np.column_stack([totals[:, 0], generator.integers(1, 15, 400), matches, totals])
    expected = [
        BLEU.compute_bleu(
            correct=row[2:6].tolist(), total=row[6:].tolist(), sys_len=int(row[0]),
            ref_len=int(row[1]), smooth_method="exp",
        ).score
        for row in sums
    ]  # fmt: skip
    found = bleu_of_statistics(sums.reshape(20, 20, 10))
    assert found.shape == (20, 20)
    assert found.ravel() == pytest.approx(expected, abs=1e-9)
    assert 0 in expected
    assert max(expected) > 50


def test_lists_of_different_length_are_refused():
    with pytest.raises(ValueError, match="as many translations as references"):
        tokenised_bleu(["a"], [])
    with pytest.raises(ValueError, match="at least one"):
        tokenised_bleu([], [])
