from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repro.data.batching import collate_trees, word_batches
from repro.data.demo.parsing import demo_texts
from repro.data.dependencies.conllu import parse_conllu
from repro.data.dependencies.trees import Tree, TreeEncoder, normalize
from repro.data.vocabulary import Vocabulary

SENTENCES = parse_conllu(demo_texts("UD_Demo-Initial", 1)["dev"].encode(), Path("demo"))


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("Paris", "paris"), ("7", "NUM"), ("1,234.5", "NUM"), ("1990s", "NUM"), ("3rd", "NUM"),
        ("3.", "NUM"), ("NUM", "num"), (".", "."), ("F1", "f1"), ("", ""), ("\u0663", "\u0663"),
    ],
)  # fmt: skip
def test_forms_are_lower_case_and_numbers_one_word(form, expected):
    assert normalize(form) == expected


def test_frequencies_are_counts_of_normalized_words():
    encoder = TreeEncoder.build(SENTENCES, "UPOS")
    forms = [normalize(form) for s in SENTENCES for form in s.column("FORM")]
    for token, count in zip(encoder.words.tokens[4:], encoder.frequency[4:], strict=True):
        assert count == forms.count(token) > 0
    assert encoder.frequency[:4] == [0, 0, 0, 0]
    assert set(encoder.tags.tokens[4:]) == {tag for s in SENTENCES for tag in s.column("UPOS")}


def test_unseen_words_and_tags_are_unknown():
    encoder = TreeEncoder.build(SENTENCES[:1], "UPOS")
    strange = parse_conllu(b"1\tzzz\t_\tODD\t_\t_\t0\t_\t_\t_\n\n", Path("x"))[0]
    assert encoder.encode(strange) == Tree([Vocabulary.UNK], [Vocabulary.UNK], [0])


def test_the_root_comes_first_and_padding_last():
    batch = collate_trees([Tree([7, 8], [5, 6], [2, 0]), Tree([9], [5], [0])], [1, 0])
    assert batch.words.tolist() == [[Vocabulary.BOS, 9, 0], [Vocabulary.BOS, 7, 8]]
    assert batch.tags.tolist() == [[Vocabulary.BOS, 5, 0], [Vocabulary.BOS, 5, 6]]
    assert batch.heads.tolist() == [[-1, 0, -1], [-1, 2, 0]]
    assert (batch.lengths.tolist(), batch.indices.tolist()) == ([1, 2], [1, 0])
    assert batch.to("meta").host_lengths.tolist() == [1, 2]


@given(st.lists(st.integers(1, 30), min_size=1), st.integers(1, 60))
def test_evaluation_batches_hold_everything_once_and_keep_to_the_size(lengths, words):
    batches = word_batches(lengths, words)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[i] for i in batch) <= words
