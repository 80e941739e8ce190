"""Checksums beside files: every changed bit is noticed, and a crash leaves a file that matches."""

import os
import subprocess
from pathlib import Path

import pytest

from repro.atomic import atomic_write_text
from repro.checksums import (
    MANIFEST,
    DamagedFileError,
    checksums_of,
    damaged_files,
    format_manifest,
    remove,
    sidecar,
    verify,
)


def flipped(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "weights.bin"
    atomic_write_text(file, "old", checksum=True)
    return file


def test_the_file_of_checksums_is_that_of_sha256sum(path: Path) -> None:
    found = subprocess.run(
        ["sha256sum", path.name], cwd=path.parent, capture_output=True, text=True, check=True
    )
    assert sidecar(path).read_text() == found.stdout
    assert sorted(os.listdir(path.parent)) == ["weights.bin", "weights.bin.sha256"]


def test_every_flipped_bit_of_a_file_or_of_its_checksum_is_noticed(path: Path) -> None:
    for damaged in (path, sidecar(path)):
        for position in range(damaged.stat().st_size):
            flipped(damaged, position)
            with pytest.raises(DamagedFileError, match=r"weights\.bin is damaged"):
                verify(path)
            flipped(damaged, position)
            verify(path)


def test_a_cut_or_lost_file_is_noticed_and_one_without_a_checksum_accepted(path: Path) -> None:
    path.write_bytes(b"ol")
    with pytest.raises(DamagedFileError):
        verify(path)
    path.unlink()
    with pytest.raises(DamagedFileError):
        verify(path)
    path.write_text("by hand")
    sidecar(path).unlink()
    verify(path)
    verify(path.with_name("absent"))


def test_a_removed_file_leaves_nothing(path: Path) -> None:
    remove(path)
    remove(path)
    assert os.listdir(path.parent) == []


@pytest.mark.parametrize("step", range(3))
@pytest.mark.parametrize("content", ["old", None])
def test_a_crash_at_any_step_leaves_a_whole_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int, content: str | None
) -> None:
    """The steps: name the pending checksum, replace the file, name its checksum."""
    path = tmp_path / "file"
    if content is not None:
        atomic_write_text(path, content, checksum=True)
    calls, replace = [], os.replace

    def crash(source: Path, target: Path) -> None:
        calls.append(target)
        if len(calls) == step + 1:
            raise KeyboardInterrupt
        replace(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", crash)
        with pytest.raises(KeyboardInterrupt):
            atomic_write_text(path, "new", checksum=True)
    verify(path)
    expected = content if step < 2 else "new"
    assert (path.read_text() if path.exists() else None) == expected
    atomic_write_text(path, "newest", checksum=True)
    verify(path)
    assert sorted(os.listdir(tmp_path)) == ["file", "file.sha256"]


def test_a_manifest_names_what_is_damaged_or_missing(tmp_path: Path) -> None:
    assert damaged_files(tmp_path) == []
    (tmp_path / "below").mkdir()
    for name in ("a", "below/b", "c"):
        (tmp_path / name).write_text(name)
    listed = checksums_of(tmp_path, lambda name: name != "c")
    (tmp_path / MANIFEST).write_text(format_manifest(listed))
    assert damaged_files(tmp_path) == []
    subprocess.run(["sha256sum", "--quiet", "-c", MANIFEST], cwd=tmp_path, check=True)
    flipped(tmp_path / "below/b", 0)
    (tmp_path / "a").unlink()
    assert damaged_files(tmp_path) == ["a", "below/b"]
    assert damaged_files(tmp_path, ["a", "c"]) == ["a"]


def test_every_flipped_bit_of_a_manifest_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    (tmp_path / "b").write_text("b")
    manifest = tmp_path / MANIFEST
    manifest.write_text(format_manifest(checksums_of(tmp_path)))
    for position in range(manifest.stat().st_size):
        flipped(manifest, position)
        assert damaged_files(tmp_path) != []
        flipped(manifest, position)
    assert damaged_files(tmp_path) == []
