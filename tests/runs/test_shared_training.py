"""Runs that differ in their search only train once."""

import re
from pathlib import Path

import pytest
from executed import executed
from safetensors.torch import load_file

from repro.atomic import atomic_write_text
from repro.config.compose import compose_run
from repro.runs import train
from repro.runs.environment import extensions_digest, source_commit
from repro.runs.execute import execute
from repro.runs.job import locate
from repro.runs.launch import backend_of, launch_jobs, prepare_jobs


@pytest.fixture
def trainings(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Folders of the trainings that were made."""
    made, fit = [], train.fit

    def counted(task, config, files, *rest):  # type: ignore[no-untyped-def]
        made.append(files.weights.parent)
        return fit(task, config, files, *rest)

    monkeypatch.setattr(train, "fit", counted)
    return made


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module of an extension."""
    path = tmp_path / "repro/models/own_model.py"
    atomic_write_text(path, "A = 1\n")
    monkeypatch.setenv("REPRO_EXTENSIONS", str(tmp_path))
    return path


def test_another_search_takes_over_the_weights(copied, summarizer, trainings):
    searched = [*summarizer, "decoding.beam_size=1", "task.stored_examples=1"]
    other = executed(compose_run(searched))
    assert trainings == []
    assert other.run_id != copied.run_id
    weights = load_file(copied.model)
    assert all(tensor.equal(weights[name]) for name, tensor in load_file(other.model).items())
    assert other.read_history() == copied.read_history()
    assert other.read_record().metrics["dev/loss"] == copied.read_record().metrics["dev/loss"]
    assert len(other.read_attention()) == 1


@pytest.mark.parametrize("noted", ["with its progress", "with the training", "with the run"])
def test_the_record_says_of_which_commit_and_versions_a_training_is(
    copied, summarizer, monkeypatch, noted
):
    trained = copied.read_record()
    if noted != "with its progress":  # as earlier versions did
        written = copied.read_training()
        (session,) = written["progress"].pop("sessions")
        copied.write_training(written | (session if noted == "with the training" else {}))
        copied.mark_done({})
    monkeypatch.setattr(train, "source_commit", lambda: "another")
    monkeypatch.setattr(train, "describe_versions", lambda: "python 4")
    for size in (1, 3):  # the second may take over from either
        other = executed(compose_run([*summarizer, f"decoding.beam_size={size}"])).read_record()
        assert other.commit == f"another, training: {trained.commit}"
        assert other.versions == f"python 4, training: {trained.versions}"


@pytest.mark.usefixtures("copied")
@pytest.mark.parametrize("override", ["seed=2", "training.learning_rate=0.5"])
def test_another_training_is_made(summarizer, trainings, override):
    other = execute(locate(compose_run([*summarizer, override])))
    assert trainings == [other.folder]


def test_weights_of_another_device_are_not_taken(copied, summarizer, trainings):
    copied.write_training(copied.read_training() | {"device": "another"})
    copied.mark_done({})  # else the file is passed over as damaged
    other = execute(locate(compose_run([*summarizer, "decoding.beam_size=1"])))
    assert trainings == [other.folder]


@pytest.mark.parametrize("changed", [False, True])
def test_weights_of_other_code_of_an_extension_are_not_taken(
    copied, summarizer, trainings, changed, module
):
    written = copied.read_training()
    written["progress"]["sessions"][0]["commit"] = source_commit()
    copied.write_training(written)
    copied.done.unlink()
    if changed:
        module.write_text("A = 2\n")
    for overrides in ([*summarizer, "decoding.beam_size=1"], summarizer):
        execute(locate(compose_run(overrides)))
    assert len(trainings) == changed  # the second takes over from the first


def test_a_training_that_other_code_of_an_extension_began_warns(
    summarizer, module, monkeypatch, caplog
):
    begun = extensions_digest()
    run = locate(compose_run([*summarizer, "seed=11"]))
    with monkeypatch.context() as patched:
        patched.setattr(train, "evaluate_best", lambda *_: 1 / 0)
        assert execute(run).status == "failed"
    module.write_text("A = 2\n")
    assert execute(run).status == "done"  # with the weights of the training that ended
    assert any(begun in one and extensions_digest() in one for one in caplog.messages)
    first, last = re.findall("with extensions (\\w+)", run.folder.read_record().commit)
    assert (first, last) == (extensions_digest(), begun)


def test_weights_without_their_history_are_not_taken(copied, summarizer, trainings, caplog):
    copied.done.unlink()
    copied.history.unlink()
    other = execute(locate(compose_run([*summarizer, "decoding.beam_size=1"])))
    assert trainings == [other.folder]
    assert f"{copied.history}: no history of the training" in caplog.text


def test_side_by_side_runs_of_one_training_share_it(summarizer):
    both = [
        (*summarizer, "hardware.parallel_runs=2", f"decoding.beam_size={size}") for size in (1, 2)
    ]
    jobs = prepare_jobs(both)
    launch_jobs(backend_of("local"), {"parallel_runs": None}, jobs, None)
    metrics = [job.folder.read_record().metrics for job in jobs]
    speeds = {one["train/tokens_per_second"] for one in metrics}
    assert len(speeds) == 1  # one clock measured one training


def test_an_interrupted_run_continues_its_own_training(summarizer, trainings, monkeypatch):
    def interrupted(*arguments):  # type: ignore[no-untyped-def]
        fit(*arguments)
        raise RuntimeError("before its end was noted")

    begun, fit = locate(compose_run([*summarizer, "decoding.beam_size=1"])), train.fit
    with monkeypatch.context() as patched:
        patched.setattr(train, "fit", interrupted)
        assert execute(begun).status == "failed"
    other = execute(locate(compose_run(summarizer)))
    assert execute(begun).status == "done"
    assert trainings == [begun.folder.path, other.folder, begun.folder.path]
