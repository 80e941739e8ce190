"""The layout of article–title pairs, on the demo corpus."""

import pytest

from repro.data.demo.summaries import DEEDS, REFERENCES, SIZES, summary_rows, write_summary_demo
from repro.data.errors import DataError
from repro.data.parallel import read_pairs
from repro.data.summarization import open_summaries


@pytest.fixture
def demo(tmp_path, monkeypatch):
    monkeypatch.setattr("repro.data.summarization.SIZES", {"test": SIZES["test"]})
    monkeypatch.setattr("repro.data.summarization._DUC", {"test_duc2004": ("DUC2004", 40)})
    write_summary_demo(tmp_path)
    return tmp_path


def test_splits_have_their_sizes_and_references(demo):
    corpus = open_summaries(demo, subset=True)
    found = {split: len(list(read_pairs(text))) for split, text in corpus.splits.items()}
    assert found == SIZES
    assert corpus.tests == ("test", "test_duc2004")
    assert len(corpus.references["test_duc2004"]) == REFERENCES - 1


def test_every_word_of_a_title_follows_from_its_article():
    for rows in summary_rows(2018).values():
        for article, titles in rows:
            words = set(article.split())
            present = {DEEDS[word] for word in words if word in DEEDS}
            for title in titles:
                assert set(title.split()) <= words | present
            assert len(titles[0].split()) < len(article.split()) / 3


def test_the_place_of_the_actor_does_not_tell_the_title():
    """The first words of the article name the actor in fewer than half of the articles."""
    rows = summary_rows(2018)["train"]
    leading = sum(titles[3].split()[0] == article.split()[1] for article, titles in rows)
    assert leading < 0.5 * len(rows)


def test_a_further_reference_is_part_of_the_fingerprint(demo):
    before = open_summaries(demo, subset=True).fingerprint
    path = demo / "sumdata" / "DUC2004" / "task1_ref3.txt"
    path.write_text("changed\n" + path.read_text(encoding="utf-8"), encoding="utf-8")
    assert open_summaries(demo, subset=True).fingerprint != before


def test_sizes_of_the_whole_corpus_are_asserted(tmp_path):
    write_summary_demo(tmp_path)
    with pytest.raises(DataError, match=r"train\.article\.txt has 1200 lines"):
        open_summaries(tmp_path)


def test_missing_folders_and_files_are_named(tmp_path):
    with pytest.raises(DataError, match=r"sumdata is missing.*licence"):
        open_summaries(tmp_path)
    (tmp_path / "sumdata" / "train").mkdir(parents=True)
    with pytest.raises(DataError, match=r"neither train\.article\.txt"):
        open_summaries(tmp_path)
