import json
import math
import os
import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from executed import executed
from safetensors.torch import load_file
from stored_statistics import untimed

from repro.cli import main
from repro.config.compose import compose_run
from repro.config.identity import settings
from repro.data.sigmorphon import load
from repro.evaluation.metrics import METRICS
from repro.evaluation.metrics.inflection import InflectedForms
from repro.mappings.kernels import dispatch
from repro.results import RunFolder, read_record, record_path
from repro.results.record import REPLACED
from repro.runs.execute import execute, record_death
from repro.runs.job import Job, locate
from repro.runs.locking import is_claimed, run_lock
from repro.runs.train import evaluate_ensemble
from repro.tasks import CorpusIdentity
from repro.version import NUMERIC_EPOCH


@pytest.fixture(scope="module")
def folder(shared: list[str]) -> RunFolder:
    """A finished run."""
    outcome = execute(locate(compose_run(shared), shared))
    assert outcome.status == "done", outcome.error
    return RunFolder(outcome.folder)


def test_a_run_leaves_everything_that_is_needed_to_trust_it(folder):
    record = folder.read_record()
    assert {"test/accuracy", "test/levenshtein", "dev/certified", "dev/single", "dev/loss"} <= {
        *record.metrics
    }
    assert all(map(math.isfinite, record.metrics.values()))
    assert all(record.signatures.values())
    assert record.fingerprint
    assert (record.epoch, record.members) == (NUMERIC_EPOCH, [])
    assert record.settings["mapping.alpha"] == 1.5
    assert not [key for key in record.settings if key.startswith(("hardware", "results_dir"))]
    assert record == read_record(record_path(folder.path.parents[2], "demo", folder.run_id))
    assert len(folder.read_history()) == 2
    assert "alpha: 1.5" in folder.config.read_text()
    assert {"commit", "device", "versions", "command"} <= set(folder.read_environment())
    assert not folder.checkpoint.exists()


def test_a_record_repeats_the_values_that_its_command_read(tiny, monkeypatch):
    monkeypatch.setenv("ALPHA", "1.25")
    typed = [*tiny, "mapping.alpha=${oc.env:ALPHA}", "loss.alpha=${mapping.alpha}"]
    run = locate(compose_run(typed), typed)
    assert execute(run).status == "done"
    monkeypatch.setenv("ALPHA", "2")
    record = run.folder.read_record()
    assert record.overrides[-2:] == ["mapping.alpha=1.25", "loss.alpha=${mapping.alpha}"]
    assert settings(compose_run(record.overrides)) == record.config


def test_a_run_with_the_weights_of_another_gives_its_curves_to_a_logger(summarizer):
    sizes = [f"decoding.beam_size={value}" for value in (1, 2)]
    first, second = (compose_run([*summarizer, one, "logger=csv"]) for one in sizes)
    for config in (first, second):
        folder = executed(config)
        lines = (folder.path / "curves.csv").read_text().splitlines()
        assert len(lines) == 1 + len(folder.read_history())


def test_a_finished_run_gives_its_curves_to_a_logger_once(folder, shared):
    assert not (folder.path / "curves.csv").exists()
    curves = []
    for _ in range(2):
        assert execute(locate(compose_run([*shared, "logger=csv"]))).status == "skipped"
        curves.append((folder.path / "curves.csv").stat().st_mtime_ns)
    lines = (folder.path / "curves.csv").read_text().splitlines()
    assert len(lines) == 1 + len(folder.read_history())
    assert curves[0] == curves[1]
    assert not folder.damaged_files()


def test_the_recorded_accuracy_is_that_of_the_written_predictions(folder, shared):
    corpus = load(compose_run(shared).corpus_path, "medium")
    accuracies = []
    for language in corpus.languages:
        gold = [example for example in corpus.test if example.language == language]
        lines = folder.predictions_file("test", language).read_text("utf-8").splitlines()
        forms = InflectedForms(gold, [line.split("\t")[1] for line in lines])
        accuracies.append(METRICS["accuracy"].value(forms))
    mean = sum(accuracies) / len(accuracies)
    assert folder.read_record().metrics["test/accuracy"] == pytest.approx(mean)


def test_stored_attention_sums_to_one_and_keeps_exact_zeros(tiny):
    wide = "model.init_range=2.0"  # scores far apart: sparse from the start
    rows = executed(compose_run([*tiny, "mapping=sparsemax", wide])).read_attention()
    assert rows
    for row in rows:
        for weights in row["weights"]:
            assert len(weights) == len(row["source"])
            assert sum(weights) == pytest.approx(1, abs=1e-5)
    assert any(weight == 0.0 for row in rows for weights in row["weights"] for weight in weights)


