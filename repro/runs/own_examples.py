"""Outputs and weights of trained models for the inputs of ``experiments/examples``.

Figures at scales whose corpora must not be redistributed show these texts, which are the suite's
own. They are not part of a run's identity.
"""

import logging
from collections.abc import Collection
from pathlib import Path

from repro.atomic import atomic_write_json
from repro.config.experiment import OWN_SCALES, load_experiment
from repro.config.paths import experiments_dirs
from repro.data.files import sha256_of
from repro.errors import UserError
from repro.results import Archive, RunFolder, run_folder
from repro.results.files import read_object

_log = logging.getLogger(__name__)


def write_own_examples(archive: Archive, names: Collection[str]) -> None:
    """Write the outputs of runs of figures of examples, for the inputs of the suite.

    Other artefacts among ``names`` are ignored. Runs whose outputs are up to date, or whose weights
    are not here, are passed over.
    """
    if archive.scale not in OWN_SCALES:
        return
    from repro.report.figures import figure_kind  # imports Matplotlib

    runs = set[str]()
    for experiment in map(load_experiment, names):
        plan = experiment.drawing
        if plan is None or experiment.computed or archive.scale not in experiment.scales:
            continue
        if figure_kind(plan.name).shows_own(archive.scale):
            runs |= {one.run_id for one in archive.measurements(experiment)}
    for run in sorted(runs):
        folder = run_folder(archive.results_dir, archive.scale, run)
        if folder.model.exists() and folder.done.exists():
            try:
                _write(folder)
            except UserError as error:  # its folder is damaged or incomplete
                _log.warning(
                    "run %s: the examples of the figures could not be predicted: %s", run, error
                )


def _write(folder: RunFolder) -> None:
    own = folder.own_examples
    state = own.path / "inputs.json"
    if state.exists():
        stored = read_object(state)
        path = _find(str(stored["file"]))
        if path is not None and stored["sha256"] == _digest(path):
            return
    from repro.runs.loading import load_run  # imports torch
    from repro.tasks.protocol import Illustrated

    model = load_run(folder.path).model
    if isinstance(model, Illustrated) and (path := _find(model.examples_file)) is not None:
        own.path.mkdir(parents=True, exist_ok=True)
        model.write_own_examples(path, own)
        atomic_write_json(state, {"file": path.name, "sha256": _digest(path)})


def _find(name: str) -> Path | None:
    """Return the path of a file of inputs; None if no folder of experiments has one."""
    paths = (folder / "examples" / name for folder in experiments_dirs())
    return next((path for path in paths if path.exists()), None)


def _digest(path: Path) -> str:
    """Hash all files of these inputs."""
    files = sorted(path.parent.glob(f"{path.stem}.*"))
    return sha256_of(b"".join(file.read_bytes() for file in files))
