"""Runs that differ in their search only train once."""

from pathlib import Path

import pytest
from safetensors.torch import load_file

from repro.config.compose import compose_run
from repro.results import RunFolder
from repro.runs import train
from repro.runs.execute import execute
from repro.runs.job import locate
from repro.runs.launch import backend_of, launch_jobs, prepare_jobs


@pytest.fixture
def summarizer(tmp_path: Path) -> list[str]:
    """Overrides of a summarizer of one short epoch."""
    return [
        "task=summarization", f"results_dir={tmp_path}", "hardware=cpu", "hardware.threads=1",
        "task.stored_examples=2", "mapping=softmax", "model.embedding_size=8",
        "model.hidden_size=8", "training.max_epochs=1", "training.batch_size=256",
        "decoding.max_length=6", "decoding.beam_size=2",
    ]  # fmt: skip


@pytest.fixture
def trainings(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Folders of the trainings that were made."""
    made, fit = [], train.fit

    def counted(task, config, files, *rest):  # type: ignore[no-untyped-def]
        made.append(files.weights.parent)
        return fit(task, config, files, *rest)

    monkeypatch.setattr(train, "fit", counted)
    return made


def test_another_search_takes_over_the_weights(
    summarizer: list[str], trainings: list[Path]
) -> None:
    first = execute(locate(compose_run(summarizer)))
    other = execute(
        locate(compose_run([*summarizer, "decoding.beam_size=1", "task.stored_examples=1"]))
    )
    assert (first.status, other.status) == ("done", "done"), other.error
    assert trainings == [first.folder]
    assert other.run_id != first.run_id
    ours, theirs = RunFolder(other.folder), RunFolder(first.folder)
    weights = load_file(theirs.model)
    assert all(tensor.equal(weights[name]) for name, tensor in load_file(ours.model).items())
    assert ours.read_history() == theirs.read_history()
    assert ours.read_record().metrics["dev/loss"] == theirs.read_record().metrics["dev/loss"]
    assert len(ours.read_attention()) == 1


@pytest.mark.parametrize("override", ["seed=2", "training.learning_rate=0.5"])
def test_another_training_is_made(
    summarizer: list[str], trainings: list[Path], override: str
) -> None:
    first = execute(locate(compose_run(summarizer)))
    other = execute(locate(compose_run([*summarizer, override])))
    assert trainings == [first.folder, other.folder]


def test_weights_of_another_device_are_not_taken(
    summarizer: list[str], trainings: list[Path]
) -> None:
    first = execute(locate(compose_run(summarizer)))
    folder = RunFolder(first.folder)
    folder.write_training(folder.read_training() | {"device": "another"})
    other = execute(locate(compose_run([*summarizer, "decoding.beam_size=1"])))
    assert trainings == [first.folder, other.folder]


def test_side_by_side_runs_of_one_training_share_it(summarizer: list[str]) -> None:
    both = [
        (*summarizer, "hardware.parallel_runs=2", f"decoding.beam_size={size}") for size in (1, 2)
    ]
    jobs = prepare_jobs(both)
    launch_jobs(backend_of("local"), {"parallel_runs": None}, jobs, None)
    metrics = [job.folder.read_record().metrics for job in jobs]
    speeds = {one["train/tokens_per_second"] for one in metrics}
    assert len(speeds) == 1  # one clock measured one training


def test_an_interrupted_run_continues_its_own_training(
    summarizer: list[str], trainings: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
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
