from collections.abc import Callable
from pathlib import Path

import pytest

from repro.results import Record, ResultsError, all_records, load, publish
from repro.results.frame import pivoted, selected, varying

Make = Callable[..., Record]


@pytest.fixture
def results(tmp_path: Path, make_record: Make) -> Path:
    for alpha in (1.0, 1.5):
        for seed in (1, 2):
            config = {"mapping": {"name": "entmax", "alpha": alpha}, "seed": seed}
            metrics = {"test/accuracy": 10 * alpha + seed, "dev/loss": 1.0}
            name = f"{alpha:g}-{seed}"
            record = make_record(run_id=name, seed=seed, config=config, metrics=metrics)
            publish(tmp_path, record)
    publish(tmp_path, make_record(run_id="full", scale="full"))
    return tmp_path


def test_each_run_is_a_row_with_settings_metrics_and_provenance(results):
    frame = load(results, "demo")
    assert len(frame) == 4
    assert len(load(results)) == 5
    row = frame[frame.run_id == "1.5-2"].iloc[0]
    assert (row["mapping.alpha"], row["seed"], row["test/accuracy"]) == (1.5, 2, 17.0)
    assert row["commit"] == "abc1234"
    for place in ((results / "nothing",), (results, "dmeo")):
        with pytest.raises(ResultsError, match="there is no such folder of results"):
            load(*place)


def test_ensembles_and_repeated_runs_do_not_count_twice(tmp_path, make_record):
    same = {"fingerprint": "f", "config": {"mapping": {"alpha": 1.0}, "seed": 1}, "seed": 1}
    for name, ended, others in (
        ("first", "2026-01-01", {}),
        ("again", "2026-01-02", {}),
        ("changed", "2026-01-01", {"fingerprint": "g"}),
        ("both", "2026-01-03", {"kind": "ensemble", "members": ["again", "other"]}),
    ):
        publish(tmp_path, make_record(run_id=name, **(same | {"finished": ended} | others)))
    assert sorted(load(tmp_path).run_id) == ["again", "changed"]
    assert sorted(load(tmp_path, ensembles=True).run_id) == ["again", "both", "changed"]


def test_filters_select_and_varying_settings_are_found(results):
    frame = load(results, "demo")
    some = selected(frame, ["mapping=entmax", "mapping.alpha=1", "seed=1,2"])
    assert sorted(some.run_id) == ["1-1", "1-2"]
    records = all_records(results)
    demo = [one for one in records if one.scale == "demo"]
    assert varying(records) == ["scale", "mapping.alpha", "seed"]
    assert varying(demo) == ["mapping.alpha", "seed"]
    assert varying([one for one in demo if one.run_id in {*some.run_id}]) == ["seed"]
    for wrong, message in (("mapping.beta=1", "no run has a setting"), ("seed", "KEY=VALUE")):
        with pytest.raises(ResultsError, match=message):
            selected(frame, [wrong])


def test_filters_compare_numbers_and_take_null(tmp_path, make_record):
    for name, value in (("a", None), ("b", 0.001), ("c", 2)):
        publish(tmp_path, make_record(run_id=name, config={"training": {"rate": value}}))
    frame = load(tmp_path)
    for typed, expected in (("1e-3", ["b"]), ("2.0", ["c"]), ("null,0.0010", ["a", "b"])):
        assert [*selected(frame, [f"training.rate={typed}"]).run_id] == expected


def test_a_run_without_a_group_does_not_hide_the_choices_of_others(results, make_record):
    config = {"mapping": None, "seed": 1}
    publish(results, make_record(run_id="parser", seed=1, config=config))
    frame = load(results, "demo")
    assert len(selected(frame, ["mapping=entmax"])) == 4
    nothing = selected(frame, ["mapping=softmax", "seed=1"])
    assert nothing.empty
    assert [*nothing.columns] == [*frame.columns]


@pytest.mark.parametrize(
    "text",
    [
        "task.languages=[velisk,drovan]", "task.languages=[drovan, velisk]", "data.generated=True",
        "training.learning_rate=1e-3,7", "data.folder=own", "run_id=123e4567",
        "seed=1.0", "mapping=null,softmax", "corpus=sigmorphon: two", "seed=2,1",
    ],
)  # fmt: skip
def test_filters_are_read_as_settings_are_typed(text, tmp_path, make_record):
    config = {
        "task": {"name": "morphology", "languages": ["drovan", "velisk"]},
        "data": {"generated": True, "folder": "own"},
        "training": {"learning_rate": 0.001},
        "mapping": {"name": "softmax"},
    }
    other = {"task": {"name": "nmt"}, "data": {"generated": False}, "mapping": {"name": "entmax"}}
    publish(
        tmp_path, make_record(run_id="123e4567", seed=1, config=config, corpus="sigmorphon: two")
    )
    publish(tmp_path, make_record(run_id="223e4567", seed=3, config=other))
    assert [*selected(load(tmp_path), [text]).run_id] == ["123e4567"]


def test_a_pivot_aggregates_over_the_other_settings(results):
    table = pivoted(load(results, "demo"), ["mapping", "mapping.alpha"], "test/accuracy")
    assert list(table.columns) == ["mapping.name", "mapping.alpha", "test/accuracy", "std", "count"]
    assert table["test/accuracy"].tolist() == [11.5, 16.5]
    assert table["count"].tolist() == [2, 2]
    with pytest.raises(ResultsError, match="no run has 'test/bleu'"):
        pivoted(load(results), ["seed"], "test/bleu")
    with pytest.raises(ResultsError, match="test/accuracy is averaged"):
        pivoted(load(results), ["seed", "test/accuracy"], "test/accuracy")


def test_a_setting_that_a_run_lacks_is_a_difference_from_runs_of_the_same_choice(make_record):
    without = make_record(config={"mapping": {"name": "softmax"}, "training": {"patience": 2}})
    other = make_record(
        config={"mapping": {"name": "fusedmax", "gamma": 1.0}, "training": {"patience": None}}
    )
    assert varying([without, other]) == ["mapping.name", "training.patience"]
    same = make_record(
        config={"mapping": {"name": "softmax", "gamma": 1.0}, "training": {"patience": 2}}
    )
    assert varying([without, same]) == ["mapping.gamma"]


def test_a_pivot_keeps_scales_and_corpora_apart_and_drops_runs_without_the_metric(
    results, make_record
):
    publish(results, make_record(run_id="other", seed=9, metrics={"dev/loss": 1.0}, scale="full"))
    publish(results, make_record(run_id="two", corpus="sigmorphon2018", scale="full"))
    table = pivoted(load(results), ["mapping.alpha"], "test/accuracy")
    assert table[["scale", "corpus", "mapping.alpha", "count"]].to_numpy().tolist() == [
        ["demo", "demo-inflection", 1.0, 2],
        ["demo", "demo-inflection", 1.5, 2],
        ["full", "demo-inflection", 1.5, 1],
        ["full", "sigmorphon2018", 1.5, 1],
    ]
