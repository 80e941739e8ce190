import json
import logging
import math
import shutil
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from repro.checksums import DamagedFileError
from repro.results import (
    Archive,
    Record,
    ResultsError,
    publish,
    read_record,
    read_records,
    record_path,
    run_folder,
)
from repro.results.layout import statistics_path
from repro.results.record import REPLACED
from repro.results.store import publish_again
from repro.runs.doctor import findings

Make = Callable[..., Record]


def test_records_round_trip(tmp_path, make_record):
    run = make_record()
    ensemble = make_record(run_id="ee", kind="ensemble", seed=None, members=["b", "a"])
    paths = [publish(tmp_path, one) for one in (run, ensemble)]
    assert [read_record(path) for path in paths] == [run, ensemble]
    assert read_records(tmp_path, "demo") == [run, ensemble]
    assert read_records(tmp_path, "full") == []
    before = paths[0].read_bytes()
    publish(tmp_path, run)
    assert paths[0].read_bytes() == before


@pytest.mark.parametrize(
    ("changes", "differs"),
    [
        ({"commit": "fedcba9"}, "commit"),
        ({"device": "cuda", "metrics": {"test/accuracy": 94.0}}, "device, metrics"),
        ({"metrics": {"test/accuracy": 94.25, "train/tokens_per_second": 2.0}}, None),
        ({"wall_time": 1.0, "finished": ""}, None),
    ],
)
def test_a_record_that_is_replaced_by_another_is_named(
    changes, differs, tmp_path, make_record, caplog
):
    metrics = {"test/accuracy": 94.25, "train/tokens_per_second": 1.0}
    first = make_record(metrics=metrics, signatures=dict.fromkeys(metrics, ""))
    second = replace(first, **changes)
    path = publish(tmp_path, first)
    assert publish(tmp_path, second) == path
    assert read_record(path) == second
    warned = [
        f"{path}: the record of commit {first.commit} is replaced by one of commit "
        f"{second.commit}; other {differs}"
    ]
    assert caplog.messages == (warned if differs else [])


def test_settings_and_overrides_are_those_of_the_run(make_record):
    record = make_record()
    assert record.settings == {
        "task.name": "morphology", "mapping.name": "entmax", "mapping.alpha": 1.5, "seed": 1,
    }  # fmt: skip
    assert record.overrides == ["mapping.alpha=1.5", 'data.release="2.0"', "seed=1"]
    assert make_record(command="repro reproduce peters2019/table1").overrides == []


@pytest.mark.parametrize(
    ("metric", "value", "diverged"),
    [
        ("dev/tree_loss", 229.9, False),
        ("dev/loss", 3.8e31, True),
        ("dev/label_loss", 1e4, True),
        ("train/tokens_per_second", 1e4, False),
    ],
)
def test_a_run_with_a_huge_validation_loss_has_diverged(make_record, metric, value, diverged):
    record = make_record(metrics={metric: value}, signatures={metric: ""})
    assert record.diverged is diverged


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seed": "1"}, "field 'seed' is '1'; expected an integer or null"),
        ({"seed": True}, "field 'seed' is True"),
        ({"config": []}, "field 'config' is"),
        ({"corpus": None}, "field 'corpus' is None; expected a text"),
        ({"run_id": ""}, "field 'run_id' is ''"),
        ({"run_id": ".."}, "field 'run_id' is '..'"),
        ({"run_id": "a/b"}, "field 'run_id' is 'a/b'"),
        ({"kind": "walk"}, "field 'kind' is 'walk'"),
        ({"metrics": {"test/accuracy": math.nan}}, r"'metrics'\['test/accuracy'\] is nan"),
        ({"metrics": {"test/accuracy": "many"}}, r"'metrics'\['test/accuracy'\] is 'many'"),
        ({"signatures": {}}, "field 'signatures' lacks test/accuracy"),
        ({"wall_time": -1.0}, "field 'wall_time' is -1.0; expected at least 0"),
    ],
)
def test_bad_values_are_refused(make_record, changes, message):
    with pytest.raises(ResultsError, match=message):
        make_record(**changes)


