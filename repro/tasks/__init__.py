"""Tasks: what ties a corpus, a model and its metrics together. Each is imported when asked for."""

from importlib import import_module

from repro.config.errors import ConfigError
from repro.tasks.protocol import CorpusIdentity, Task, TaskSpec

__all__ = ["TASKS", "CorpusIdentity", "Task", "TaskSpec", "task_spec"]

TASKS = {"morphology": "repro.tasks.morphology"}
"""Name of a task, and the module whose ``SPEC`` builds it."""


def task_spec(name: str) -> TaskSpec:
    """The specification of a task.

    Raises:
        ConfigError: there is no such task.
    """
    if name not in TASKS:
        raise ConfigError(f"no task {name!r}; choose from: {', '.join(TASKS)}")
    spec = import_module(TASKS[name]).SPEC
    assert isinstance(spec, TaskSpec)
    return spec
