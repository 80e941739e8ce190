import os
from pathlib import Path

import pytest

from repro.data.sigmorphon import Inflection, load, read_file, source_tokens, target_tokens
from repro.data.vocabulary import Vocabulary
from repro.errors import DataError


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def test_reads_lines_as_they_are(tmp_path):
    text = "draw\tdrawn\tV;V.PTCP;PST\nrun up\tran up \tV;PST\na\u2028b\tü\u0308\tN\n"
    path = write(tmp_path / "english-dev", text.encode())
    assert read_file(path, "english") == [
        Inflection("english", "draw", "drawn", ("V", "V.PTCP", "PST")),
        Inflection("english", "run up", "ran up ", ("V", "PST")),
        Inflection("english", "a\u2028b", "ü\u0308", ("N",)),
    ]


@pytest.mark.parametrize(
    "content", [b"a\tb\tN\r\nc\td\tV\r\n", b"a\tb\tN\nc\td\tV", b"\xef\xbb\xbfa\tb\tN\nc\td\tV\n"]
)
def test_files_of_other_systems_are_read(tmp_path, content):
    read = read_file(write(tmp_path / "x-dev", content), "x")
    assert [(e.lemma, e.form, e.tags) for e in read] == [("a", "b", ("N",)), ("c", "d", ("V",))]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"draw\tdrew", r"found 2 field\(s\)"),
        (b"draw", r"found 1 field\(s\)"),
        (b"", r"found 1 field\(s\)"),
        (b"draw\tdrew\tV\tPST", r"found 4 field\(s\)"),
        (b"\tdrew\tV;PST", "expected a lemma and a form"),
        (b"draw\t \tV;PST", "expected a lemma and a form"),
        (b"draw\tdrew\t", "none of them empty"),
        (b"draw\tdrew\tV;;PST", "none of them empty"),
        (b"draw\t\xff\tV", r"not UTF-8 \(byte 6\)"),
    ],
)
def test_malformed_line_is_named(tmp_path, line, expected):
    path = write(tmp_path / "english-dev", b"a\tb\tN\n" + line + b"\nc\td\tN\n")
    with pytest.raises(DataError, match=rf"english-dev:2: .*{expected}"):
        read_file(path, "english")


def test_empty_files_are_named(tmp_path):
    with pytest.raises(DataError, match="english-dev is empty"):
        read_file(write(tmp_path / "english-dev", b""), "english")


def test_source_and_target_symbols_round_trip():
    example = Inflection("english", "draw up", "drew up", ("V", "PST"))
    source = source_tokens(example)
    assert source == ["<lang:english>", "<tag:V>", "<tag:PST>", *"draw up"]
    vocabulary = Vocabulary.build([target_tokens(example)])
    decoded = vocabulary.decode(vocabulary.encode(target_tokens(example)))
    assert "".join(decoded) == example.form


def test_languages_of_a_setting(corpus):
    assert load(corpus, "medium").languages == ["alban", "english", "telug"]
    assert load(corpus, "high").languages == ["alban", "english"]


@pytest.mark.parametrize("inside", [".", "conll2018", "conll2018/task1"])
def test_data_dir_may_be_any_of_three_folders(corpus, inside):
    assert load(corpus / inside, "high") == load(corpus, "high")


def test_load_joins_languages_in_order(corpus):
    loaded = load(corpus, "high", ["english", "alban", "english"])
    assert loaded.languages == ["alban", "english"]
    assert [example.form for example in loaded.train] == ["train-high", "train-high"]
    assert [example.language for example in loaded.dev] == ["alban", "english"]
    assert loaded.test[1] == Inflection("english", "english", "test", ("V", "test"))


def test_fingerprint_follows_exactly_the_files_that_were_read(corpus):
    before = load(corpus, "high", ["alban"]).fingerprint
    task = corpus / "conll2018" / "task1"
    (task / "surprise" / "english-dev").write_text("x\ty\tN\n", encoding="utf-8")
    (task / "all" / "alban-train-medium").write_text("x\ty\tN\n", encoding="utf-8")
    assert load(corpus, "high", ["alban"]).fingerprint == before
    assert load(corpus, "medium", ["alban"]).fingerprint != before
    (task / "all" / "alban-dev").write_text("x\ty\tN\n", encoding="utf-8")
    assert load(corpus, "high", ["alban"]).fingerprint != before


@pytest.mark.parametrize(
    ("setting", "languages", "message"),
    [
        ("high", ["englsh"], r"task\.languages: unknown language 'englsh'.*nearest: english\)"),
        ("high", ["gothic"], r"unknown language 'gothic'.*nearest: alban, english, telug\)"),
        (
            "high",
            ["telug", "alban"],
            r"'high' for: telug \(.*task\.languages, or set task\.setting=medium",
        ),
    ],
)
def test_wrong_choices_are_named(corpus, setting, languages, message):
    with pytest.raises(DataError, match=message):
        load(corpus, setting, languages)


def test_missing_corpus_names_folder_and_remedy(tmp_path):
    with pytest.raises(DataError, match=rf"in {tmp_path}/none .*repro data fetch sigmorphon2018"):
        load(tmp_path / "none", "high")
    (tmp_path / "all").mkdir()
    with pytest.raises(DataError, match="no file <language>-train-high"):
        load(tmp_path, "high")


def test_training_data_without_test_data_is_incomplete(corpus):
    (corpus / "conll2018" / "task1" / "all" / "alban-test").unlink()
    with pytest.raises(
        DataError, match=r"has no alban-test; .* found alban-train-\w+, alban-dev.*data fetch"
    ):
        load(corpus, "high")


@pytest.fixture
def real_data_dir() -> Path:
    folder = os.environ.get("REPRO_DATA_DIR", "")
    if not folder or not (Path(folder) / "conll2018" / "task1" / "surprise").is_dir():
        pytest.skip("REPRO_DATA_DIR does not hold the CoNLL–SIGMORPHON 2018 corpus")
    return Path(folder)


@pytest.mark.real
@pytest.mark.parametrize(
    ("setting", "languages", "train", "held_out"),
    [("high", 86, 735_610, 64_400), ("medium", 102, 95_323, 65_200)],
)
def test_real_corpus_has_its_known_sizes(real_data_dir, setting, languages, train, held_out):
    loaded = load(real_data_dir, setting)
    sizes = (len(loaded.languages), len(loaded.train), len(loaded.dev), len(loaded.test))
    assert sizes == (languages, train, held_out, held_out)
