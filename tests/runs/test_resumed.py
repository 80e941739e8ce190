"""Runs of several sessions."""

import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress

import pytest
from executed import executed

from repro.config.compose import compose_run
from repro.results import RunFolder
from repro.runs import train
from repro.runs.execute import execute
from repro.runs.job import locate
from repro.training.logger import LOGGERS, CurveLogger

Stopped = Callable[[Sequence[str]], RunFolder]


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> Stopped:
    """Train one epoch more of a run, which SIGTERM ends."""
    fit = train.fit

    def one_row(task, config, files, on_row, *rest):  # type: ignore[no-untyped-def]
        def stopping(row):  # type: ignore[no-untyped-def]
            on_row(row)
            os.kill(os.getpid(), signal.SIGTERM)

        return fit(task, config, files, stopping, *rest)

    def session(overrides: Sequence[str]) -> RunFolder:
        job = locate(compose_run(overrides))
        with monkeypatch.context() as patched, suppress(KeyboardInterrupt):
            patched.setattr(train, "fit", one_row)
            execute(job)
        assert job.folder.status == "running"
        return job.folder

    return session


@pytest.mark.parametrize("chosen", ["none csv", "none none csv", "csv none csv", "none csv none"])
def test_a_logger_is_given_every_row_once_whichever_sessions_chose_it(
    tiny, stopped, monkeypatch, chosen
):
    given: list[int] = []

    def recording(folder):  # type: ignore[no-untyped-def]
        logger = log_to_csv(folder)

        def log(row):  # type: ignore[no-untyped-def]
            given.append(row["step"])
            logger.log(row)

        return CurveLogger(log, logger.close)

    log_to_csv = LOGGERS["csv"]
    monkeypatch.setitem(LOGGERS, "csv", recording)  # type: ignore[arg-type]
    *before, last = (f"logger={name}" for name in chosen.split())
    run = [*tiny, f"training.max_epochs={len(before) + 1}"]
    for logger in before:
        stopped([*run, logger])
    folder = executed(compose_run([*run, last]))
    for _ in range(2):
        assert execute(locate(compose_run([*run, "logger=csv"]))).status == "skipped"
    assert given == [row["step"] for row in folder.read_history()]
    assert len((folder.path / "curves.csv").read_text().splitlines()) == 1 + len(given)
    assert folder.damaged_files() == []
