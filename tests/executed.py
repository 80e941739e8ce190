"""Runs that a test executes in its own process."""

from repro.config.schema import RunConfig
from repro.results import RunFolder
from repro.runs.execute import execute
from repro.runs.job import locate


def executed(config: RunConfig) -> RunFolder:
    """Execute a run, which must end well, and return its folder."""
    outcome = execute(locate(config))
    assert outcome.status == "done", outcome.error
    return RunFolder(outcome.folder)
