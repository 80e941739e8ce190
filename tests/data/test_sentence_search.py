import pytest

from repro.data.pair import Pair
from repro.data.sentence_search import find_pairs, preference, sentence_digest, sentence_key
from repro.data.vocabulary import SPECIALS, Vocabulary


@pytest.mark.parametrize(
    "text",
    ["It &apos;s Otto ’s law !", "it's Otto's LAW", "It ' s ottos law .", " itsottoslaw\u00a0"],
)
def test_a_key_does_not_depend_on_case_tokens_and_marks(text):
    assert sentence_key(text) == "itsottoslaw"


def test_the_first_preferred_name_wins():
    assert preference(["b.", "c"], ["a", "B", "c"]) == 1
    assert preference([], ["a"]) == preference(["b"], ["a"]) == 1
    assert preference(["a"], []) == 0


def test_pairs_are_found_by_either_side_in_subwords():
    source = Vocabulary([*SPECIALS, "Bau@@", "m", "im", "Garten", ".", "<SINK>"])
    target = Vocabulary([*SPECIALS, "tree", "in", "bloom"])

    def pair(ours: str, theirs: str) -> Pair:
        return Pair(source.encode(ours.split()), target.encode(theirs.split()))

    pairs = [
        pair("Bau@@ m", "tree in bloom in"),
        pair("Bau@@ m im Garten . <SINK>", "bloom"),
        pair("Bau@@ m im Garten .", "tree in bloom"),
        pair("Bau@@ m im Haus", "house"),
    ]
    wanted = ["Baum im Garten", "Tree in bloom.", "baum im", "house", "..."]
    found = find_pairs(pairs, source, target, wanted)
    assert found == {"Baum im Garten": 1, "Tree in bloom.": 2}
    digests = [sentence_digest(text) for text in wanted]
    by_digest = find_pairs(pairs, source, target, digests)
    assert by_digest == {digests[0]: 1, digests[1]: 2}


def test_a_digest_stands_for_its_sentence():
    digest = sentence_digest("It's Otto's law.")
    assert digest == sentence_digest("its OTTOS law") == sentence_digest(digest)
    assert preference(["It 's Otto ’s law"], ["a", digest]) == 1
    assert sentence_digest("a") != sentence_digest("b")
