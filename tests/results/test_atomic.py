import json
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from repro.results import atomic_write_bytes, atomic_write_json, atomic_write_text


def test_writes_and_replaces_and_makes_folders(tmp_path):
    path = tmp_path / "a" / "b" / "file.bin"
    atomic_write_bytes(path, b"old")
    atomic_write_bytes(path, b"new\r\n\x00")
    assert path.read_bytes() == b"new\r\n\x00"
    assert os.listdir(path.parent) == ["file.bin"]


def test_text_keeps_its_line_ends_and_letters(tmp_path):
    atomic_write_text(tmp_path / "t", "α\r\nβ\n")
    assert (tmp_path / "t").read_bytes() == "α\r\nβ\n".encode()


def test_file_has_the_rights_of_an_ordinary_file(tmp_path):
    (tmp_path / "ordinary").write_text("x")
    atomic_write_text(tmp_path / "atomic", "x")
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("ordinary", "atomic")]
    assert modes[0] == modes[1]


@pytest.mark.parametrize("failing", ["replace", "fsync"])
def test_crash_leaves_the_old_content_and_no_temporary_file(tmp_path, monkeypatch, failing):
    path = tmp_path / "file"
    atomic_write_text(path, "old")

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, failing, crash)
    with pytest.raises(KeyboardInterrupt):
        atomic_write_text(path, "new")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]


def test_the_new_content_is_on_disk_before_the_name_moves(tmp_path, monkeypatch):
    calls: list[str] = []
    real_fsync, real_replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda fd: (calls.append("fsync"), real_fsync(fd))[1])

    def replace(source: Path, target: Path) -> None:
        calls.append("replace")
        assert source.parent == target.parent
        assert source.read_text() == "content"
        real_replace(source, target)

    monkeypatch.setattr(os, "replace", replace)
    atomic_write_text(tmp_path / "file", "content")
    assert calls == ["fsync", "replace", "fsync"]  # the file, its name, the folder of the name


def test_json_round_trip_and_no_nan(tmp_path):
    path = tmp_path / "value.json"
    atomic_write_json(path, {"ä": [1, 2.5, None]})
    assert json.loads(path.read_text(encoding="utf-8")) == {"ä": [1, 2.5, None]}
    with pytest.raises(ValueError, match="not JSON compliant"):
        atomic_write_json(path, float("nan"))
    assert json.loads(path.read_text(encoding="utf-8")) == {"ä": [1, 2.5, None]}


def test_a_write_removes_what_killed_processes_left_a_day_ago(tmp_path):
    code = f"""
import os, pathlib
from repro.atomic import atomic_path, temporary_beside
target = pathlib.Path({str(tmp_path)!r}) / "file"
temporary_beside(target).mkdir()
with atomic_path(target) as temporary:
    temporary.write_text("half")
    os.kill(os.getpid(), 9)
"""
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == -signal.SIGKILL
    left = [*tmp_path.iterdir()]
    (folder,) = (path for path in left if path.is_dir())
    (folder / "new").write_text("x")
    foreign = tmp_path / ".editor.tmp"
    foreign.write_text("x")
    atomic_write_text(tmp_path / "other", "x")
    assert all(path.exists() for path in left)  # their process may still be running
    for path in (*left, foreign):
        os.utime(path, (time.time() - 2 * 24 * 3600,) * 2)
    atomic_write_text(tmp_path / "other", "x")
    assert folder.exists()  # something in it is new
    os.utime(folder / "new", (0, 0))
    os.utime(folder, (0, 0))
    atomic_write_text(tmp_path / "other", "x")
    assert {path.name for path in tmp_path.iterdir()} == {".editor.tmp", "other"}
