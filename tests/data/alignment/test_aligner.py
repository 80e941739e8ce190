"""The aligner against enumeration of every alignment of tiny corpora."""

from itertools import pairwise, product

import numpy as np
import pytest

from repro.data.alignment import AlignerSettings, train_aligner, train_two_way
from repro.data.alignment.corpus import NULL, WordNumbers, flatten
from repro.data.alignment.diagonal import best_tension, closeness, sentence_sizes
from repro.data.alignment.expectation import _digamma, expected_counts
from repro.data.alignment.table import collect_pairs, find
from repro.data.errors import DataError

PAIRS = [
    (["das", "haus"], ["the", "house"]),
    (["das", "buch"], ["the", "book", "here"]),
    (["ein", "buch", "da"], ["a", "book"]),
    (["ein", "haus"], ["house"]),
]
NULL_PROBABILITY, TENSION = 0.2, 2.5


def prior(j, i, n, m, tension=TENSION):
    """δ(j) by its definition; j = 0 is NULL, positions from one."""
    if j == 0:
        return NULL_PROBABILITY
    weights = [np.exp(-tension * abs(i / m - k / n)) for k in range(1, n + 1)]
    return (1 - NULL_PROBABILITY) * weights[j - 1] / sum(weights)


def enumerate_alignments(source, target, translation):
    """Every alignment of a pair with its joint probability."""
    n, m = len(source), len(target)
    words = ["<null>", *source]
    for alignment in product(range(n + 1), repeat=m):
        probability = 1.0
        for i, j in enumerate(alignment):
            probability *= prior(j, i + 1, n, m) * translation[words[j], target[i]]
        yield alignment, probability


