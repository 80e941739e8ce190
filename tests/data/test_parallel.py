"""Line-aligned text: what is read, and every refusal."""

import pytest

from repro.data.parallel import ParallelText, digests_of, open_folder, read_pairs
from repro.errors import DataError


@pytest.fixture
def write(tmp_path):
    def make(source, target):
        text = ParallelText(tmp_path / "train.de", tmp_path / "train.en")
        for path, content in zip(text, (source, target), strict=True):
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return text

    return make


def test_lines_are_paired_without_outer_spaces(write):
    text = write(" eins\nzwei drei\r\n", "one\ntwo three ")
    assert list(read_pairs(text)) == [("eins", "one"), ("zwei drei", "two three")]


def test_only_line_feeds_end_a_line(write):
    text = write("a\u2028b\x0bc\n", "d\n")
    assert list(read_pairs(text)) == [("a\u2028b\x0bc", "d")]


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("a\nb\n", "c\n", r"train\.en ends after 1 lines, but .*train\.de continues"),
        ("a\n", "c\nd\n", r"train\.de ends after 1 lines, but .*train\.en continues"),
        ("a\n \n", "c\nd\n", r"train\.de:2: a blank line"),
        ("a\nb\n", "c\n\n", r"train\.en:2: a blank line"),
        (b"a\n\xff\n", "c\nd\n", r"train\.de:2: not UTF-8 \(byte 1\)"),
        ("", "", "is empty"),
    ],
)
def test_malformed_files_are_refused_with_file_and_line(write, source, target, message):
    with pytest.raises(DataError, match=message):
        list(read_pairs(write(source, target)))


def test_extensions_may_have_points(tmp_path):
    for stem in ("train", "dev", "test", "test_news.2017"):
        for extension in ("bpe.de", "en"):
            (tmp_path / f"{stem}.{extension}").write_text("a\n")
    assert open_folder(tmp_path, "bpe.de", "en").tests == ("test", "test_news.2017")


def test_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"train\.de is missing"):
        list(read_pairs(ParallelText(tmp_path / "train.de", tmp_path / "train.en")))
    with pytest.raises(DataError, match=r"train\.de is missing"):
        digests_of({"train": ParallelText(tmp_path / "train.de", tmp_path / "train.en")})


def test_fingerprint_changes_with_content_and_split(write):
    def found(split, *sides):
        return digests_of({split: write(*sides)})[0]

    first = found("train", "a\n", "b\n")
    assert found("train", "a\n", "b\n") == first
    assert found("dev", "a\n", "b\n") != first
    assert found("train", "b\n", "a\n") != first
