import json
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from repro.atomic import scratch_folder, temporary_beside
from repro.results import atomic_write_bytes, atomic_write_json, atomic_write_text


def test_writes_and_replaces_and_makes_folders(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "file.bin"
    atomic_write_bytes(path, b"old")
    atomic_write_bytes(path, b"new\r\n\x00")
    assert path.read_bytes() == b"new\r\n\x00"
    assert os.listdir(path.parent) == ["file.bin"]


def test_text_keeps_its_line_ends_and_letters(tmp_path: Path) -> None:
    atomic_write_text(tmp_path / "t", "α\r\nβ\n")
    assert (tmp_path / "t").read_bytes() == "α\r\nβ\n".encode()


def test_file_has_the_rights_of_an_ordinary_file(tmp_path: Path) -> None:
    (tmp_path / "ordinary").write_text("x")
    atomic_write_text(tmp_path / "atomic", "x")
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("ordinary", "atomic")]
    assert modes[0] == modes[1]


@pytest.mark.parametrize("failing", ["replace", "fsync"])
def test_crash_leaves_the_old_content_and_no_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    path = tmp_path / "file"
    atomic_write_text(path, "old")

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, failing, crash)
    with pytest.raises(KeyboardInterrupt):
        atomic_write_text(path, "new")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]


def test_the_new_content_is_on_disk_before_the_name_moves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_json_round_trip_and_no_nan(tmp_path: Path) -> None:
    path = tmp_path / "value.json"
    atomic_write_json(path, {"ä": [1, 2.5, None]})
    assert json.loads(path.read_text(encoding="utf-8")) == {"ä": [1, 2.5, None]}
    with pytest.raises(ValueError, match="not JSON compliant"):
        atomic_write_json(path, float("nan"))
    assert json.loads(path.read_text(encoding="utf-8")) == {"ä": [1, 2.5, None]}


def _dead_process() -> int:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait(30)
    return child.pid


def test_the_next_write_removes_what_killed_processes_left(tmp_path: Path) -> None:
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
    assert len(os.listdir(tmp_path)) == 2
    atomic_write_text(tmp_path / "other", "x")
    assert os.listdir(tmp_path) == ["other"]


def test_temporary_files_of_living_and_of_unknown_writers_are_kept(tmp_path: Path) -> None:
    living = temporary_beside(tmp_path / "living")  # its process is this one
    pid, day = _dead_process(), 24 * 3600
    elsewhere = tmp_path / f".file.00000000-{pid}-01234567.tmp"  # of a process of another machine
    folder = tmp_path / f".folder.00000000-{pid}-01234567.tmp"
    foreign = tmp_path / ".editor.tmp"
    folder.mkdir()
    kept = {living, elsewhere, folder / "new", foreign}
    for path in kept:
        path.write_text("x")
    for path in (living, folder, foreign):
        os.utime(path, (time.time() - 2 * day,) * 2)
    atomic_write_text(tmp_path / "other", "x")
    assert all(path.exists() for path in kept)
    for path in (elsewhere, folder / "new", folder):
        os.utime(path, (time.time() - 2 * day,) * 2)
    atomic_write_text(tmp_path / "other", "x")
    assert {path.name for path in tmp_path.iterdir()} == {living.name, foreign.name, "other"}


def test_the_scratch_folder_of_a_killed_process_is_removed_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    code = """
import os
from repro.atomic import scratch_folder
with scratch_folder():
    os.kill(os.getpid(), 9)
"""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code], env=environment, timeout=60)
    (left,) = tmp_path.iterdir()
    with scratch_folder() as folder:
        assert list(tmp_path.iterdir()) == [folder] != [left]
    assert not list(tmp_path.iterdir())
