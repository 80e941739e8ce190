import os
from io import BytesIO
from pathlib import Path

import pytest

from repro.checksums import sha256_of_file
from repro.data.files import decoded_lines, parse_json_object, sha256_of, write_if_changed
from repro.errors import DataError


def test_write_makes_folders_and_leaves_no_temporary_file(tmp_path):
    path = tmp_path / "a" / "b"
    write_if_changed(path, b"one")
    write_if_changed(path, b"two")
    assert path.read_bytes() == b"two"
    assert list(path.parent.iterdir()) == [path]


def test_same_content_is_left_alone(tmp_path):
    path = tmp_path / "b"
    write_if_changed(path, b"one")
    os.utime(path, ns=(0, 0))
    write_if_changed(path, b"one")
    assert path.stat().st_mtime_ns == 0


def test_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "b"
    write_if_changed(path, b"old")

    def fail(source: str, target: Path) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_if_changed(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_sha256_of_known_bytes():
    known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # FIPS 180-4: "abc"
    assert sha256_of(b"abc") == known


def test_lines_are_numbered_from_one():
    assert list(decoded_lines([], Path("f"))) == []
    assert list(decoded_lines(BytesIO(b"a\r\n\nb"), Path("f"))) == [(1, "a"), (2, ""), (3, "b")]


def test_a_byte_order_mark_is_skipped_at_the_start_of_a_file_only():
    content = "\ufeffa\n\ufeffb\n".encode()
    assert list(decoded_lines(BytesIO(content), Path("f"))) == [(1, "a"), (2, "\ufeffb")]
    assert list(decoded_lines(content.splitlines(), Path("f"))) == [(1, "a"), (2, "\ufeffb")]
    assert list(decoded_lines(["\ufeff\n".encode()], Path("f"))) == [(1, "")]


@pytest.mark.parametrize(
    ("content", "place"),
    [(b"a\n\xffb", "f:2"), (b"\xed\xa0\x80", "f:1"), ("\ufeffä".encode("utf-16-le"), "f:1")],
    ids=["latin-1", "surrogate", "utf-16"],
)
def test_other_encodings_are_refused_with_the_line(content, place):
    with pytest.raises(DataError, match=f"^{place}: not UTF-8"):
        list(decoded_lines(BytesIO(content), Path("f")))


def test_json_objects_may_escape_any_character():
    escaped = r'{"a": "\u00e4 \ud83d\ude00 \\ud800", "n": 1}'
    assert parse_json_object(escaped) == {"a": "ä 😀 \\ud800", "n": 1}


@pytest.mark.parametrize(
    "line",
    [
        r'{"a": "\ud800"}',
        r'{"a": ["x", {"b": "\ude00\ud83d"}]}',
        r'{"\udfff": 1}',
        "[1]",
        "{",
        "[" * 100_000,
    ],
)
def test_lines_without_a_json_object_of_text_are_refused(line):
    with pytest.raises(ValueError, match="expected"):
        parse_json_object(line)


def test_checksum_of_a_file_is_that_of_its_content(tmp_path):
    path = tmp_path / "b"
    path.write_bytes(b"one\n" * 100_000)
    assert sha256_of_file(path) == sha256_of(path.read_bytes())
