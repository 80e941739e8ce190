"""A bare ``repro reproduce`` in a terminal asks before it runs everything."""

import io
from collections.abc import Sequence

import pytest

from repro import cli
from repro.runs import reproduce as reproduction
from repro.runs.plan import plan

EVERYTHING = 40
"""There are more artefacts than that."""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def requested(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Numbers of artefacts that would have been run."""
    counts: list[int] = []

    def record(
        names: Sequence[str], *_args: object, **_kwargs: object
    ) -> reproduction.Reproduction:
        counts.append(len(names))
        return reproduction.Reproduction([], None)

    monkeypatch.setattr("repro.runs.reproduce.reproduce", record)
    # The plan of one artefact is enough to ask.
    monkeypatch.setattr("repro.runs.plan.plan", lambda names, *rest: plan(names[:1], *rest))
    return counts


@pytest.mark.parametrize(("answer", "runs"), [("y\n", True), ("n\n", False), ("", False)])
def test_everything_is_run_after_a_yes_only(answer, runs, requested, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", Terminal(answer))
    assert cli.main(["reproduce", f"results_dir={tmp_path}"]) == 0
    assert "runs to do" in capsys.readouterr().out
    assert [count > EVERYTHING for count in requested] == [True] * runs


def test_the_plan_that_is_confirmed_is_of_the_chosen_cells(
    requested, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr("sys.stdin", Terminal("n\nn\n"))
    table = ["niculae2018/table1"]
    monkeypatch.setattr("repro.runs.plan.plan", lambda _names, *rest: plan(table, *rest))
    rows, column = ["--rows", "CRF,margin CRF"], ["--columns", "en"]
    for chosen, runs in ([], 20), (column, 10), (rows, 8), ([*rows, *column], 4):
        assert cli.main(["reproduce", *chosen, f"results_dir={tmp_path}"]) == 0
        assert f"{runs} runs to do" in capsys.readouterr().out
    assert cli.main(["reproduce", "--columns", "nowhere", f"results_dir={tmp_path}"]) == 2
    assert "no column 'nowhere'; choose from: " in capsys.readouterr().err
    assert requested == []


@pytest.mark.parametrize("words", [["--yes"], ["peters2019/figure3"]])
def test_no_question_where_the_user_was_explicit(words, requested, tmp_path, monkeypatch):
    monkeypatch.setattr("sys.stdin", Terminal(""))
    assert cli.main(["reproduce", *words, f"results_dir={tmp_path}"]) == 0
    assert len(requested) == 1


def test_without_a_terminal_everything_needs_a_yes(requested, tmp_path, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert cli.main(["reproduce", f"results_dir={tmp_path}"]) == 2
    assert (requested, [*tmp_path.iterdir()]) == ([], [])
    assert cli.main(["reproduce", "--yes", f"results_dir={tmp_path}"]) == 0
    assert len(requested) == 1
