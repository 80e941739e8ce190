"""Runs of several sessions: what their records say of them, and what loggers are given."""

import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress

import pytest
import torch
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


@pytest.fixture
def begin(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Let sessions that follow be of a commit, versions and a device with this number."""

    def numbered(number: int) -> None:
        monkeypatch.setattr(train, "source_commit", lambda: f"c{number}")
        monkeypatch.setattr(train, "describe_versions", lambda: f"python {number}")
        monkeypatch.setattr(train, "describe_device", lambda _: f"cpu (A, threads: {number})")

    return numbered


def test_the_record_names_every_session_that_trained(summarizer, stopped, begin, monkeypatch):
    def broken(*_: object) -> None:
        raise RuntimeError("between training and evaluation")

    run = [*summarizer, "training.max_epochs=2"]
    begin(1)
    stopped(run)
    begin(2)
    with monkeypatch.context() as patched:
        patched.setattr(train, "evaluate_best", broken)
        assert execute(locate(compose_run(run))).status == "failed"
    begin(3)  # it evaluates, and another run takes the training over
    for search in ([], ["decoding.beam_size=1"]):
        record = executed(compose_run([*run, *search])).read_record()
        assert record.commit == "c3, training: c1 and c2"
        assert record.versions == "python 3, training: python 1 and python 2"
        assert record.device == (
            "cpu (A, threads: 3), training: cpu (A, threads: 1) and cpu (A, threads: 2)"
        )


def test_sessions_that_are_alike_are_one(tiny, stopped, begin):
    begin(1)
    stopped(tiny)
    record = executed(compose_run(tiny)).read_record()
    assert (record.commit, record.device) == ("c1", "cpu (A, threads: 1)")


def test_a_session_whose_work_was_lost_is_not_named(tiny, stopped, begin):
    begin(1)
    stopped(tiny).checkpoint.unlink()
    begin(2)
    assert executed(compose_run(tiny)).read_record().commit == "c2"


def test_a_checkpoint_that_names_no_session_is_continued(tiny, stopped, begin):
    begin(1)
    folder = stopped(tiny)
    content = torch.load(folder.checkpoint, weights_only=True)
    assert [one["commit"] for one in content["progress"].pop("sessions")] == ["c1"]
    torch.save(content, folder.checkpoint)  # as earlier versions did
    begin(2)
    record = executed(compose_run(tiny)).read_record()
    assert record.commit == "c2"
    assert [row["epoch"] for row in folder.read_history()] == [1, 2]


@pytest.mark.parametrize("chosen", ["none csv", "none none csv", "csv none csv", "none csv none"])
def test_a_logger_is_given_every_row_once_whichever_sessions_chose_it(
    tiny, stopped, monkeypatch, chosen
):
    given: list[int] = []

    def recording(run):  # type: ignore[no-untyped-def]
        logger = log_to_csv(run)

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
