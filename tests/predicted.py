"""Predictions of a finished run for lines of text, without the corpus of the run."""

from collections.abc import Iterable
from pathlib import Path

import repro
from repro.results.prediction import Prediction, Wanted


def predicted(
    folder: Path, lines: Iterable[str], n_best: int = 1, weights: bool = False
) -> list[Prediction]:
    """Predict lines with the weights and the vocabularies in the folder of a run."""
    nowhere = folder / "no results here"
    model = repro.load(folder, results_dir=nowhere)
    found = [*model.stream(enumerate(lines, start=1), Path("input.txt"), Wanted(n_best, weights))]
    assert not nowhere.exists()
    return found


def printed(folder: Path, lines: Iterable[str]) -> str:
    """Return what the command prints of the predictions."""
    return "".join(f"{one.line}\n" for one in predicted(folder, lines))
