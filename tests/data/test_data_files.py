import os
from pathlib import Path

import pytest

from repro.checksums import sha256_of_file
from repro.data.files import numbered_lines, sha256_of, write_if_changed


def test_write_makes_folders_and_leaves_no_temporary_file(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b"
    write_if_changed(path, b"one")
    write_if_changed(path, b"two")
    assert path.read_bytes() == b"two"
    assert list(path.parent.iterdir()) == [path]


def test_same_content_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "b"
    write_if_changed(path, b"one")
    os.utime(path, ns=(0, 0))
    write_if_changed(path, b"one")
    assert path.stat().st_mtime_ns == 0


def test_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "b"
    write_if_changed(path, b"old")

    def fail(source: str, target: Path) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_if_changed(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_sha256_of_known_bytes() -> None:
    known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # FIPS 180-4: "abc"
    assert sha256_of(b"abc") == known


def test_lines_are_numbered_from_one() -> None:
    assert list(numbered_lines(b"", Path("f"))) == []
    assert list(numbered_lines(b"a\r\n\nb", Path("f"))) == [(1, "a"), (2, ""), (3, "b")]


def test_checksum_of_a_file_is_that_of_its_content(tmp_path: Path) -> None:
    path = tmp_path / "b"
    path.write_bytes(b"one\n" * 100_000)
    assert sha256_of_file(path) == sha256_of(path.read_bytes())
