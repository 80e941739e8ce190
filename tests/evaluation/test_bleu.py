"""BLEU against its definition."""

import math
import re
import shutil
import subprocess
from collections import Counter

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU

from repro.evaluation.metrics.translation import bleu_of_statistics, plain_counts, token_counts

HYPOTHESES = ["the cat sat on the mat today", "a dog barks at the moon", "it rains all day long"]
REFERENCES = ["the cat sat on the mat", "the dog barks at a moon", "it rains all the day long"]


A_TO_Z = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}


def tokenised_bleu(hypotheses, references, lowercase=False):
    return bleu_of_statistics(token_counts(hypotheses, references, lowercase=lowercase).sum(0))


def plain_bleu(hypotheses, references):
    return bleu_of_statistics(plain_counts(hypotheses, references).sum(0), smoothed=True)


def words_of(text, lowercase=False):
    """Tokens of a text that is read as bytes: ASCII spaces part them, A to Z have a lower case."""
    text = text.translate(A_TO_Z) if lowercase else text
    return [word for word in re.split("[ \t\n\v\f\r]+", text) if word]


def bleu_by_definition(hypotheses, references, lowercase=False):
    """Papineni et al. (2002): clipped precisions up to four words, brevity penalty."""
    ours = theirs = 0
    matches, totals = np.zeros(4), np.zeros(4)
    for pair in zip(hypotheses, references, strict=True):
        words, gold = (words_of(text, lowercase) for text in pair)
        ours += len(words)
        theirs += len(gold)
        for n in range(1, 5):
            found, wanted = (
                Counter(tuple(text[k : k + n]) for k in range(len(text) - n + 1))
                for text in (words, gold)
            )
            matches[n - 1] += sum(min(found[ngram], wanted[ngram]) for ngram in found)
            totals[n - 1] += sum(found.values())
    if not matches.all():
        return 0.0
    brevity = min(0.0, 1 - theirs / ours)
    return 100 * math.exp(brevity + np.log(matches / totals).mean())


def test_tokenised_bleu_of_random_texts():
    generator = np.random.default_rng(8)
    words = ["a", "B", "b", "Ä", "ä", "x\u00a0y", "x\x1cy", "x\u2003y", "\u3000", "d\x0be", "İ"]

    def text():
        return " ".join(generator.choice(words, generator.integers(0, 12)))

    values = []
    for lowercase in (False, True):
        for _ in range(40):
            references = [text() for _ in range(3)]
            hypotheses = [text(), text(), f"{references[2]} {text()}"]
            expected = bleu_by_definition(hypotheses, references, lowercase)
            score = tokenised_bleu(hypotheses, references, lowercase=lowercase)
            assert score == pytest.approx(expected, abs=1e-9)
            values.append(expected)
    assert 0 in values
    assert max(values) > 30


# What multi-bleu.perl printed for each, with -lc where the case is ignored.
PRINTED = {
    "no common 4-gram": (["a b c x y"], ["a b c d e"], False, 0.00),
    "three words": (["a b c"], ["a b c"], False, 0.00),
    "no-break space": (["a b c\u00a0d e f"], ["a b c d e f"], False, 0.00),
    "no-break space on both sides": (["a b\u00a0c d e"], ["a b\u00a0c d e"], False, 100.00),
    "umlauts keep their case": (["Ä b c d e f"], ["ä B C D E F"], True, 75.98),
    "empty translation": (["", "a b c d e"], ["a b", "a b c d e"], False, 67.03),
    "empty reference": (["a b c", "a b c d e"], ["", "a b c d e"], False, 74.77),
}


@pytest.mark.parametrize(
    ("hypotheses", "references", "lowercase", "printed"), PRINTED.values(), ids=PRINTED
)
def test_edge_cases_are_those_of_the_program(hypotheses, references, lowercase, printed):
    score = tokenised_bleu(hypotheses, references, lowercase=lowercase)
    assert score == pytest.approx(printed, abs=0.005)


def test_nothing_translated_is_worth_nothing():
    assert tokenised_bleu(["", " "], ["a b c d", "e"]) == 0


def test_perl_separates_and_lowers_bytes_alike():
    perl = shutil.which("perl")
    if perl is None:
        pytest.skip("perl is not installed")
    texts = ["Ä\u00a0B C", "İ \u2003Ñ", " a\x0bB\x0cC\tD\rE ", "X\x1cY\x85Z", "\u0130\u212a"]
    program = r"while (<>) { $_ = lc; print join(q(|), map { unpack q(H*), $_ } split), qq(\n) }"
    printed = subprocess.run(
        [perl, "-e", program], input="\n".join(texts).encode(), capture_output=True, check=True
    ).stdout.decode()
    for text, line in zip(texts, printed.splitlines(), strict=True):
        words = [bytes.fromhex(word).decode() for word in line.split("|")]
        assert words == words_of(text, lowercase=True)


def test_tokens_are_left_as_they_are():
    assert tokenised_bleu(["a b c d,"], ["a b c d,"]) == pytest.approx(100)
    assert tokenised_bleu(["a b c d ,"], ["a b c d,"]) < 100
    assert plain_bleu(["a b c d ,"], ["a b c d,"]) == pytest.approx(100)


@pytest.mark.parametrize("last", ["it rains all day long", "no words at all here"])
def test_statistics_of_sentences_sum_to_the_corpus_score(last):
    for hypotheses in ([*HYPOTHESES[:2], last], [last]):
        references = REFERENCES[-len(hypotheses) :]
        expected = BLEU().corpus_score(hypotheses, [references]).score
        assert plain_bleu(hypotheses, references) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("smoothed", [True, False])
def test_bleu_of_many_sums_is_that_of_sacrebleu(smoothed):
    generator = np.random.default_rng(3)
    totals = -np.sort(-generator.integers(0, 12, (400, 4)), axis=1)
    matches = generator.integers(0, totals + 1)
    sums = np.column_stack([totals[:, 0], generator.integers(1, 15, 400), matches, totals])
    expected = [
        BLEU.compute_bleu(
            correct=row[2:6].tolist(), total=row[6:].tolist(), sys_len=int(row[0]),
            ref_len=int(row[1]), smooth_method="exp" if smoothed else "none",
        ).score
        for row in sums
    ]  # fmt: skip
    found = bleu_of_statistics(sums.reshape(20, 20, 10), smoothed=smoothed)
    assert found.shape == (20, 20)
    assert found.ravel() == pytest.approx(expected, abs=1e-9)
    assert 0 in expected
    assert max(expected) > 50