def test_a_finished_run_is_not_repeated(folder, shared):
    written = folder.record.stat().st_mtime_ns
    again = execute(locate(compose_run(shared)))
    assert (again.status, again.run_id) == ("skipped", folder.run_id)
    assert folder.record.stat().st_mtime_ns == written


def test_examples_that_a_finished_run_lacks_are_stored_without_training(tiny, caplog):
    done = executed(compose_run(tiny))
    before = done.read_record()
    example = load(compose_run(tiny).corpus_path, "medium").test[0]
    asked = [*tiny, f"task.shown=[{example.lemma} {example.form}]"]
    for typed in (tiny, [*tiny, "task.shown=[]"], asked):
        assert caplog.messages == []
        assert execute(locate(compose_run(typed), typed)).status == "skipped"
    (warning,) = caplog.messages
    assert f"with other examples than {asked[-1]}" in warning
    assert str(done.path) in warning
    stored = len(done.read_attention())
    done.done.unlink()
    assert execute(locate(compose_run(asked), asked)).status == "done"
    assert len(done.read_attention()) == stored + 1
    after = done.read_record()
    assert (after.metrics, after.commit) == (before.metrics, before.commit)
    assert execute(locate(compose_run(asked), asked)).status == "skipped"
    assert len(caplog.messages) == 1


def test_the_same_configuration_gives_the_same_numbers(folder, tiny):
    other = executed(compose_run(tiny))
    assert other.run_id == folder.run_id
    assert other.path != folder.path
    assert untimed(other.read_record()) == untimed(folder.read_record())


def test_a_run_with_broken_kernels_has_the_numbers_of_pytorch(tiny, tmp_path, monkeypatch):
    def broken(*_: Any) -> Any:
        raise OSError("no C compiler")

    monkeypatch.setattr(dispatch, "computed_by", {})
    monkeypatch.setitem(dispatch._INSTALLED, "cpu", True)
    names = {
        schema[: schema.index("(")]: family
        for family, operators in dispatch.OPERATORS.items()
        for schema in operators
    }
    for name in names:
        monkeypatch.setitem(dispatch.launchers, ("cpu", name), dispatch.fallback(name))
    settings = [*tiny[1:], "training.max_epochs=1"]
    first = executed(compose_run([*settings, f"results_dir={tmp_path}/torch"]))
    for name, family in names.items():
        if ("cuda", name) in dispatch.launchers:
            launcher = dispatch.CudaLauncher(family, name)
            launcher.kernel = broken
            monkeypatch.setitem(dispatch.launchers, ("cpu", name), launcher)
    with pytest.warns(RuntimeWarning, match="no C compiler") as warned:
        second = executed(compose_run([*settings, f"results_dir={tmp_path}/checked"]))
    record = second.read_record()
    assert untimed(first.read_record()) == untimed(record)
    assert all(name in record.device for name in dispatch.replaced())
    assert "train/tokens_per_second" in first.read_record().metrics
    assert "train/tokens_per_second" not in record.metrics
    kernels = second.read_environment()["kernels"]
    rejected = [code for code in kernels.values() if "PyTorch (" in code]
    assert kernels["REPRO_KERNELS"] == "auto"
    assert len(rejected) == len(warned) == len(dispatch.replaced()) > 1


def test_a_run_without_a_compiler_says_so_and_has_no_speed(tiny, monkeypatch):
    monkeypatch.setattr(dispatch, "computed_by", {})
    monkeypatch.setitem(dispatch._INSTALLED, "cpu", False)
    record = executed(compose_run([*tiny, "training.max_epochs=1"])).read_record()
    assert record.device.endswith(f"{REPLACED} every kernel on cpu")
    assert "train/tokens_per_second" not in record.metrics


