"""Output that cannot be written, terminals without letters, folders that are not there."""

import io
import sys
from pathlib import Path

import pytest

from repro.cli import main
from repro.results import ResultsError, require_writable


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="no /dev/full here")
def test_output_to_a_full_device_ends_with_one_line(monkeypatch, capsys):
    with Path("/dev/full").open("w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        assert main(["data", "list"]) == 1
    assert capsys.readouterr().err == "repro: No space left on device\n"


def test_an_ascii_terminal_shows_other_letters_as_escapes(monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    assert main(["data", "list"]) == 0
    assert b"CoNLL\\u2013SIGMORPHON" in stream.buffer.getvalue()


def test_a_deleted_working_directory_is_named(tmp_path, monkeypatch, refused):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert "the working directory does not exist" in refused("report")


@pytest.mark.parametrize("below", ["", "further/down"])
def test_a_results_folder_that_is_a_link_to_nowhere_is_refused(tmp_path, below):
    loop, other, dangling = (tmp_path / name for name in ("loop", "other", "dangling"))
    loop.symlink_to(other)
    other.symlink_to(loop)
    dangling.symlink_to(tmp_path / "absent")
    for link in (loop, dangling):
        with pytest.raises(ResultsError, match="is a broken symbolic link"):
            require_writable(link / below)
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    require_writable(tmp_path / "link" / below)
