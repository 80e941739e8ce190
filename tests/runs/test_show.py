"""Printing a run whose texts look like the markup of the terminal."""

import pytest

from repro.results import run_folder
from repro.runs.show import describe, metric_text, print_run


def test_brackets_in_paths_and_texts_are_printed_as_they_are(tmp_path, capsys):
    results = tmp_path / "a[/bold]b[red]"
    folder = run_folder(results, "demo", "0123456789ab")
    folder.mark_running()
    folder.write_config("data_dir: '[/bold]'\n")
    folder.write_environment({"command": "repro run '[/x]'"})
    folder.mark_failed("Traceback: [/y]")
    print_run(describe(results, "0123"), config=True)
    printed = capsys.readouterr().out
    assert all(text in printed for text in (str(folder.path), "'[/bold]'", "'[/x]'", "[/y]"))


def test_the_configuration_is_printed_on_request_only(tmp_path, capsys):
    folder = run_folder(tmp_path, "demo", "0123456789ab")
    folder.mark_running()
    folder.write_config("seed: 7\n")
    for asked in (False, True):
        print_run(describe(tmp_path, "0123"), config=asked)
        assert ("seed: 7" in capsys.readouterr().out) is asked


@pytest.mark.parametrize(
    ("value", "text"), [(0.76981, "      0.7698"), (3.8141e31, "  3.8141e+31")]
)
def test_a_huge_value_is_printed_in_scientific_notation(value, text):
    assert metric_text(value) == text
