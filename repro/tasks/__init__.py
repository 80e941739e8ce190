"""Tasks, each of which combines a corpus, a model and its metrics; imported on first use."""

from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from repro.config.errors import ConfigError
from repro.config.paths import extended
from repro.tasks.protocol import CorpusIdentity, EnsembleEvaluation, Predictor, Task, TaskSpec

__all__ = [
    "TASKS",
    "CorpusIdentity",
    "EnsembleEvaluation",
    "Predictor",
    "Task",
    "TaskSpec",
    "task_spec",
]

__path__ += extended(__name__)

TASKS = {found.name: f"{__name__}.{found.name}" for found in iter_modules(__path__) if found.ispkg}
"""Full name of the package of each task, whose ``SPEC`` is its :class:`TaskSpec`."""


def task_spec(name: str) -> TaskSpec[Any]:
    """Import the package of a task and return its specification.

    Raises:
        ConfigError: there is no such task.
    """
    if name not in TASKS:
        raise ConfigError(f"task={name}: no such task; choose from: {', '.join(TASKS)}")
    spec = import_module(TASKS[name]).SPEC
    assert isinstance(spec, TaskSpec)
    return spec
