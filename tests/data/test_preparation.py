"""Preparation on the demo corpus and on lines made for each setting."""

import tracemalloc
from dataclasses import replace

import pytest

from repro.config.schema.text_pairs import EncodingSettings, TextSettings
from repro.data import preparation
from repro.data.corpora import declared
from repro.data.corpora.translation import ParallelTexts
from repro.data.demo.translation import DEMO, SIZES, write_translation_demo
from repro.data.parallel import open_folder, read_pairs
from repro.data.preparation import SINK, _write_subwords, _write_words, prepare, strip_diacritics
from repro.data.segmentation import join_subwords
from repro.data.translation import open_corpus
from repro.data.vocabulary import SPECIALS, Vocabulary
from repro.errors import DataError

RAW = ParallelTexts(
    name="raw", title="raw", licence="none", citation="none", folder="raw", languages=("ro", "en"),
    sizes={"test": 1},
)  # fmt: skip


@pytest.fixture
def demo(tmp_path):
    write_translation_demo(tmp_path / "data")
    return open_corpus(DEMO, tmp_path / "data", "orun", "vesti")


@pytest.fixture
def raw(tmp_path):
    """A corpus of two languages with texts of one's own."""

    def make(source, target):
        folder = tmp_path / "raw"
        folder.mkdir()
        for split in ("train", "dev", "test"):
            (folder / f"{split}.ro").write_text(source, encoding="utf-8")
            (folder / f"{split}.en").write_text(target, encoding="utf-8")
        return tmp_path

    return make


def test_ids_decode_to_the_text(demo, tmp_path):
    prepared = prepare(demo, TextSettings(), EncodingSettings(), tmp_path / "cache")
    for split, size in (("train", SIZES["train"]), ("dev", SIZES["val"]), ("test", SIZES["test"])):
        pairs = prepared.splits[split]
        assert len(pairs) == size
        for pair, (source, _) in zip(pairs, read_pairs(demo.splits[split]), strict=True):
            known = [w if w in prepared.source else "<unk>" for w in source.split()]
            assert prepared.source.decode(pair.source) == known


def test_subwords_leave_nothing_unknown_and_join_to_the_text(demo, tmp_path):
    text = TextSettings(merges=60, joint=False)
    prepared = prepare(demo, text, EncodingSettings(), tmp_path / "cache")
    assert len(prepared.source) < 200
    for pair, (source, target) in zip(
        prepared.splits["test"], read_pairs(demo.splits["test"]), strict=True
    ):
        assert Vocabulary.UNK not in pair.source
        assert " ".join(join_subwords(prepared.source.decode(pair.source))) == source
        assert " ".join(join_subwords(prepared.target.decode(pair.target))) == target


def test_the_sink_ends_every_source_and_counts_no_word_out(demo, tmp_path):
    encoding = EncodingSettings(vocabulary=20)
    prepared = prepare(demo, TextSettings(), encoding, tmp_path / "cache", sink=True)
    assert len(prepared.source) == 4 + 20 + 1
    assert len(prepared.target) == 4 + 20
    assert all(prepared.source.decode(p.source)[-1] == SINK for p in prepared.splits["dev"])


@pytest.mark.parametrize("shared", [False, True])
def test_words_of_a_text_are_kept_apart_from_symbols(raw, tmp_path, shared):
    line = "<s> a <SINK> <pad> </s> b\n"
    corpus = open_folder(raw(line, line) / "raw", "ro", "en", tokenised=True)
    encoding = EncodingSettings(shared=shared)
    prepared = prepare(corpus, TextSettings(), encoding, tmp_path / "cache", sink=True)
    ids, unknown = prepared.source.encode(["a", "b", SINK]), Vocabulary.UNK
    (pair,) = prepared.splits["test"]
    assert pair.source == [unknown, ids[0], unknown, unknown, unknown, ids[1], ids[2]]
    assert pair.target.count(unknown) == 4
    assert ids[2] not in pair.target or not shared
    assert min(ids) >= len(SPECIALS)


def test_a_line_without_words_is_named_in_the_file_of_the_user(raw, tmp_path):
    """The tokenizer drops control characters."""
    data_dir = raw("a b\n\x01\n", "a b\nc\n")
    corpus = open_folder(data_dir / "raw", "ro", "en")
    with pytest.raises(DataError, match=rf"{data_dir}/raw/train\.ro:2: no words"):
        prepare(corpus, TextSettings(), EncodingSettings(), tmp_path / "cache")


@pytest.mark.parametrize("path", ["test.orun", "train.vesti"])
def test_text_that_changes_while_it_is_prepared_is_refused(demo, tmp_path, path, monkeypatch):
    (file,) = (tmp_path / "data").rglob(path)

    def change_later(corpus, settings, folder):
        _write_words(corpus, settings, folder)
        file.write_bytes(file.read_bytes() + b"w\n")

    monkeypatch.setattr(preparation, "_write_words", change_later)
    with pytest.raises(DataError, match=path):
        prepare(demo, TextSettings(), EncodingSettings(), tmp_path / "cache")
    assert [*(tmp_path / "cache").iterdir()] == []


def test_long_pairs_leave_training_only(demo, tmp_path):
    encoding = EncodingSettings(max_length=8)
    prepared = prepare(demo, TextSettings(), encoding, tmp_path / "cache")
    train = prepared.splits["train"]
    assert 0 < len(train) < SIZES["train"]
    assert max(max(map(len, pair)) for pair in train) <= 8
    assert len(prepared.splits["test"]) == SIZES["test"]