def test_bad_files_are_named(tmp_path, make_record):
    path = publish(tmp_path, make_record())
    good = json.loads(path.read_text())
    for text, error, message in [
        ("{oops}", ResultsError, "not JSON"),
        ("[" * 100_000, ResultsError, "not JSON"),
        ("[1]", ResultsError, "expected an object, found list"),
        (json.dumps({**good, "more": 1}), ResultsError, "unknown key 'more'"),
        (json.dumps({**good, "seed": "one"}), ResultsError, "field 'seed' is 'one'"),
        (json.dumps({**good, "seed": 2}), DamagedFileError, "differs from the checksum in it"),
    ]:
        path.write_text(text)
        with pytest.raises(error, match=rf"{path.name}.*{message}"):
            read_record(path)
    path.unlink()
    with pytest.raises(ResultsError, match="no such file"):
        read_record(path)


def test_damaged_records_are_left_out_unless_their_run_is_there(tmp_path, make_record, caplog):
    for name in ("aa", "bb"):
        publish(tmp_path, make_record(run_id=name))
    path = record_path(tmp_path, "demo", "aa")
    whole = path.read_text()
    for text in (
        whole.replace("94.25", "95.25"),
        whole.replace("94.25", "NaN"),
        whole[: len(whole) // 2],
        whole.replace("{", '{"of a later version": 1,', 1),
        "",
    ):
        path.write_text(text)
        with caplog.at_level(logging.WARNING):
            assert [one.run_id for one in read_records(tmp_path, "demo")] == ["bb"]
        (warning,) = caplog.messages
        assert str(path) in warning
        caplog.clear()
    (refused,) = Archive(tmp_path, "demo").left_out
    assert refused.startswith("records/aa.json: not JSON")
    caplog.clear()
    folder = run_folder(tmp_path, "demo", "aa")
    folder.write_record(make_record(run_id="aa"))
    folder.mark_done({})
    assert [one.run_id for one in read_records(tmp_path, "demo")] == ["aa", "bb"]
    assert str(path) in caplog.text
    assert Archive(tmp_path, "demo").left_out == ()


def test_a_record_in_the_place_of_another_is_left_out(tmp_path, make_record, caplog):
    publish(tmp_path, make_record(run_id="aa"))
    path = record_path(tmp_path, "demo", "aa")
    places = {record_path(tmp_path, "small", "aa"): [], record_path(tmp_path, "demo", "bb"): ["aa"]}
    for other, left in places.items():
        other.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, other)
        scale = other.parent.parent.name
        assert [one.run_id for one in read_records(tmp_path, scale)] == left
        assert f"{other} is the record of demo/aa; expected that of {scale}/" in caplog.text
        other.unlink()
    assert [one.run_id for one in read_records(tmp_path, "demo")] == ["aa"]


def test_a_run_is_published_again_with_its_statistics(tmp_path, make_record):
    folder = run_folder(tmp_path, "demo", "aa")
    folder.write_record(make_record(run_id="aa"))
    folder.write_statistics({"test/accuracy": np.ones((3, 2))})
    folder.mark_done({})
    publish(tmp_path, folder.read_record())
    kept = statistics_path(tmp_path, "demo", "aa")
    for harm in (kept.unlink, lambda: kept.write_bytes(b"1")):
        harm()
        publish_again(folder)
        assert kept.read_bytes() == folder.statistics.read_bytes()


def test_a_finished_run_counts_without_a_published_record(tmp_path, make_record):
    for name, done in (("aa", True), ("bb", False)):
        folder = run_folder(tmp_path, "demo", name)
        folder.write_record(make_record(run_id=name))
        if done:
            folder.mark_done({})
    assert [one.run_id for one in read_records(tmp_path, "demo")] == ["aa"]
    shutil.rmtree(tmp_path / "demo" / "runs")
    assert read_records(tmp_path, "demo") == []


def test_the_doctor_names_runs_without_their_kernels(tmp_path, make_record):
    assert {one.status for one in findings(tmp_path, tmp_path) if one.name == "kernels"} == {"ok"}
    publish(tmp_path, make_record(run_id="ab12", device=f"cuda (x), {REPLACED} entmax_forward"))
    (found,) = [one for one in findings(tmp_path, tmp_path) if one.status == "broken"]
    assert found.name == "kernels"
    assert "ab12" in found.text
