"""The demo translation corpus says in the target what the source says, once each."""

from collections import Counter
from itertools import groupby, pairwise

import pytest

from repro.data.demo.translation import (
    AND,
    EMPHASIS,
    LONGEST_LIST,
    OBJECT_MARK,
    SIZES,
    grammar,
    translation_rows,
)


@pytest.fixture(scope="module")
def rules():
    return grammar(2018, 7)


@pytest.fixture(scope="module")
def splits():
    return translation_rows(2018)


def expected_words(source, rules):
    """Bag of target words, by looking every source word up; an independent reading."""
    names = ("THING", "BEING", "ADJECTIVE", "PLAIN", "PARTICLE", "ADVERB", "COMPOUND")
    known = {word: target.split() for name in names for word, target in rules[name]}
    known |= {AND[0]: [AND[1]], EMPHASIS[0]: [EMPHASIS[1]], OBJECT_MARK: []}
    bag, noun = Counter(), None
    for word in source.split():
        for kind in ("THING", "BEING"):
            if word in dict(rules[kind]):
                noun = kind
        ambiguous = dict(rules[f"OF_{noun}"]) if noun else {}
        bag.update([ambiguous[word]] if word in ambiguous else known[word])
    return bag


def test_every_word_is_translated_as_often_as_it_is_said(splits, rules):
    for rows in splits.values():
        for source, target in rows:
            assert Counter(target.split()) == expected_words(source, rules)


def test_splits_have_their_sizes_and_share_no_source(splits):
    assert {name: len(rows) for name, rows in splits.items()} == SIZES
    sources = [source for rows in splits.values() for source, _ in rows]
    assert len(set(sources)) == len(sources)


def test_what_is_hard_occurs_often(splits, rules):
    rows = splits["train"]
    words = {*dict(rules["COMPOUND"])}
    compounds = sum(bool(words & set(source.split())) for source, _ in rows)
    lists = sum(AND[0] in source.split() for source, _ in rows)
    again = sum(longest_run(source) > 1 for source, _ in rows)
    twice = sum(f"{EMPHASIS[0]} {EMPHASIS[0]}" in source for source, _ in rows)
    particles = {*dict(rules["PARTICLE"])}
    apart = sum(bool(particles & set(source.split())) for source, _ in rows)
    assert min(compounds, lists, again, twice, apart) > 0.2 * len(rows)


def nominals(source):
    """The words before and after the object mark, the verb and the adverb among them."""
    words = source.split()
    mark = words.index(OBJECT_MARK)
    return words[:mark], words[mark + 1 :]


def longest_run(source):
    """Length of the longest run of items that name one thing."""
    return max(
        len(list(run))
        for words in nominals(source)
        for _, run in groupby(
            one for one, following in pairwise([*words, AND[0]]) if following == AND[0]
        )
    )


def test_only_lists_of_other_splits_are_longer_than_those_of_training(splits):
    for name, rows in splits.items():
        items = [1 + words.count(AND[0]) for source, _ in rows for words in nominals(source)]
        assert max(items) == LONGEST_LIST[name]
    assert LONGEST_LIST["train"] < LONGEST_LIST["val"] == LONGEST_LIST["test"]


def test_every_compound_is_seen_often_in_training(splits, rules):
    """A word of validation or test data only would be unknown to every model."""
    seen = Counter(word for source, _ in splits["train"] for word in source.split())
    for name in ("val", "test"):
        assert all(seen[word] >= 5 for source, _ in splits[name] for word in source.split())


def test_verbs_move_to_the_end_and_their_particles_stand_after_them(splits, rules):
    verbs = {target for _, target in rules["PLAIN"]}
    particles = dict(target.split() for _, target in rules["PARTICLE"])
    for source, target in splits["test"]:
        words, mark = target.split(), source.split().index(OBJECT_MARK)
        assert 0 < mark < len(source.split()) - 1
        if words[-1] in verbs:
            continue
        assert particles[words[-2]] == words[-1]


def test_no_word_but_one_has_two_meanings(rules):
    names = ("THING", "BEING", "ADJECTIVE", "PLAIN", "PARTICLE", "ADVERB", "COMPOUND", "OF_THING")
    sources = [source for name in names for source, _ in rules[name]]
    assert len(set(sources)) == len(sources)
    assert rules["OF_THING"][0][0] == rules["OF_BEING"][0][0]
    assert rules["OF_THING"] != rules["OF_BEING"]