def test_a_shared_vocabulary_is_one(demo, tmp_path):
    prepared = prepare(demo, TextSettings(), EncodingSettings(shared=True), tmp_path / "cache")
    assert prepared.source.tokens == prepared.target.tokens


def test_stages_are_not_run_twice(demo, tmp_path, monkeypatch):
    cache = tmp_path / "cache"
    first = prepare(demo, TextSettings(merges=20), EncodingSettings(), cache)
    monkeypatch.setattr("repro.data.preparation.read_pairs", pytest.fail)
    second = prepare(demo, TextSettings(merges=20), EncodingSettings(), cache)
    assert list(second.splits["dev"]) == list(first.splits["dev"])


@pytest.mark.parametrize("joint", [True, False])
def test_subwords_hold_no_more_than_a_few_sentences(raw, joint):
    """The files are half a megabyte each; splitting their words takes a small part of that."""
    data_dir = raw("low lower newest widest " * 80 + "\n", "new low wide lowest " * 80 + "\n")
    for language in ("ro", "en"):
        path = data_dir / "raw" / f"train.{language}"
        path.write_text(path.read_text(encoding="utf-8") * 300, encoding="utf-8")
    corpus = open_corpus(RAW, data_dir, "ro", "en", check_sizes=False)
    words = data_dir / "words"
    (data_dir / "subwords").mkdir()
    _write_words(replace(corpus, tokenised=True), TextSettings(), words)
    tracemalloc.start()
    _write_subwords(words, TextSettings(merges=4, joint=joint), data_dir / "subwords")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < (words / "train.source").stat().st_size / 3


def test_every_setting_changes_the_name(demo, tmp_path):
    names = {
        prepare(demo, text, EncodingSettings(), tmp_path, sink).name
        for text in (TextSettings(), TextSettings(lowercase=True), TextSettings(merges=5))
        for sink in (False, True)
    }
    assert len(names) == 6
    other = replace(demo, tokenised=not demo.tokenised)
    assert prepare(other, TextSettings(), EncodingSettings(), tmp_path).name not in names


@pytest.mark.parametrize(
    ("stripped", "source", "target"),
    [
        ("none", "știri , așa !", "news , émile !"),
        ("source", "stiri , asa !", "news , émile !"),
        ("target", "știri , așa !", "news , emile !"),
        ("both", "stiri , asa !", "news , emile !"),
    ],
)
def test_text_is_tokenised_lowercased_and_stripped_of_marks(raw, stripped, source, target):
    data_dir = raw("Știri, așa!\n", "News, Émile!\n")
    corpus = open_corpus(RAW, data_dir, "ro", "en")
    text = TextSettings(lowercase=True, strip_diacritics=stripped)
    prepared = prepare(corpus, text, EncodingSettings(), data_dir / "cache")
    assert list(read_pairs(prepared.texts["test"])) == [(source, target)]
    pair = prepared.splits["train"][0]
    assert prepared.source.decode(pair.source) == source.split()
    assert prepared.target.decode(pair.target) == target.split()


def test_diacritics_of_romanian():
    assert strip_diacritics("ăâîșțşţ ĂÂÎȘȚ abc") == "aaistst AAIST abc"


def test_a_part_of_a_corpus_must_be_asked_for(raw):
    data_dir = raw("a\nb\n", "c\nd\n")
    with pytest.raises(
        DataError, match=r"test\.ro has 2 lines, the corpus has 1; .*data\.check_size=false"
    ):
        open_corpus(RAW, data_dir, "ro", "en")
    assert open_corpus(RAW, data_dir, "ro", "en", check_sizes=False).tests == ("test",)


@pytest.mark.parametrize(
    ("languages", "message"),
    [
        (("de", "ja"), r"data\.target=ja: multi30k .*: de, en, fr"),
        (("de", "de"), r"data\.source and data\.target are both de"),
        (("de", "en"), r"multi30k/.* is missing"),
    ],
)
def test_unknown_languages_and_missing_files_are_refused(tmp_path, languages, message):
    corpus = declared(ParallelTexts, "data.corpus", "multi30k")
    with pytest.raises(DataError, match=message):
        open_corpus(corpus, tmp_path, *languages)


def test_unknown_corpora_are_refused_with_the_choices():
    with pytest.raises(DataError, match=r"data\.corpus=nowhere: .*iwslt2014, .*multi30k"):
        declared(ParallelTexts, "data.corpus", "nowhere")


def test_no_damage_of_a_prepared_corpus_changes_its_content(demo, tmp_path):
    """A flipped bit of an Arrow file may give other ids, or abort the process in Arrow itself."""
    cache = tmp_path / "cache"

    def content():
        prepared = prepare(demo, TextSettings(merges=20), EncodingSettings(), cache)
        pairs = [[*one] for one in prepared.splits.values()]
        return pairs, [[*read_pairs(one)] for one in prepared.texts.values()], prepared.codes

    expected = content()
    files = sorted(path for path in cache.glob("*/*") if path.name != "SHA256SUMS")
    assert {path.suffix for path in files} >= {".arrow", ".json", ".codes", ".source", ".target"}
    for number, path in enumerate(files):
        whole = path.read_bytes()
        place = number * 1009 % len(whole)
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :])
        assert content() == expected
        path.write_bytes(whole[:place])
        assert content() == expected