@pytest.fixture
def problem():
    source = WordNumbers.of(pair[0] for pair in PAIRS)
    target = WordNumbers.of(pair[1] for pair in PAIRS)
    corpus = flatten(PAIRS, source, target)
    table = collect_pairs(corpus, len(target))
    generator = np.random.default_rng(5)
    probabilities = generator.uniform(0.05, 1.0, len(table.keys))
    names = {number: word for word, number in source.numbers.items()} | {NULL: "<null>"}
    english = {number: word for word, number in target.numbers.items()}
    translation = {
        (names[key // table.width], english[key % table.width]): probabilities[slot]
        for slot, key in enumerate(table.keys)
        if key >= 0
    }
    return corpus, table, probabilities, translation, source, target


def run_expectation(problem, tension=TENSION):
    corpus, table, probabilities, *_ = problem
    counts = np.zeros(len(table.keys))
    sums = expected_counts(
        corpus.source, corpus.target, corpus.source_starts, corpus.target_starts, table.keys,
        probabilities, table.width, NULL_PROBABILITY, tension, counts,
    )  # fmt: skip
    return counts, sums


def test_expected_counts_and_likelihood_equal_enumeration(problem):
    _, table, _, translation, source, target = problem
    counts, (likelihood, links, near) = run_expectation(problem)
    expected, by_pair, expected_links, expected_near = 0.0, {}, 0.0, 0.0
    for words, english in PAIRS:
        scored = list(enumerate_alignments(words, english, translation))
        evidence = sum(probability for _, probability in scored)
        expected += np.log(evidence)
        for alignment, probability in scored:
            for i, j in enumerate(alignment):
                pair = (["<null>", *words][j], english[i])
                by_pair[pair] = by_pair.get(pair, 0.0) + probability / evidence
                if j:
                    expected_links += probability / evidence
                    h = -abs((i + 1) / len(english) - j / len(words))
                    expected_near += probability / evidence * h
    assert likelihood == pytest.approx(expected, abs=1e-10)
    assert links == pytest.approx(expected_links, abs=1e-10)
    assert near == pytest.approx(expected_near, abs=1e-10)
    for (word, other), value in by_pair.items():
        number = NULL if word == "<null>" else source.numbers[word]
        slot = find(table.keys, number * table.width + target.numbers[other])
        assert counts[slot] == pytest.approx(value, abs=1e-10)


def test_best_links_are_the_most_probable_alignment(problem):
    aligner = train_aligner(PAIRS, AlignerSettings(passes=2, null=NULL_PROBABILITY))
    translation = {}
    for words, english in PAIRS:
        for word, other in product(["<null>", *words], english):
            number = NULL if word == "<null>" else aligner.source.numbers[word]
            key = number * aligner.table.width + aligner.target.numbers[other]
            translation[word, other] = aligner.probabilities[find(aligner.table.keys, key)]
    for pair, links in zip(PAIRS, aligner.align(PAIRS), strict=True):
        words, english = pair

        def joint(alignment, words=words, english=english):
            value = 1.0
            for i, j in enumerate(alignment):
                weight = prior(j, i + 1, len(words), len(english), aligner.tension)
                value *= weight * translation[["<null>", *words][j], english[i]]
            return value

        best = max(product(range(len(words) + 1), repeat=len(english)), key=joint)
        assert links == {(j - 1, i) for i, j in enumerate(best) if j}


def test_likelihood_never_falls_without_a_prior():
    seen = []
    settings = AlignerSettings(passes=8, concentration=0.0)
    train_aligner(PAIRS, settings, lambda _, likelihood: seen.append(likelihood))
    assert all(later >= earlier - 1e-12 for earlier, later in pairwise(seen))
    assert seen[-1] > seen[0] + 0.1


def test_tension_maximises_the_expected_likelihood(problem):
    corpus = problem[0]
    _, (_, links, near) = run_expectation(problem)
    sizes = sentence_sizes(corpus)

    def expected_likelihood(tension):
        share = links / sum(m * count for m, _, count in sizes)
        total = tension * near
        for m, n, count in sizes:
            for i in range(1, m + 1):
                weights = [np.exp(tension * closeness(i, m, j, n)) for j in range(1, n + 1)]
                total -= share * count * np.log(sum(weights))
        return total

    best = best_tension(sizes, links, near, 4.0)
    grid = np.linspace(0.1, 14.0, 2781)
    by_grid = grid[np.argmax([expected_likelihood(t) for t in grid])]
    assert best == pytest.approx(by_grid, abs=0.006)


def test_digamma_equals_scipy():
    special = pytest.importorskip("scipy.special")
    for x in [1e-3, 0.01, 0.5, 1.0, 2.7, 5.99, 6.0, 40.0, 1e5]:
        assert _digamma(x) == pytest.approx(special.digamma(x), rel=1e-9, abs=1e-9)


def shifted_corpus(sentences, seed):
    """Each source word has one translation; every third sentence ends with its words swapped."""
    generator = np.random.default_rng(seed)
    pairs, gold = [], []
    for number in range(sentences):
        words = generator.permutation(30)[: generator.integers(3, 9)]
        order = list(range(len(words)))
        if number % 3 == 0:
            order[-2:] = reversed(order[-2:])
        pairs.append(([f"s{w}" for w in words], [f"t{words[j]}" for j in order]))
        gold.append(frozenset((j, i) for i, j in enumerate(order)))
    return pairs, gold


def test_known_alignments_are_recovered_also_on_new_text():
    pairs, _ = shifted_corpus(400, seed=1)
    new, gold = shifted_corpus(50, seed=2)
    aligner = train_two_way(pairs)
    assert aligner.align(new) == gold
    assert aligner.forward.translation_probability("s3", "t3") > 0.9
    assert aligner.forward.translation_probability("s3", "nowhere") == 0.0


def test_unknown_words_align_by_position():
    pairs, _ = shifted_corpus(200, seed=1)
    (links,) = train_aligner(pairs).align([(["s1", "new", "s2"], ["t1", "other", "t2"])])
    assert {(0, 0), (2, 2)} <= links


def test_training_is_deterministic():
    pairs, _ = shifted_corpus(50, seed=3)
    first, second = train_aligner(pairs), train_aligner(pairs)
    assert first.tension == second.tension
    assert np.array_equal(first.probabilities, second.probabilities)


@pytest.mark.parametrize("pairs", [[], [(["a"], [])], [([], ["a"])]])
def test_empty_input_is_refused(pairs):
    with pytest.raises(DataError, match=r"pair|empty"):
        train_aligner(pairs)


@pytest.mark.parametrize("settings", [{"passes": 0}, {"null": 0.0}, {"concentration": -1.0}])
def test_meaningless_settings_are_refused(settings):
    with pytest.raises(ValueError, match="expected passes"):
        AlignerSettings(**settings)
