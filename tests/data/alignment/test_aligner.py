"""The aligner against enumeration of every alignment of tiny corpora."""

from itertools import pairwise, product

import numpy as np
import pytest
from scipy.special import digamma

from repro.data.alignment.expectation import (
    NULL,
    NULL_PROBABILITY,
    LinkModel,
    _digamma,
    collect_pairs,
    expected_counts,
    fast_align_tension,
    find,
    normalize,
)
from repro.data.alignment.model import number_words, train_two_way
from repro.errors import DataError

PAIRS = [
    (["das", "haus"], ["the", "house"]),
    (["das", "buch"], ["the", "book", "here"]),
    (["ein", "buch", "da"], ["a", "book"]),
    (["ein", "haus"], ["house"]),
]
TENSION = 2.5


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
    corpus, source, target = number_words(PAIRS)
    table = collect_pairs(corpus, len(target))
    generator = np.random.default_rng(5)
    probabilities = generator.uniform(0.05, 1.0, len(table.keys))
    names = {number: word for word, number in source.items()} | {NULL: "<null>"}
    english = {number: word for word, number in target.items()}
    translation = {
        (names[key // table.width], english[key % table.width]): probabilities[slot]
        for slot, key in enumerate(table.keys)
        if key >= 0
    }
    return corpus, table, probabilities, translation, source, target


def test_expected_counts_and_likelihood_equal_enumeration(problem):
    corpus, table, probabilities, translation, source, target = problem
    counts = np.zeros(len(table.keys))
    likelihood, near = expected_counts(corpus, LinkModel(table, probabilities, TENSION), counts)
    expected, by_pair, expected_near = 0.0, {}, 0.0
    for words, english in PAIRS:
        scored = list(enumerate_alignments(words, english, translation))
        evidence = sum(probability for _, probability in scored)
        expected += np.log(evidence)
        for alignment, probability in scored:
            for i, j in enumerate(alignment):
                pair = (["<null>", *words][j], english[i])
                by_pair[pair] = by_pair.get(pair, 0.0) + probability / evidence
                if j:
                    h = -abs(i / len(english) - j / len(words))
                    expected_near += probability / evidence * h
    assert likelihood == pytest.approx(expected, abs=1e-10)
    assert near == pytest.approx(expected_near, abs=1e-10)
    for (word, other), value in by_pair.items():
        number = NULL if word == "<null>" else source[word]
        slot = find(table.keys, number * table.width + target[other])
        assert counts[slot] == pytest.approx(value, abs=1e-10)


def test_best_links_are_the_most_probable_alignment(problem):
    aligner = train_two_way(PAIRS, passes=2)
    forward, translation = aligner.forward, {}
    (keys, width), probabilities = forward.table, forward.probabilities
    for words, english in PAIRS:
        for word, other in product(["<null>", *words], english):
            number = NULL if word == "<null>" else aligner.source[word]
            slot = find(keys, number * width + aligner.target[other])
            translation[word, other] = probabilities[slot]
    for pair, links in zip(PAIRS, aligner.align(PAIRS, symmetric=False), strict=True):
        words, english = pair

        def joint(alignment, words=words, english=english):
            value = 1.0
            for i, j in enumerate(alignment):
                weight = prior(j, i + 1, len(words), len(english), forward.tension)
                value *= weight * translation[["<null>", *words][j], english[i]]
            return value

        best = max(product(range(len(words) + 1), repeat=len(english)), key=joint)
        assert links == {(j - 1, i) for i, j in enumerate(best) if j}


def test_likelihood_never_falls_without_a_prior_at_one_tension():
    corpus, source, target = number_words(PAIRS)
    table, seen = collect_pairs(corpus, len(target)), []
    probabilities = np.full(len(table.keys), 1.0 / len(target))
    for _ in range(8):
        counts = np.zeros(len(table.keys))
        model = LinkModel(table, probabilities, TENSION)
        likelihood, _ = expected_counts(corpus, model, counts)
        normalize(table, counts, len(source), 0.0, probabilities)
        seen.append(likelihood / len(corpus.target))
    assert all(later >= earlier - 1e-12 for earlier, later in pairwise(seen))
    assert seen[-1] > seen[0] + 0.1


def normalizer_with_exchanged_lengths(i, m, n, tension):
    """Sum over m positions, or over all of them where the diagonal point i m / n lies above m."""
    last = m if int(i * m / n) <= m else 2_000
    return sum(np.exp(-tension * abs(i / n - k / m)) for k in range(1, last + 1))


@pytest.mark.parametrize("share", [0.05, 0.1, 0.2])
def test_eight_steps_of_fast_align(share):
    sizes = np.array([[3, 5, 2], [5, 3, 1], [4, 4, 3], [7, 2, 1], [1, 1, 1]])
    words = sum(m * count for m, _, count in sizes)
    tension, seen = 4.0, []
    for _ in range(8):
        expected = 0.0
        for m, n, count in sizes:
            for i in range(1, m + 1):
                h = [-abs(i / m - j / n) for j in range(1, n + 1)]
                total = sum(value * np.exp(tension * value) for value in h)
                expected += count * total / normalizer_with_exchanged_lengths(i, m, n, tension)
        tension = min(max(tension + 20 * (-share - expected / words), 0.1), 14)
        seen.append(tension)
    assert fast_align_tension(sizes, -share * words, 4.0) == pytest.approx(tension, rel=1e-9)
    assert any(0.1 < value < 14 for value in seen)


# Tensions and links that fast_align -d -o -v printed for this corpus, links of new pairs by its
# option -f, and symmetric links by atools -c grow-diag-final-and.
CORPUS = """\
das kleine haus ist alt ||| the small house is old
das haus ist sehr klein ||| the house is very small
ein altes buch liegt auf dem tisch ||| an old book is on the table
das buch ist neu ||| the book is new
auf dem alten tisch liegt heute ein kleines buch ||| today a small book lies on the old table
ich lese gern ein buch ||| i like to read a book
heute lese ich nicht ||| i do not read today
gestern habe ich im haus ein buch gelesen ||| i read a book in the house yesterday
nein ||| no , i do not"""
NEW = """\
heute liegt das alte buch im haus ||| the old book is in the house today
ich lese das kleine buch nicht ||| i do not read the small book"""
TENSIONS = [1.36048, 0.849875, 0.68461]
PRINTED = {
    "forward": """\
0-0 1-1 2-2 3-3 4-4
0-0 1-1 2-2 3-3 4-4
1-0 1-1 2-2 3-3 4-4 5-5 6-6
0-0 1-1 2-2 3-3
0-0 6-1 2-2 8-3 4-4 0-5 7-7 3-8
0-0 1-1 2-2 0-3 3-4 4-5
0-0 1-1 1-2 2-3 3-4
0-0 1-1 5-2 6-3 4-4 4-6 7-7
0-0 0-1 0-2 0-3 0-4
2-0 1-1 4-2 1-3 3-4 2-5 6-6 6-7
0-0 1-1 1-2 0-3 2-4 3-5 4-6""",
    "grow-diag-final-and": """\
0-0 1-1 2-2 3-3 4-4
0-0 1-1 2-2 3-3 4-4
0-0 1-1 2-2 3-3 4-4 5-5 6-6
0-0 1-1 2-2 3-3
0-0 1-1 2-2 3-3 4-4 5-5 6-6 7-7 8-8
0-0 1-1 2-2 3-4 4-5
0-0 1-1 1-2 2-3 3-4
0-0 1-1 2-1 3-3 4-4 4-6 5-5 7-7
0-0 0-1 0-2 0-3 0-4
0-0 1-1 2-0 2-5 3-4 4-2 6-6 6-7
0-0 0-3 1-1 1-2 2-4 3-5 4-6 5-6""",
}


def read_text(text):
    lines = (line.split(" ||| ") for line in text.splitlines())
    return [(source.split(), target.split()) for source, target in lines]


def test_tensions_are_those_of_fast_align():
    for passes, tension in enumerate(TENSIONS, start=2):
        aligner = train_two_way(read_text(CORPUS), passes)
        assert aligner.forward.tension == pytest.approx(tension, rel=5e-6)
        assert aligner.reverse.tension == 14.0


@pytest.mark.parametrize("symmetry", PRINTED)
def test_links_are_those_of_fast_align(symmetry):
    aligner = train_two_way(read_text(CORPUS))
    symmetric = symmetry != "forward"
    found = [*aligner.align(read_text(CORPUS), symmetric)]
    found += aligner.pruned().align(read_text(NEW), symmetric)
    for links, line in zip(found, PRINTED[symmetry].splitlines(), strict=True):
        assert links == {tuple(map(int, link.split("-"))) for link in line.split()}


def test_digamma_equals_scipy():
    for x in [1e-3, 0.01, 0.5, 1.0, 2.7, 5.99, 6.0, 40.0, 1e5]:
        assert _digamma(x) == pytest.approx(digamma(x), rel=1e-9, abs=1e-9)


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
    assert [*aligner.align(new)] == gold


def test_unknown_words_align_by_position():
    pairs, _ = shifted_corpus(200, seed=1)
    new = [(["s1", "new", "s2"], ["t1", "other", "t2"])]
    (links,) = train_two_way(pairs).align(new, symmetric=False)
    assert {(0, 0), (2, 2)} <= links


def test_training_is_deterministic():
    pairs, _ = shifted_corpus(50, seed=3)
    first, second = train_two_way(pairs).forward, train_two_way(pairs).forward
    assert first.tension == second.tension
    assert np.array_equal(first.probabilities, second.probabilities)


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([], "no sentence pair"),
        ([*PAIRS, (["a"], [])], "pair 5: the target sentence is empty"),
        ([([], ["a"])], "pair 1: the source sentence is empty"),
    ],
)
def test_empty_input_is_refused(pairs, message):
    with pytest.raises(DataError, match=message):
        train_two_way(pairs)
