"""Printing a run whose texts look like the markup of the terminal."""

from pathlib import Path

import pytest

from repro.results import run_folder
from repro.runs.show import show


def test_brackets_in_paths_and_texts_are_printed_as_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = tmp_path / "a[/bold]b[red]"
    folder = run_folder(results, "demo", "0123456789ab")
    folder.mark_running()
    folder.write_config("data_dir: '[/bold]'\n")
    folder.write_environment({"command": "repro run '[/x]'"})
    folder.mark_failed("Traceback: [/y]")
    show(results, "0123")
    printed = capsys.readouterr().out
    assert all(text in printed for text in (str(folder.path), "'[/bold]'", "'[/x]'", "[/y]"))
