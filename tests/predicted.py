"""Predictions of a finished run for lines of text, without the corpus of the run."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import repro
from repro.prediction import Prediction, Wanted
from repro.results import RunFolder
from repro.tasks.protocol import Illustrated


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


def own_examples(folder: Path, path: Path, lines: Iterable[str], gold: Sequence[str]) -> RunFolder:
    """Return what a finished run stores of inputs that are written to ``path``, and of outputs."""
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    outputs = "".join(f"{line}\n" for line in gold)
    path.with_name(f"{path.stem}.gold.txt").write_text(outputs, "utf-8")
    model = repro.load(folder).model
    assert isinstance(model, Illustrated)
    found = RunFolder(path.parent / "own")
    found.path.mkdir(exist_ok=True)
    model.write_own_examples(path, found)
    return found
