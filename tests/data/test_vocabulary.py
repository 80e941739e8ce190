import pytest
from hypothesis import given
from hypothesis import strategies as st

from repro.data.vocabulary import SPECIALS, Vocabulary

words = st.lists(st.text(min_size=1, max_size=3), max_size=8)


def test_ids_of_specials_are_fixed():
    vocabulary = Vocabulary.build([])
    assert vocabulary.tokens == ["<pad>", "<unk>", "<s>", "</s>"]
    assert (Vocabulary.PAD, Vocabulary.UNK, Vocabulary.BOS, Vocabulary.EOS) == (0, 1, 2, 3)


def test_order_is_count_then_token():
    vocabulary = Vocabulary.build(["bca", "cb", "c"])
    assert vocabulary.tokens[4:] == ["c", "b", "a"]
    assert Vocabulary.build(["ba", "ab"]).tokens[4:] == ["a", "b"]


@given(st.lists(words, max_size=6))
def test_build_ignores_the_order_of_sequences(sequences):
    assert Vocabulary.build(sequences).tokens == Vocabulary.build(sequences[::-1]).tokens


def test_min_count_sends_rare_symbols_to_unknown():
    vocabulary = Vocabulary.build(["aab"], min_count=2)
    assert "b" not in vocabulary
    assert vocabulary.encode("ab") == [4, Vocabulary.UNK]


@given(words.filter(lambda tokens: not set(tokens) & set(SPECIALS)))
def test_decode_inverts_encode(tokens):
    vocabulary = Vocabulary.build([tokens])
    assert vocabulary.decode(vocabulary.encode(tokens)) == tokens


def test_decode_stops_at_end_and_drops_padding_and_begin():
    vocabulary = Vocabulary.build(["ab"])
    assert vocabulary.decode([2, 4, 0, 1, 5, 3, 4]) == ["a", "<unk>", "b"]


def test_words_that_look_special_are_unknown():
    vocabulary = Vocabulary.build([["a", *SPECIALS]])
    assert len(vocabulary) == 5
    assert vocabulary.encode([*SPECIALS, "a"]) == [Vocabulary.UNK] * len(SPECIALS) + [4]


@pytest.mark.parametrize(
    ("tokens", "message"),
    [(["a", "b"], "begins with"), ([*SPECIALS, "x", "x"], r"more often: \['x'\]")],
)
def test_what_is_no_vocabulary_is_refused(tokens, message):
    with pytest.raises(ValueError, match=message):
        Vocabulary(tokens)
