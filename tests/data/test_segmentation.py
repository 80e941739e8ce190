"""Tokenization and byte pair encoding, against the definition of the latter."""

import io
import itertools
from collections import Counter

from subword_nmt.apply_bpe import BPE

from repro.data.segmentation import (
    SEPARATOR,
    SubwordSegmenter,
    join_subwords,
    moses_detokenizer,
    moses_tokenizer,
)

TEXT = ["low low low low low lower lower newest newest newest newest newest newest widest widest"]


def test_signs_are_parted_from_words_and_abbreviations_are_kept():
    tokenize = moses_tokenizer("en")
    assert tokenize("Mr. Smith isn't here, is he?") == "Mr. Smith isn 't here , is he ?"
    assert tokenize("a & b < c") == "a & b < c"


def test_detokenized_text_reads_as_before():
    text = "Mr. Smith isn't here, is he?"
    assert moses_detokenizer("en")(moses_tokenizer("en")(text)) == text


def first_merge(text):
    """The most frequent pair of neighboring symbols, by counting."""
    pairs = Counter()
    for word in " ".join(text).split():
        symbols = [*word[:-1], word[-1] + "</w>"]
        pairs.update(itertools.pairwise(symbols))
    return pairs


def test_the_first_merge_joins_a_most_frequent_pair(tmp_path):
    segmenter = SubwordSegmenter.learn(TEXT, merges=1)
    segmenter.save(tmp_path / "codes")
    _, merge = (tmp_path / "codes").read_text(encoding="utf-8").splitlines()
    counts = first_merge(TEXT)
    assert counts[tuple(merge.split(" "))] == max(counts.values())


def test_segments_join_to_the_words_again():
    segmenter = SubwordSegmenter.learn(TEXT, merges=8)
    for sentence in ("low lowest newer wide", "unknown words", "low"):
        assert " ".join(join_subwords(segmenter(sentence).split())) == sentence


def test_frequent_words_stay_whole_and_rare_ones_are_split():
    segmenter = SubwordSegmenter.learn(TEXT, merges=12)
    assert segmenter("newest") == "newest"
    assert "@@" in segmenter("slowly")


def test_a_small_memory_of_words_changes_nothing(monkeypatch):
    sentences = [*TEXT, " slowly  lowest\u00a0wide ", "newest lower slowly"]
    codes = SubwordSegmenter.learn(TEXT, merges=8)._codes
    library = BPE(io.StringIO(codes), separator=SEPARATOR)
    monkeypatch.setattr("repro.data.segmentation._CACHE_SIZE", 2)
    segmenter = SubwordSegmenter(codes)
    for sentence in sentences:
        assert segmenter(sentence) == library.segment(sentence)
        assert segmenter._pieces.cache_info().currsize <= 2


def test_an_unfinished_word_at_the_end_is_kept():
    assert join_subwords(["low@@", "er", "wid@@"]) == ["lower", "wid"]


def test_codes_survive_a_file(tmp_path):
    segmenter = SubwordSegmenter.learn(TEXT, merges=10)
    segmenter.save(tmp_path / "codes")
    again = SubwordSegmenter((tmp_path / "codes").read_text(encoding="utf-8"))
    assert again("lowest newer") == segmenter("lowest newer")
