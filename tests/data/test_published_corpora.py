"""Corpora in the layout of their archives: generated text, written by the tests."""

from pathlib import Path

import pytest
import yaml

from repro.data.corpora import declared_corpora
from repro.data.corpora.translation import ParallelTexts, Selection
from repro.data.parallel import read_pairs
from repro.data.segmentation import moses_tokenizer
from repro.data.translation import length_filter
from repro.data.translation import open_corpus as open_declared
from repro.errors import DataError

CORPORA = {name: one for name, one in declared_corpora().items() if isinstance(one, ParallelTexts)}
RECIPES = {name: one.recipe for name, one in CORPORA.items() if one.recipe}


def open_corpus(data_dir, name, *languages, **settings):
    return open_declared(CORPORA[name], data_dir, *languages, **settings)


DE, EN = ("haus", "meer", "salz", "wind"), ("house", "sea", "salt", "wind")


def sentence(words, number):
    """A short sentence that is different for each number below 256."""
    return " ".join(words[number >> shift & 3] for shift in (0, 2, 4, 6))


def write_segments(path, texts):
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = "".join(f'<seg id="{n}"> {text} </seg>\n' for n, text in enumerate(texts, start=1))
    path.write_text(f'<refset><doc docid="1">\n{lines}</doc></refset>\n', encoding="utf-8")


def write_tags(path, title, sentences):
    path.parent.mkdir(parents=True, exist_ok=True)
    head = f"<url>http://x</url>\n<talkid>1</talkid>\n<title>{title}</title>\n"
    path.write_text(head + "".join(f"{one}\n" for one in sentences), encoding="utf-8")


