import pytest

from repro.data.pair import Pair
from repro.data.sentence_search import find_pairs, preference, sentence_key
from repro.data.vocabulary import SPECIALS, Vocabulary


@pytest.mark.parametrize(
    "text",
    ["It &apos;s Moore ’s law !", "it's Moore's LAW", "It ' s moores law .", " itsmooreslaw\u00a0"],
)
def test_a_key_does_not_depend_on_case_tokens_and_marks(text: str) -> None:
    assert sentence_key(text) == "itsmooreslaw"


def test_the_first_preferred_name_wins() -> None:
    assert preference(["b.", "c"], ["a", "B", "c"]) == 1
    assert preference([], ["a"]) == preference(["b"], ["a"]) == 1
    assert preference(["a"], []) == 0


def test_pairs_are_found_by_either_side_in_subwords() -> None:
    source = Vocabulary([*SPECIALS, "Bau@@", "m", "des", "Lebens", ".", "<SINK>"])
    target = Vocabulary([*SPECIALS, "tree", "of", "life"])

    def pair(ours: str, theirs: str) -> Pair:
        return Pair(source.encode(ours.split()), target.encode(theirs.split()))

    pairs = [
        pair("Bau@@ m", "tree of life of"),
        pair("Bau@@ m des Lebens . <SINK>", "life"),
        pair("Bau@@ m des Lebens .", "tree of life"),
        pair("Bau@@ m des Hauses", "house"),
    ]
    wanted = ["Baum des Lebens", "Tree of life.", "baum des", "house", "..."]
    found = find_pairs(pairs, source, target, wanted, ["<SINK>"])
    assert found == {"Baum des Lebens": 1, "Tree of life.": 2}
    assert "Baum des Lebens" in find_pairs(pairs, source, target, wanted[:1])
