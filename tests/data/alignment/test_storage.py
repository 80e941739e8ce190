"""Links on disk, and alignment of many pairs in pieces."""

import pytest

from repro.data.alignment.links import StoredLinks, write_links
from repro.data.alignment.model import number_words, train_two_way

PAIRS = [(["das", "haus"], ["the", "house"]), (["ein", "haus"], ["a", "house"])] * 4


def test_links_come_back(tmp_path):
    links = [frozenset({(0, 1), (2, 0), (0, 0)}), frozenset(), frozenset({(7, 3)})]
    write_links(tmp_path / "links.arrow", iter(links))
    stored = StoredLinks(tmp_path / "links.arrow")
    assert list(stored) == links
    assert stored[2] == links[2]
    assert len(stored) == 3
    with pytest.raises(IndexError, match="pair 3 of 3"):
        stored[3]


def test_pairs_are_read_once_and_not_kept():
    read = []

    def stream():
        for pair in PAIRS:
            read.append(pair)
            yield pair

    aligner = train_two_way(stream())
    assert len(read) == len(PAIRS)
    assert [*aligner.align(PAIRS)] == [*train_two_way(PAIRS).align(PAIRS)]


def test_pieces_give_the_same_links(monkeypatch):
    aligner = train_two_way(PAIRS)
    whole = [*aligner.align(PAIRS)]
    monkeypatch.setattr("repro.data.alignment.model._PIECE", 3)
    assert [*aligner.align(iter(PAIRS))] == whole


def test_words_take_four_bytes():
    corpus, source, _ = number_words(PAIRS)
    assert corpus.source.itemsize == corpus.target.itemsize == 4
    assert corpus.source.tolist()[:4] == [source[word] for word in ("das", "haus", "ein", "haus")]
    assert corpus.turned().source.tolist() == corpus.target.tolist()