@pytest.fixture
def iwslt(tmp_path):
    """Ninety sentences of training, one of them too long, one too uneven, one blank."""
    for year, sets in (
        (14, ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")),
        (17, ("TED.dev2010", *(f"TED.tst{n}" for n in range(2010, 2016)))),
    ):
        folder = tmp_path / f"iwslt20{year}" / "de-en"
        for language, words in (("de", DE), ("en", EN)):
            texts = [sentence(words, number) for number in range(90)]
            texts[10] = " ".join(words * 13)
            texts[20] = words[0] if language == "de" else texts[20]
            texts[30] = "" if language == "en" else texts[30]
            write_tags(folder / f"train.tags.de-en.{language}", words[1], texts)
            for offset, name in enumerate(sets):
                path = folder / f"IWSLT{year}.{name}.de-en.{language}.xml"
                write_segments(path, [sentence(words, 100 + offset), sentence(words, 120)])
    return tmp_path


def texts_of(corpus, split):
    return list(read_pairs(corpus.splits[split]))


def test_iwslt_2014_is_cleaned_and_every_23rd_pair_held_out(iwslt):
    corpus = open_corpus(iwslt, "iwslt2014", "de", "en", check_sizes=False)
    numbers = [n for n in range(90) if n not in (10, 20, 30)]
    fitting = [("meer", "sea"), *((sentence(DE, n), sentence(EN, n)) for n in numbers)]
    assert texts_of(corpus, "dev") == fitting[22::23]
    assert texts_of(corpus, "train") == [p for n, p in enumerate(fitting, 1) if n % 23]
    assert len(texts_of(corpus, "test")) == 10
    assert texts_of(corpus, "test")[2] == (sentence(DE, 101), sentence(EN, 101))
    assert not corpus.tokenised


def test_iwslt_2017_keeps_all_pairs_without_headings(iwslt):
    corpus = open_corpus(iwslt, "iwslt2017", "de", "en", check_sizes=False)
    train = texts_of(corpus, "train")
    assert len(train) == 89
    assert train[0] == (sentence(DE, 0), sentence(EN, 0))
    assert (len(texts_of(corpus, "dev")), len(texts_of(corpus, "test"))) == (2, 12)


def test_both_directions_have_the_same_pairs_and_are_assembled_once(iwslt, monkeypatch):
    forward = open_corpus(iwslt, "iwslt2017", "de", "en", check_sizes=False, cache=iwslt / "cache")
    monkeypatch.setattr("repro.data.translation._write", pytest.fail)
    backward = open_corpus(iwslt, "iwslt2017", "en", "de", check_sizes=False, cache=iwslt / "cache")
    assert texts_of(backward, "test") == [pair[::-1] for pair in texts_of(forward, "test")]
    assert backward.fingerprint != forward.fingerprint


def test_a_changed_file_is_assembled_anew(iwslt):
    before = open_corpus(iwslt, "iwslt2017", "de", "en", check_sizes=False)
    write_segments(iwslt / "iwslt2017/de-en/IWSLT17.TED.dev2010.de-en.de.xml", ["neu", "wind"])
    after = open_corpus(iwslt, "iwslt2017", "de", "en", check_sizes=False)
    assert texts_of(after, "dev")[0][0] == "neu"
    assert texts_of(before, "dev")[0][0] != "neu"


def test_sizes_of_the_whole_corpus_are_checked(iwslt):
    with pytest.raises(DataError, match=r"train\.de has 89 lines, the corpus has 206112"):
        open_corpus(iwslt, "iwslt2017", "de", "en")
    with pytest.raises(DataError, match=r"the corpus has 151793 to 154859"):
        open_corpus(iwslt, "iwslt2014", "de", "en")


def test_plain_files_come_before_archives(iwslt):
    for split in ("train", "dev", "test"):
        for language in ("de", "en"):
            path = iwslt / "iwslt2017" / f"{split}.{language}"
            path.write_text("plain\n", encoding="utf-8")
    corpus = open_corpus(iwslt, "iwslt2017", "de", "en", check_sizes=False)
    assert texts_of(corpus, "train") == [("plain", "plain")]


def test_sides_of_different_length_are_named(iwslt):
    write_segments(iwslt / "iwslt2017/de-en/IWSLT17.TED.tst2012.de-en.de.xml", ["eins"])
    with pytest.raises(DataError, match=r"tst2012.*de\.xml ends after 1 lines, but .*continues"):
        open_corpus(iwslt, "iwslt2017", "de", "en", check_sizes=False)


def test_missing_files_are_all_named_with_the_way_to_obtain_them(iwslt):
    (iwslt / "iwslt2017/de-en/IWSLT17.TED.tst2012.de-en.de.xml").unlink()
    (iwslt / "iwslt2017/de-en/train.tags.de-en.en").unlink()
    message = (
        r"iwslt2017/train\.de is missing.* no train\.tags\.de-en\.en, "
        r"IWSLT17\.TED\.tst2012\.de-en\.de\.xml; to get iwslt2017: run `repro data fetch iwslt2017"
    )
    with pytest.raises(DataError, match=message):
        open_corpus(iwslt, "iwslt2017", "de", "en")


def write_wmt(folder, name, recipe):
    """Two pairs in every file of a recipe, the second without an English side in training."""
    for part in [part for split in recipe.parts.values() for part in split]:
        for side, file in enumerate(part.names):
            path = folder / "training" / file.replace("*", "2")
            path.parent.mkdir(parents=True, exist_ok=True)
            if file.endswith(".sgm"):
                write_segments(path, [f"{name} {side}", f"segment {side}"])
            elif part.names[0] == part.names[1]:
                path.write_text("other ||| english\n", encoding="utf-8")
            else:
                path.write_text(f"line {side}\nrest{' ' * side}\n", encoding="utf-8")


@pytest.mark.parametrize("name", [name for name in RECIPES if name.startswith("wmt")])
def test_wmt_files_are_found_by_name_below_the_folder(tmp_path, name):
    recipe = RECIPES[name]
    write_wmt(tmp_path / recipe.folder, name, recipe)
    corpus = open_corpus(tmp_path, name, CORPORA[name].languages[0], "en", check_sizes=False)
    train = texts_of(corpus, "train")
    columns = sum(part.names[0] == part.names[1] for part in recipe.parts["train"])
    assert len(train) == 2 * len(recipe.parts["train"]) - columns
    assert texts_of(corpus, "test") == [(f"{name} 0", f"{name} 1"), ("segment 0", "segment 1")]
    assert train[0] == ("line 0", "line 1")


def test_two_different_files_of_one_name_are_refused(tmp_path):
    recipe = RECIPES["wmt16_ro"]
    write_wmt(tmp_path / "wmt16", "wmt16_ro", recipe)
    copy = tmp_path / "wmt16" / "elsewhere" / "europarl-v8.ro-en.ro"
    copy.parent.mkdir()
    copy.write_text("line 0\nrest\n", encoding="utf-8")
    assert open_corpus(tmp_path, "wmt16_ro", "ro", "en", check_sizes=False).tests == ("test",)
    copy.write_text("something else\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"differ, and both could be europarl-v8\.ro-en\.ro"):
        open_corpus(tmp_path, "wmt16_ro", "ro", "en", check_sizes=False)


def test_news_tests_stand_beside_plain_files_of_the_benchmark(tmp_path):
    folder = tmp_path / "benchmark_it_en"
    folder.mkdir()
    for split in ("train", "dev", "test"):
        for language in ("it", "en"):
            (folder / f"{split}.{language}").write_text(f"{split}\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"test_plus\.it is missing, and .*newstest2009-src\.it"):
        open_corpus(tmp_path, "benchmark_it", "it", "en")
    for language in ("it", "en"):
        write_segments(folder / f"newstest2009-src.{language}.sgm", [f"mare {language}"])
    corpus = open_corpus(tmp_path, "benchmark_it", "en", "it")
    assert texts_of(corpus, "test_plus") == [("mare en", "mare it")]
    assert corpus.tests == ("test", "test_plus")


def test_the_cleaning_of_long_and_uneven_pairs_by_its_definition():
    selection, tokenize = RECIPES["iwslt2014"].selection, moses_tokenizer("en")
    assert selection == Selection(longest=50, ratio=1.5, every=23)
    fits = length_filter(selection, "de")
    for first, second in ((2, 3), (2, 4), (50, 50), (51, 50), (40, 27), (40, 26)):
        pair = " ".join("a" * first), " ".join("b" * second)
        lengths = [len(tokenize(side).split()) for side in pair]
        assert lengths == [first, second]
        longest, shortest = max(lengths), min(lengths)
        assert fits(pair) == (longest <= 50 and longest / shortest <= 1.5)


def texts_below(value):
    """Every text in nested lists and tables."""
    if isinstance(value, str):
        return {value}
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return set().union(*map(texts_below, inner))


def named_by_experiments():
    """Every value of ``data.corpus`` in the specifications of the papers' tables and figures."""
    paths = (Path(__file__).parents[2] / "experiments").rglob("*.yaml")
    found = set().union(*(texts_below(yaml.safe_load(path.read_text("utf-8"))) for path in paths))
    key = "data.corpus="
    return {text.removeprefix(key) for text in found if text.startswith(key)}


def test_every_corpus_of_an_experiment_is_declared():
    named = named_by_experiments() - {"demo_translation"}
    assert {"iwslt2014", "kftt", "wmt16_ro", "benchmark_fr", "multi30k"} <= named
    assert named <= CORPORA.keys()


def test_every_corpus_says_how_to_get_it():
    for corpus in declared_corpora().values():
        assert corpus.how_to_get
        assert bool(corpus.downloads) == ("repro data fetch" in corpus.how_to_get)


@pytest.mark.parametrize("name", sorted(CORPORA))
def test_what_is_missing_and_how_to_get_it_is_said_for_every_corpus(tmp_path, name):
    with pytest.raises(DataError, match=rf"is missing.*; to get {name}: "):
        open_corpus(tmp_path, name, *CORPORA[name].languages[:2])


def test_archives_are_unpacked_where_the_recipe_looks():
    dead = ("wit3.fbk.eu", "opus.nlpl.eu/download")
    for name, corpus in CORPORA.items():
        if corpus.downloads and corpus.recipe:
            assert corpus.archive_folder == corpus.recipe.folder, name
            assert set(corpus.members) == set(corpus.recipe.names)
        assert not any(part in one.url for one in corpus.downloads for part in dead)
