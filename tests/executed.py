"""Runs that a test executes in its own process."""

from collections.abc import Callable

from repro.config.compose import compose_run
from repro.config.schema import RunConfig
from repro.results import RunFolder
from repro.runs.execute import execute
from repro.runs.job import locate


def composer(*small: str) -> Callable[..., RunConfig]:
    """Return a function of a results folder and further settings that composes a small run."""
    return lambda root, *overrides: compose_run([*small, f"results_dir={root}", *overrides])


def executed(config: RunConfig) -> RunFolder:
    """Execute a run, which must end well, and return its folder."""
    outcome = execute(locate(config))
    assert outcome.status == "done", outcome.error
    return RunFolder(outcome.folder)
