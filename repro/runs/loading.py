"""Trained models of finished runs, for new inputs.

The task of a run prepares, searches and formats inputs by the code that evaluates it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from repro.config.errors import ConfigError
from repro.config.identity import flattened, settings
from repro.config.paths import default_results_dir
from repro.config.restore import RESTORED_CHANGES, restore_run
from repro.config.schema import RunConfig
from repro.errors import UserError
from repro.evaluation.metrics import metric_of
from repro.prediction import Prediction, Wanted
from repro.results import ResultsError, RunFolder, find_run, load, run_folder
from repro.results.frame import selected
from repro.results.labels import result_text, run_title
from repro.runs.device import prepare_device
from repro.runs.environment import enough_memory
from repro.tasks import Predictor, task_spec
from repro.training.checkpoint import CheckpointError, load_weights

POOL = 10_000
"""Inputs that are sorted by length and predicted together, as the evaluation does with a split."""
DETAILED_POOL = 500
"""Size of a pool for predictions with weights."""


@dataclass(frozen=True, repr=False)
class LoadedRun:
    """Trained model of a run, ready for new inputs.

    Attributes:
        run_id: identity of the run.
        config: its configuration, with the overrides of :func:`load_run`.
        model: the model with the code of its task.
        result: its main metric with the value; empty if it is unknown.
    """

    run_id: str
    config: RunConfig
    model: Predictor[Any]
    result: str = ""

    def __repr__(self) -> str:
        title = run_title(flattened(settings(self.config)), self.config.data.corpus)
        return ", ".join(filter(None, [f"{self.run_id}: {title}", self.result]))

    @property
    def label(self) -> str:
        """Name of the mapping, or of the loss if there is none, for titles."""
        chosen = self.config.mapping or self.config.loss
        alpha = getattr(chosen, "alpha", None)
        return chosen.name if alpha is None else f"{chosen.name}, α = {alpha:g}"

    def predict(
        self, inputs: str | Iterable[str | Sequence[str]], n_best: int = 1, weights: bool = True
    ) -> list[Prediction]:
        """Predict inputs that fit in memory.

        Args:
            inputs: one text, or several, each in the format of ``repro predict``: a line, or a
                sentence in CoNLL-U; a sequence of texts stands for fields joined by TAB.
            n_best: number of best outputs in ``Prediction.n_best``, at most ``beam_size``.
            weights: whether predictions have attention and candidate structures.

        Raises:
            DataError: an input is malformed or too long.
        """
        examples: list[Any] = []
        every = [inputs] if isinstance(inputs, str) else inputs
        for number, one in enumerate(every, start=1):
            text = one if isinstance(one, str) else "\t".join(one)
            lines = enumerate(text.strip("\n").split("\n"), start=1)
            examples += self.model.read(lines, Path(f"input {number}"))
        return [*self._predicted(examples, Wanted(n_best, weights))]

    def stream(
        self,
        lines: Iterable[tuple[int, str]],
        path: Path,
        wanted: Wanted,
        pool: int | None = None,
        advance: Callable[[float], None] = lambda _share: None,
    ) -> Iterator[Prediction]:
        """Predict inputs as they are read, in bounded memory and in their order.

        Args:
            lines: numbered lines.
            path: the file that they come from, for messages.
            wanted: what predictions have besides their outputs.
            pool: number of inputs that are predicted together.
            advance: called after each batch with the share of the pool that is done.

        Raises:
            DataError: an input is malformed or too long; inputs before it are predicted first.
        """
        examples: list[Any] = []
        size = pool or (DETAILED_POOL if wanted.weights else POOL)
        try:
            for example in self.model.read(lines, path):
                examples.append(example)
                if len(examples) == size:
                    yield from self._predicted(examples, wanted, advance)
                    examples = []
        except UserError:
            yield from self._predicted(examples, wanted, advance)
            raise
        yield from self._predicted(examples, wanted, advance)

    def _predicted(
        self,
        examples: Sequence[Any],
        wanted: Wanted,
        advance: Callable[[float], None] = lambda _share: None,
    ) -> Iterator[Prediction]:
        found: dict[int, Prediction] = {}
        with enough_memory(self.config, "decoding", "task", "model"):
            for place, prediction in self.model.predict(examples, wanted) if examples else ():
                found[place] = prediction
                advance(len(found) / len(examples))
        yield from (found[place] for place in range(len(examples)))


def load_run(run: str | Path, *overrides: str, results_dir: str | Path | None = None) -> LoadedRun:
    """Load the model of a finished run; see :func:`repro.load`."""
    root = Path(results_dir or default_results_dir())
    folder = _folder(str(run), root)
    for one in overrides:
        if not one.startswith(RESTORED_CHANGES):
            raise ConfigError(f"{one}: a prediction takes decoding.KEY=..., hardware=...")
    config = restore_run(folder.verified(folder.config), overrides)
    # What the evaluation tuned is recorded under the name of the setting.
    record = folder.read_record() if folder.record.exists() else None
    measured = record.metrics if record else {}
    search = vars(config.decoding) if config.decoding else {}
    tuned = [
        f"decoding.{key}={measured[f'dev/{key}']}" for key in search if f"dev/{key}" in measured
    ]
    if tuned:
        config = restore_run(folder.config, [*tuned, *overrides])
    config.results_dir = str(root)
    spec = task_spec(config.task.name)
    if spec.restore is None:
        raise ConfigError(f"task={config.task.name} does not predict new inputs")
    device, preparation = prepare_device(config), folder.read_preparation()
    try:
        model = spec.restore(config, device, preparation)
    except UserError:
        raise
    except ValueError as error:
        raise ResultsError(f"{folder.preparation}: {error}") from error
    try:
        load_weights(folder.verified(folder.model), model.model)
    except CheckpointError as error:
        raise ResultsError(str(error)) from error
    model.model.eval()
    return LoadedRun(folder.run_id, config, model, result_text(record) if record else "")


def _folder(run: str, root: Path) -> RunFolder:
    """Find the folder of a run that has weights."""
    is_folder = (Path(run) / "config.yaml").is_file()
    found = RunFolder(Path(run).resolve()) if is_folder else find_run(root, run)
    reopened = ""
    if isinstance(found, RunFolder):
        if found.model.exists():
            return found
        if not found.record.exists():
            raise ResultsError(f"run {found.run_id} has no weights yet: it has not ended")
        if found.done.exists():  # while it does, the command says that the run is done
            reopened = f"delete {found.done}, and "
        found = found.read_record()
    if found.members:
        raise ResultsError(
            f"{found.run_id} is an ensemble; predict with one of {', '.join(found.members)}"
        )
    raise ResultsError(
        f"the weights of run {found.run_id} are not here; {reopened}this command trains them: "
        f"{found.command}"
    )


def best_run(results_dir: Path, metric: str, filters: Sequence[str]) -> str:
    """Return the identity of the run with the best value of a metric, of those with weights here.

    Records are published without weights: if no run that agrees has any, it is the best of all.

    Raises:
        ResultsError: no run matches the filters or has the metric, or no value of it is better.
    """
    frame = selected(load(results_dir), filters)
    frame = frame[frame["kind"] == "run"]
    if metric not in frame or frame[metric].isna().all():
        agrees = f" that agrees with {' '.join(filters)}" if filters else ""
        raise ResultsError(f"no run{agrees} has {metric!r}")
    higher = metric_of(metric).higher_is_better
    if higher is None:
        raise ResultsError(f"no value of {metric} is better than another; choose another metric")
    runs = frame.dropna(subset=[metric])
    runs = runs.sort_values([metric, "run_id"], ascending=[not higher, True])
    places = zip(runs["scale"], runs["run_id"], strict=True)
    here = [run_folder(results_dir, *place).model.exists() for place in places]
    return str((runs[here] if any(here) else runs)["run_id"].iloc[0])
