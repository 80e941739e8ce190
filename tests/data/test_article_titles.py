"""The layout of article–title pairs, on the demo corpus."""

from dataclasses import replace

import pytest

from repro.config.schema.text_pairs import EncodingSettings, TextSettings
from repro.data import summarization
from repro.data.demo.summaries import DEEDS, REFERENCES, SIZES, summary_rows, write_summary_demo
from repro.data.parallel import read_pairs
from repro.data.preparation import prepare
from repro.data.summarization import open_summaries
from repro.data.vocabulary import Vocabulary
from repro.errors import DataError


@pytest.fixture
def demo(tmp_path, monkeypatch):
    gigaword, duc = summarization.GIGAWORD, summarization.DUC[1]
    small = replace(duc, sizes={"test_duc2004": SIZES["test_duc2004"]})
    monkeypatch.setattr(summarization, "GIGAWORD", replace(gigaword, sizes={"test": SIZES["test"]}))
    monkeypatch.setattr(summarization, "DUC", (small,))
    write_summary_demo(tmp_path)
    return tmp_path


def test_splits_have_their_sizes_and_references(demo):
    corpus = open_summaries(demo, check_sizes=False)
    found = {split: len(list(read_pairs(text))) for split, text in corpus.splits.items()}
    assert found == SIZES
    assert corpus.tests == ("test", "test_duc2004")
    assert len(corpus.references["test_duc2004"]) == REFERENCES - 1


def test_every_word_of_a_title_follows_from_its_article():
    for rows in summary_rows(2018).values():
        for article, *titles in rows:
            words = set(article.split())
            present = {DEEDS[word] for word in words if word in DEEDS}
            for title in titles:
                assert set(title.split()) <= words | present | {"in", "on", ",", "blaming"}
            assert len(titles[0].split()) < 2 / 3 * len(article.split())


def test_the_place_of_the_actor_does_not_tell_the_title():
    """The first words of the article name the actor in fewer than half of the articles."""
    rows = summary_rows(2018)["train"]
    leading = sum(titles[3].split()[0] == article.split()[1] for article, *titles in rows)
    assert leading < 0.5 * len(rows)


def test_the_order_of_two_deeds_does_not_tell_the_title():
    """Many articles have another clause with a deed, before or behind that of the title."""
    rows = summary_rows(2018)["train"]
    places = []
    for article, *titles in rows:
        deeds = [DEEDS[word] for word in article.split() if word in DEEDS]
        if len(deeds) == 2:
            places.append(titles[3].split()[3] == deeds[1])
    assert len(places) > 0.3 * len(rows)
    assert 0.4 * len(places) < sum(places) < 0.6 * len(places)


def test_titles_differ_in_length_and_some_are_longer_than_the_cut():
    lengths = [len(titles[0].encode()) for _, *titles in summary_rows(2018)["test"]]
    assert sum(length > 75 for length in lengths) > 0.1 * len(lengths)
    assert sum(length < 40 for length in lengths) > 0.3 * len(lengths)


def test_a_further_reference_is_part_of_the_fingerprint(demo):
    before = open_summaries(demo, check_sizes=False).fingerprint
    path = demo / "sumdata" / "DUC2004" / "task1_ref3.txt"
    path.write_text("changed " + path.read_text(encoding="utf-8"), encoding="utf-8")
    assert open_summaries(demo, check_sizes=False).fingerprint != before


def test_sizes_of_the_whole_corpus_are_asserted(tmp_path):
    write_summary_demo(tmp_path)
    with pytest.raises(DataError, match=r"train\.article\.txt has 800 lines.*check_size=false"):
        open_summaries(tmp_path)
    # data.check_size=false would not help here: the test set is always whole.
    with pytest.raises(DataError, match=r"Giga/input\.txt has \d+ lines, the corpus has 1951$"):
        open_summaries(tmp_path, check_sizes=False)


def test_missing_folders_and_files_are_named(tmp_path):
    with pytest.raises(DataError, match=r"sumdata is missing.*licence"):
        open_summaries(tmp_path)
    (tmp_path / "sumdata" / "train").mkdir(parents=True)
    with pytest.raises(DataError, match=r"neither train\.article\.txt.*sent-summary"):
        open_summaries(tmp_path)


def test_a_duc_folder_that_lacks_files_tells_how_to_obtain_them(demo):
    (demo / "sumdata" / "DUC2004" / "task1_ref2.txt").unlink()
    with pytest.raises(DataError, match=r"DUC2004 has no task1_ref2\.txt; .*duc\.nist\.gov"):
        open_summaries(demo, check_sizes=False)
    (demo / "sumdata" / "Giga" / "input.txt").unlink()
    with pytest.raises(DataError, match=r"Giga has no input\.txt; .*sent-summary"):
        open_summaries(demo, check_sizes=False)


def test_both_spellings_of_unknown_words_become_one(demo, tmp_path):
    folder = demo / "sumdata"
    for path, word in (
        (folder / "train/train.article.txt", "<unk>"),
        (folder / "Giga/input.txt", "UNK"),
    ):
        lines = path.read_text(encoding="utf-8").splitlines()
        path.write_text("\n".join([f"{word} {lines[0]}", *lines[1:]]) + "\n", encoding="utf-8")
    corpus = open_summaries(demo, check_sizes=False)
    text, encoding = TextSettings(lowercase=True), EncodingSettings()
    prepared = prepare(corpus, text, encoding, tmp_path / "cache")
    for split in ("train", "test"):
        assert next(read_pairs(prepared.texts[split]))[0].startswith("<unk> ")
        assert prepared.splits[split][0].source[0] == Vocabulary.UNK
    assert "unk" not in prepared.source
    other = prepare(replace(corpus, unknown=()), text, encoding, tmp_path / "cache")
    assert prepared.name != other.name
