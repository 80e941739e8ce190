"""The manifest of a folder: every changed bit is noticed."""

import subprocess
from pathlib import Path

from repro.checksums import MANIFEST, damaged_files, format_manifest


def flipped(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


def test_a_manifest_names_what_is_damaged_or_missing(tmp_path):
    assert damaged_files(tmp_path) == []
    (tmp_path / "below").mkdir()
    for name in ("a", "below/b", "c"):
        (tmp_path / name).write_text(name)
    (tmp_path / MANIFEST).write_text(format_manifest(tmp_path, ("c",)))
    assert damaged_files(tmp_path) == []
    subprocess.run(["sha256sum", "--quiet", "-c", MANIFEST], cwd=tmp_path, check=True)
    flipped(tmp_path / "below/b", 0)
    (tmp_path / "a").unlink()
    assert damaged_files(tmp_path) == ["a", "below/b"]
    assert damaged_files(tmp_path, ["a", "c"]) == ["a"]


def test_every_flipped_bit_of_a_manifest_is_noticed(tmp_path):
    (tmp_path / "a").write_text("a")
    (tmp_path / "b").write_text("b")
    manifest = tmp_path / MANIFEST
    manifest.write_text(format_manifest(tmp_path))
    for position in range(manifest.stat().st_size):
        flipped(manifest, position)
        assert damaged_files(tmp_path) != []
        flipped(manifest, position)
    assert damaged_files(tmp_path) == []
