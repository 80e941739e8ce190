"""The comparison with JoeyNMT, whose interpreter is replaced by a program that answers like it."""

from pathlib import Path

import pytest

from benchmarks.peer_training import PeerError, Sizes, compare
from benchmarks.training import main

SIZES = Sizes(30, 8, 8, 1, 0.3, batch=4, source=5, target=6)


def program(folder: Path, text: str) -> str:
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_every_row_is_measured_in_turn_and_compared_with_the_peer(tmp_path: Path) -> None:
    answers = 'echo "joeynmt 2, torch 3"; while read -r line; do echo 0.5; done'
    lines = compare(
        program(tmp_path, answers), SIZES, before=1, updates=3, bfloat16=True
    ).splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]
    assert cells[0] == ["joeynmt 2, torch 3", "48", "500", "1.000"]
    assert [row[0] for row in cells[1:]] == [
        "softmax", "1.5-entmax, both sides", "softmax, bfloat16", "1.5-entmax, bfloat16",
    ]  # fmt: skip
    for _, rate, milliseconds, times in cells[1:]:
        assert float(times) > 1  # an update of these sizes takes less than half a second
        assert float(rate.replace(",", "")) > 48
        assert float(milliseconds) < 500


@pytest.mark.parametrize("text", ["exit 1", "echo joeynmt; exit 1"])
def test_a_peer_that_does_not_run_is_reported(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    python = program(tmp_path, text)
    with pytest.raises(PeerError):
        compare(python, SIZES, before=0, updates=1, bfloat16=False)
    assert main(["--joeynmt", python, "--before", "0", "--updates", "1"]) == 2
    assert capsys.readouterr().err
    assert main(["--joeynmt", str(tmp_path / "absent"), "--before", "0", "--updates", "1"]) == 2


def test_rows_or_a_peer_are_needed() -> None:
    with pytest.raises(SystemExit):
        main([])