def test_a_failing_run_keeps_its_traceback_and_can_be_repeated(tiny, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr("repro.runs.train.fit", _broken)
        outcome = execute(locate(compose_run(tiny)))
    assert outcome.status == "failed"
    assert outcome.error == "RuntimeError: out of luck"
    assert "out of luck" in (outcome.folder / "traceback.txt").read_text()
    assert RunFolder(outcome.folder).status == "failed"
    assert execute(locate(compose_run(tiny))).status == "done"
    assert not (outcome.folder / "FAILED").exists()


def _broken(*_arguments: object) -> None:
    raise RuntimeError("out of luck")


def test_two_processes_do_not_work_on_one_run(tiny):
    path = locate(compose_run(tiny)).folder.path
    with run_lock(path):
        outcome = execute(locate(compose_run(tiny)))
    assert outcome.status == "busy"
    assert f"process {os.getpid()}" in outcome.error
    assert not (path / "FAILED").exists()  # that is for the process that works on it to say
    assert execute(locate(compose_run(tiny))).status == "done"
    assert not is_claimed(path)


def test_cuda_is_refused_where_there_is_none(tiny, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    outcome = execute(locate(compose_run([*tiny, "hardware=cuda"])))
    assert outcome.status == "failed"
    assert "no CUDA device" in outcome.error


def test_a_learned_alpha_is_trained_and_kept(tiny):
    folder = executed(compose_run([*tiny, "mapping=learned_alpha_entmax", "mapping.alpha=1.3"]))
    weights = load_file(folder.model)
    alpha = 1 + torch.sigmoid(weights["decoder.attention.weighting.mapping.logit"])
    assert 1 < float(alpha) < 2
    assert float(alpha) != pytest.approx(1.3, abs=1e-6)


def test_tensorboard_files_are_written(tiny):
    folder = executed(compose_run([*tiny, "logger=tensorboard"]))
    assert list((folder.path / "tensorboard").glob("events*"))


def test_weights_in_progress_are_not_those_of_an_ended_training(tiny, monkeypatch):
    folder = executed(compose_run(tiny))
    folder.remove_weights()
    folder.done.unlink()
    with monkeypatch.context() as patched:
        patched.setattr("repro.runs.train.fit", _broken)
        assert execute(locate(compose_run(tiny))).status == "failed"
    assert folder.read_training() == {}
    assert folder.read_history()  # of the training before
    assert len(executed(compose_run(tiny)).read_history()) == 2


def test_history_is_one_row_for_each_epoch_after_an_interruption(tiny, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr("repro.runs.train.evaluate_best", _broken)
        assert execute(locate(compose_run(tiny))).status == "failed"
    lines = executed(compose_run(tiny)).history.read_text().splitlines()
    assert [json.loads(line)["epoch"] for line in lines] == [1, 2]


def test_an_ensemble_of_members_that_are_not_done_is_refused():
    done, failed = (
        SimpleNamespace(run_id=name, folder=SimpleNamespace(status=name))
        for name in ("done", "failed")
    )
    with pytest.raises(ValueError, match=r": failed$"):
        evaluate_ensemble([done, failed], "command")  # type: ignore[list-item]


@pytest.mark.parametrize("done", [False, True])
def test_a_process_that_died_after_the_end_of_its_run_did_not_fail_it(tmp_path, done):
    run = Job(compose_run([]), CorpusIdentity("made-up", "f"), RunFolder(tmp_path / "run"))
    run.folder.mark_running()
    if done:
        run.folder.mark_done({})
    expected = ("done", "") if done else ("failed", "killed")
    outcome = record_death(run, "killed")
    assert (outcome.status, outcome.error) == expected
    assert run.folder.status == outcome.status


def test_an_ensemble_of_damaged_weights_fails(tiny):
    member = locate(compose_run(tiny))
    assert execute(member).status == "done"
    weights = member.folder.model.read_bytes()
    member.folder.model.write_bytes(weights[:-1] + bytes([weights[-1] ^ 1]))
    outcome = evaluate_ensemble([member], "command")
    assert outcome.status == "failed"
    assert re.match(r"DamagedFileError: .*model\.safetensors", outcome.error)
    folder = RunFolder(outcome.folder)
    assert (folder.status, folder.error) == ("failed", outcome.error)
    member.folder.model.write_bytes(weights)
    assert evaluate_ensemble([member], "command").status == "done"
    assert evaluate_ensemble([member], "command").status == "skipped"
    assert not folder.traceback.exists()


def test_the_numbers_of_the_record_that_counts_are_printed(tiny, tmp_path, capsys):
    """As in tables: one of another machine may have finished later."""
    run = executed(compose_run(tiny))
    own, metric = run.read_record(), "test/levenshtein"
    later = replace(own, finished="2099-01-01T00:00:00+00:00", metrics=own.metrics | {metric: 7.0})
    path = record_path(tmp_path, "demo", run.run_id)
    path.write_text(later.to_json(), encoding="utf-8")
    capsys.readouterr()
    assert main(["run", *tiny]) == 0
    assert re.search(rf"^{metric} +7\.0000$", capsys.readouterr().out, re.MULTILINE)
