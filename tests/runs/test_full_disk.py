"""A full disk: a failed run that can be repeated, and one line on the terminal."""

import errno
import os
from pathlib import Path

import pytest
from executed import executed

from repro.atomic import atomic_write_text
from repro.cli import main
from repro.config.compose import compose_run
from repro.results import RunFolder
from repro.runs.execute import execute
from repro.runs.job import locate
from repro.runs.locking import run_lock
from repro.runs.show import describe, print_run


def refuse(*_arguments: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_run_without_room_fails_and_can_be_repeated(tiny, monkeypatch, capsys):
    executed(compose_run(tiny))  # it writes the corpus of the next one too
    config = compose_run([*tiny, "seed=2"])

    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_bytes", refuse)
        outcome = execute(locate(config))
    assert outcome.status == "failed"
    assert outcome.error.startswith(
        f"OSError: [Errno 28] No space left on device: '{outcome.folder}"
    )
    folder = RunFolder(outcome.folder)
    assert folder.status == "failed"  # an empty marker needs no room
    print_run(describe(folder.path.parents[2], folder.run_id))
    assert f"{folder.run_id}  failed" in capsys.readouterr().out
    assert execute(locate(config)).status == "done"


def test_a_run_that_cannot_even_be_marked_reads_interrupted(tmp_path, monkeypatch, capsys):
    folder = RunFolder(tmp_path / "demo" / "runs" / "0123456789ab")
    folder.mark_running()
    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_bytes", refuse)
        patched.setattr(Path, "touch", refuse)
        folder.mark_failed("Traceback: no room")
    assert not folder.failed.exists()
    print_run(describe(tmp_path, "0123"))
    assert "0123456789ab  interrupted" in capsys.readouterr().out
    with run_lock(folder.path):
        print_run(describe(tmp_path, "0123"))
    assert "0123456789ab  running" in capsys.readouterr().out


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS])
def test_a_command_without_room_ends_with_one_line(tmp_path, monkeypatch, capsys, number):
    def fail(*_arguments: object) -> None:
        raise OSError(number, os.strerror(number))

    data = tmp_path / "demo" / "figures" / "paper" / "figure.json"
    atomic_write_text(data, "{}")
    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_bytes", fail)
        assert main(["report", f"results_dir={tmp_path}"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"repro: {tmp_path}")
    assert line.endswith(os.strerror(number))
