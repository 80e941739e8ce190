"""Interface of tasks to the runner of experiments."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import torch

from repro.config.schema import RunConfig
from repro.results import RunFolder
from repro.training.protocol import BatchT, Trainable

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
        unread_in_training: settings, each as ``<group>.<field>``, that only the evaluation reads:
            runs that differ in nothing else are trained once.
    """

    identify: Callable[[RunT], CorpusIdentity]
    build: Callable[[RunT, torch.device], Task[Any]]
    evaluate_ensemble: EnsembleEvaluation | None = None
    check: Callable[[RunT], None] | None = None
    unread_in_training: frozenset[str] = frozenset()
