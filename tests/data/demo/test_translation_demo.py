"""The demo translation corpus says in the target what the source says, once each."""

from collections import Counter
from itertools import groupby, pairwise

import pytest

from repro.data.demo.translation import (
    AND,
    EMPHASIS,
    GENITIVE,
    LINKING_VOWEL,
    LONGEST_LIST,
    OBJECT_MARK,
    SIZES,
    SOURCE,
    TARGET,
    build_lexicon,
    translation_rows,
    write_translation_demo,
)


@pytest.fixture(scope="module")
def lexicon():
    return build_lexicon(2018)


@pytest.fixture(scope="module")
def splits():
    return translation_rows(2018)


def expected_words(source, lexicon):
    """Bag of target words, by looking every source word up; an independent reading."""
    nouns, order = dict(lexicon.nouns), [noun for noun, _ in lexicon.nouns]
    simple = {**dict(lexicon.adjectives), **dict(lexicon.verbs), **dict(lexicon.adverbs)}
    simple |= {AND[0]: AND[1], EMPHASIS[0]: EMPHASIS[1], **nouns}
    particles = {verb: (target, particle) for verb, target, particle in lexicon.particle_verbs}
    bag, noun = Counter(), None
    for word in source.split():
        if word in nouns:
            noun = word
        if word in simple:
            bag[simple[word]] += 1
        elif word in particles:
            bag.update(particles[word])
        elif word == lexicon.ambiguous[0]:
            bag[lexicon.ambiguous[1 if order.index(noun) < len(order) // 2 else 2]] += 1
        elif word != OBJECT_MARK:
            first, second = split_compound(word, nouns)
            bag.update([nouns[first], nouns[second], GENITIVE])
    return bag


def split_compound(word, nouns):
    (parts,) = {
        (first, word[len(first) + 1 :])
        for first in nouns
        if word.startswith(first + LINKING_VOWEL) and word[len(first) + 1 :] in nouns
    }
    return parts


def test_every_word_is_translated_as_often_as_it_is_said(splits, lexicon):
    for rows in splits.values():
        for source, target in rows:
            assert Counter(target.split()) == expected_words(source, lexicon)


def test_splits_have_their_sizes_and_share_no_source(splits):
    assert {name: len(rows) for name, rows in splits.items()} == SIZES
    sources = [source for rows in splits.values() for source, _ in rows]
    assert len(set(sources)) == len(sources)


def test_what_is_hard_occurs_often(splits, lexicon):
    rows = splits["train"]
    words = {first[0] + LINKING_VOWEL + second[0] for first, second in lexicon.compounds}
    compounds = sum(bool(words & set(source.split())) for source, _ in rows)
    lists = sum(AND[0] in source.split() for source, _ in rows)
    again = sum(longest_run(source) > 1 for source, _ in rows)
    twice = sum(f"{EMPHASIS[0]} {EMPHASIS[0]}" in source for source, _ in rows)
    particles = {verb for verb, _, _ in lexicon.particle_verbs}
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


def test_every_compound_is_seen_often_in_training(splits, lexicon):
    """A word of validation or test data only would be unknown to every model."""
    seen = Counter(word for source, _ in splits["train"] for word in source.split())
    for name in ("val", "test"):
        assert all(seen[word] >= 5 for source, _ in splits[name] for word in source.split())


def test_verbs_move_to_the_end_and_their_particles_stand_after_them(splits, lexicon):
    verbs = {target for _, target in lexicon.verbs}
    particles = {target: particle for _, target, particle in lexicon.particle_verbs}
    for source, target in splits["test"]:
        words, mark = target.split(), source.split().index(OBJECT_MARK)
        assert 0 < mark < len(source.split()) - 1
        if words[-1] in verbs:
            continue
        assert particles[words[-2]] == words[-1]


def test_lexicon_gives_no_word_two_meanings_but_one(lexicon):
    sources = [
        *(word for word, _ in lexicon.nouns),
        *(word for word, _ in lexicon.adjectives),
        *(word for word, _ in lexicon.verbs),
        *(word for word, *_ in lexicon.particle_verbs),
        *(word for word, _ in lexicon.adverbs),
        *(first[0] + LINKING_VOWEL + second[0] for first, second in lexicon.compounds),
        lexicon.ambiguous[0],
    ]
    assert len(set(sources)) == len(sources)


def test_same_seed_same_bytes_and_another_seed_another_corpus(tmp_path):
    write_translation_demo(tmp_path / "a", 1)
    write_translation_demo(tmp_path / "b", 1)
    write_translation_demo(tmp_path / "c", 2)
    for split in SIZES:
        for language in (SOURCE, TARGET):
            name = f"{split}.{language}"
            assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
            assert (tmp_path / "a" / name).read_bytes() != (tmp_path / "c" / name).read_bytes()
