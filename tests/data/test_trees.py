from pathlib import Path

import pytest

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
