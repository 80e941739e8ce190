"""Interface of tasks to the runner of experiments and to the prediction of new inputs."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, runtime_checkable

from repro.config.schema import RunConfig
from repro.prediction import Prediction, Wanted
from repro.results import RunFolder
from repro.training.protocol import BatchT, Trainable

if TYPE_CHECKING:
    import torch
    from torch import nn

Scores = dict[str, float]
"""Values by full metric name, ``<split>/<metric>`` or ``<split>/<metric>/<part>``."""


@dataclass(frozen=True)
class CorpusIdentity:
    """Identity of the data that a run reads: its name and a hash over all of its files."""

    name: str
    fingerprint: str


class Task(Trainable[BatchT], Protocol[BatchT]):
    """Model with its data that can be trained and evaluated."""

    def evaluate(self, folder: RunFolder) -> Scores:
        """Evaluate the current model; write predictions and examples to ``folder``."""
        ...


ExampleT = TypeVar("ExampleT")


@runtime_checkable
class Predictor(Protocol[ExampleT]):
    """Model that predicts inputs of a user, with the preparation and search of the evaluation.

    The tasks of the package are predictors; ``ExampleT`` is the type of a prepared input.
    """

    @property
    def model(self) -> "nn.Module":
        """Module whose weights the run stores."""

    def preparation(self) -> dict[str, Any]:
        """Return what turns an input into ids, as JSON values: vocabularies, merges, labels."""
        ...

    def read(self, lines: Iterable[tuple[int, str]], path: Path) -> Iterator[ExampleT]:
        """Prepare the inputs of numbered lines.

        Raises:
            DataError: a line is malformed or an input too long; names ``path`` and the line.
        """
        ...

    def predict(
        self, examples: Sequence[ExampleT], wanted: Wanted
    ) -> Iterator[tuple[int, Prediction]]:
        """Predict in batches; yield the position of each example with its prediction."""
        ...


@runtime_checkable
class Illustrated(Protocol):
    """Model whose weights and outputs figures show for the inputs of ``experiments/examples``."""

    @property
    def examples_file(self) -> str:
        """Name of the file of inputs, in the format of ``repro predict``."""

    def write_own_examples(self, path: Path, folder: RunFolder) -> None:
        """Write what :meth:`Task.evaluate` stores for figures, for each input of a file.

        Args:
            path: file of inputs; their gold outputs are in a file beside it, see
                :func:`~repro.tasks.common.own_examples`.
            folder: where attention, hypotheses, candidate structures or probabilities go.
        """
        ...


EnsembleEvaluation = Callable[[Sequence[Task[Any]], RunFolder], Scores]
"""Function that evaluates trained tasks as one ensemble and writes predictions to a folder."""

RunT = TypeVar("RunT", bound=RunConfig)


@dataclass(frozen=True)
class TaskSpec(Generic[RunT]):
    """Functions by which the runner finds the corpus of a task, builds it and evaluates it.

    Attributes:
        identify: finds (or generates) the corpus of a configuration and returns its identity;
            parses it if there is no ``check``. Raises ``DataError`` if it is missing or incomplete.
        check: reads the corpus as ``build`` would and caches the result; raises ``DataError`` if it
            is malformed or leaves nothing to train on. Called once for each configuration, before
            any run starts; not needed if ``identify`` reads the whole corpus.
        build: creates the model and loads the data.
        evaluate_ensemble: evaluates trained tasks that differ only in their seeds as one ensemble;
            ``None`` if the task does not support ensembles.
        restore: creates the model without a corpus, from what ``Predictor.preparation`` returned;
            ``None`` if the task does not predict new inputs.
        unread_in_training: settings, each as ``<group>.<field>``, that only the evaluation reads:
            runs that differ in nothing else are trained once.
    """

    identify: Callable[[RunT], CorpusIdentity]
    build: "Callable[[RunT, torch.device], Task[Any]]"
    evaluate_ensemble: EnsembleEvaluation | None = None
    check: Callable[[RunT], None] | None = None
    restore: "Callable[[RunT, torch.device, Mapping[str, Any]], Predictor[Any]] | None" = None
    unread_in_training: frozenset[str] = frozenset()


def imported(name: str) -> Callable[..., Any]:
    """Return a function that imports ``<module>:<name>`` and calls it.

    A specification made of these, whose ``identify`` needs no PyTorch, is quick to import.
    """
    return lambda *arguments: resolve_name(name)(*arguments)
