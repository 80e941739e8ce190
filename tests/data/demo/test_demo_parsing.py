from collections import Counter
from pathlib import Path

import pytest

from repro.data.demo.parsing import HEAD_FINAL, demo_texts, write_demo_treebank
from repro.data.dependencies.conllu import Sentence, parse_conllu
from repro.errors import DataError


def read(treebank: str, seed: int = 2018) -> dict[str, list[Sentence]]:
    texts = demo_texts(treebank, seed)
    return {split: parse_conllu(text.encode(), Path(split)) for split, text in texts.items()}


@pytest.fixture(params=HEAD_FINAL, scope="module")
def treebank(request: pytest.FixtureRequest) -> dict[str, list[Sentence]]:
    return read(request.param)


def crossing(heads: list[int]) -> bool:
    arcs = [(min(pair), max(pair)) for pair in enumerate(heads, start=1)]
    return any(a < c < b < d for a, b in arcs for c, d in arcs)


def test_treebanks_of_two_names_differ(tmp_path):
    first, second = (demo_texts(name, 1) for name in HEAD_FINAL)
    assert first != second
    write_demo_treebank(tmp_path, "demo", "UD_Demo-Final", 1)
    written = tmp_path / "ud-treebanks-vdemo" / "UD_Demo-Final" / "demo_final-ud-dev.conllu"
    assert written.read_text() == second["dev"]
    with pytest.raises(DataError, match="UD_Demo-Initial, UD_Demo-Final"):
        write_demo_treebank(tmp_path, "demo", "UD_Demo")


def test_splits_share_no_sentence(treebank):
    texts = [" ".join(s.column("FORM")) for split in treebank.values() for s in split]
    assert len(texts) == len(set(texts)) == 460


def test_some_trees_are_not_projective(treebank):
    share = [crossing(sentence.heads) for sentence in treebank["train"]]
    assert 0.01 < sum(share) / len(share) < 0.2


def test_phrases_attach_to_nouns_and_verbs_by_their_adposition(treebank):
    counts: Counter[tuple[str, str]] = Counter()
    for sentence in treebank["train"]:
        relations, forms = sentence.column("DEPREL"), sentence.column("FORM")
        for place, (relation, head) in enumerate(zip(relations, sentence.heads, strict=True)):
            if relation == "case":
                counts[forms[place], relations[head - 1]] += 1
    adpositions = {form for form, _ in counts}
    mixed = [a for a in adpositions if min(counts[a, "nmod"], counts[a, "obl"]) > 3]
    shares = [counts[a, "nmod"] / (counts[a, "nmod"] + counts[a, "obl"]) for a in adpositions]
    assert mixed
    assert max(shares) - min(shares) > 0.4


def test_heads_stand_on_their_side(treebank):
    train = treebank["train"]
    sides = {
        head > place
        for sentence in train
        for place, (relation, head) in enumerate(
            zip(sentence.column("DEPREL"), sentence.heads, strict=True), start=1
        )
        if relation == "amod"
    }
    assert len(sides) == 1


def test_adjectives_agree_with_their_nouns(treebank):
    for sentence in treebank["train"]:
        forms, lemmas = sentence.column("FORM"), sentence.column("LEMMA")
        pairs = zip(sentence.column("DEPREL"), sentence.heads, strict=True)
        for place, (relation, head) in enumerate(pairs):
            if relation == "amod":
                ending = forms[place].removeprefix(lemmas[place])
                assert forms[head - 1].removeprefix(lemmas[head - 1]).removesuffix("m") == ending
