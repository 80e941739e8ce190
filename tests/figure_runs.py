"""Runs that exist in memory only, for kinds of figures to gather their data from."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

from repro.report.figures import Figure, FigureRun, FigureRuns
from repro.report.figures.kinds import shown_examples
from repro.results import RunFolder

Row = dict[str, Any]


class KeptRun(RunFolder):
    """A run folder whose examples are given."""

    def __init__(self, run_id: str, rows: Sequence[Row]) -> None:
        super().__init__(Path(run_id))
        self.rows = rows

    def _read(self) -> list[Row]:
        return deepcopy([*self.rows])

    read_attention = read_hypotheses = read_candidates = read_forced = read_history = _read


def figure_run(
    row: str,
    rows: Sequence[Row] = (),
    value: float = 1.0,
    seed: int = 1,
    config: Mapping[str, Any] | None = None,
) -> FigureRun:
    """A run of a row; its mapping has the name of the row unless the settings say otherwise."""
    config = {"mapping": {"name": row}} if config is None else config
    return FigureRun(row, seed, value, KeptRun(f"{row}-{seed}", rows), config=config)


def runs_of(kept: Mapping[str, Sequence[Row]], prefer: Sequence[str] = ()) -> FigureRuns:
    """One run for each row, by the examples that it kept."""
    found = [figure_run(row, rows) for row, rows in kept.items()]
    return FigureRuns("dev/accuracy", prefer, found, found)


def runs_in(**folders: RunFolder) -> FigureRuns:
    """Real runs by their row."""
    found = [
        FigureRun(row, 1, 1.0, folder, config={"mapping": {"name": row}})
        for row, folder in folders.items()
    ]
    return FigureRuns("dev/accuracy", (), found, found)


def chosen(
    kind: Figure, kept: Mapping[str, Sequence[Row]], prefer: Sequence[str] = ()
) -> list[int]:
    """Indices of the examples that a figure shows of those that runs kept."""
    return [one["index"] for one in shown_examples(kind.gather(runs_of(kept, prefer)))]
