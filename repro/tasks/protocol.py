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
    """Identity of the data that a run reads: a name, and a hash over all of its files."""

    name: str
    fingerprint: str


class Task(Trainable[BatchT], Protocol[BatchT]):
    """A model with its data, that can be trained and evaluated."""

    def evaluate(self, folder: RunFolder) -> Scores:
        """Evaluate the current model; predictions and examples go into ``folder``."""
        ...


EnsembleEvaluation = Callable[[Sequence[Task[Any]], RunFolder], Scores]
"""Evaluates trained tasks together; predictions go into the folder."""

RunT = TypeVar("RunT", bound=RunConfig)


@dataclass(frozen=True)
class TaskSpec(Generic[RunT]):
    """Entry of a task: its schema and how it is built.

    Attributes:
        identify: finds (or generates) the corpus of a configuration, and names it; parses it if
            there is no ``check``. Raises ``DataError`` where it is missing or incomplete.
        check: reads the corpus as ``build`` would, and keeps what it prepared; raises ``DataError``
            where it is malformed or leaves nothing to train on. Called once for each configuration,
            before any run starts; not needed where ``identify`` reads the whole corpus.
        build: makes the model and loads the data.
        evaluate_ensemble: evaluates trained tasks of one configuration and several seeds as one;
            ``None`` where the task has no ensembles.
        unread_in_training: settings, ``<group>.<field>`` each, that only the evaluation reads:
            runs that differ in nothing else share their training.
    """

    identify: Callable[[RunT], CorpusIdentity]
    build: Callable[[RunT, torch.device], Task[Any]]
    evaluate_ensemble: EnsembleEvaluation | None = None
    check: Callable[[RunT], None] | None = None
    unread_in_training: frozenset[str] = frozenset()
