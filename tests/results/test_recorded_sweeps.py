import json
import shlex

import pytest

from repro.results import ResultsError
from repro.results.sweeps import read_sweeps, refuse_other_runs, swept, write_sweep

RUNS = [
    ["task=nmt", f"mapping.alpha={alpha}", f"seed={seed}", "results_dir=x"]
    for alpha in ("1", "1.5")
    for seed in ("1", "2")
]


def test_a_sweep_knows_its_axes_and_runs(tmp_path):
    sweep = swept(RUNS, ["a", "b", "c", "d"], "demo", None)
    assert sweep.axes == {"mapping.alpha": ["1", "1.5"], "seed": ["1", "2"]}
    assert sweep.keys == ["mapping.alpha"]
    assert sweep.runs["c"] == {"mapping.alpha": "1.5", "seed": "1"}
    assert sweep.command == "repro run -m task=nmt mapping.alpha=1,1.5 seed=1,2"
    spaced = swept(
        [["task.shown=[a b]", f"seed={seed}"] for seed in (1, 2)], ["a", "b"], "demo", "s"
    )
    assert shlex.split(spaced.command)[3:] == ["task.shown=[a b]", "seed=1,2", "name=s"]
    write_sweep(tmp_path, sweep)
    assert read_sweeps(tmp_path, "demo") == [sweep]
    assert read_sweeps(tmp_path, "full") == []


def test_values_that_give_the_same_run_are_one():
    alphas = [["task=nmt", f"mapping.alpha={alpha}"] for alpha in ("1.5", "2", "2.0")]
    sweep = swept(alphas, ["a", "b", "b"], "demo", None)
    assert sweep.axes == {"mapping.alpha": ["1.5", "2"]}
    assert sweep.runs == {"a": {"mapping.alpha": "1.5"}, "b": {"mapping.alpha": "2"}}
    assert sweep.command == "repro run -m task=nmt mapping.alpha=1.5,2,2.0"
    single = swept(alphas[1:], ["b", "b"], "demo", None)
    assert (single.axes, single.runs) == ({}, {"b": {}})


def test_a_dictionary_is_kept_beside_another_of_its_key():
    first, last = "model.fertility={least: 3}", "model.fertility={value: %d}"
    for order in (1, -1):
        runs = [[first, last % value][::order] for value in (4, 5)]
        sweep = swept([["task=nmt", *one] for one in runs], ["a", "b"], "demo", None)
        values = ["{value: 4}", "{value: 5}"]
        assert sweep.axes == {"model.fertility": values}
        assert [one["model.fertility"] for one in sweep.runs.values()] == values
        typed = [first, "model.fertility={value: 4},{value: 5}"][::order]
        assert shlex.split(sweep.command)[4:] == typed


def test_runs_that_no_axis_tells_apart_are_refused():
    with pytest.raises(ResultsError, match="runs a and b of sweep s differ in what no axis has"):
        swept([["task=nmt", "seed=1"]] * 2, ["a", "b"], "demo", "s")


def test_the_same_sweep_has_the_same_name_and_a_given_name_counts(tmp_path):
    again = swept([[*one[::-1]] for one in RUNS], ["a", "b", "c", "d"], "demo", None)
    first = swept(RUNS, ["a", "b", "c", "d"], "demo", None)
    assert again.name == first.name
    assert swept(RUNS[:2], ["a", "b"], "demo", None).name != first.name
    # After a change of a file, the same words give other runs, which replace none.
    assert swept(RUNS, ["a", "b", "c", "e"], "demo", None).name != first.name
    assert swept(RUNS, ["a", "b", "c", "d"], "demo", None) == first
    named = swept([[*one, "name=alphas"] for one in RUNS], ["a", "b", "c", "d"], "demo", "alphas")
    assert (named.name, named.axes) == ("alphas", first.axes)
    assert named.command == f"{first.command} name=alphas"
    elsewhere = [
        swept([[*one, f"hydra.searchpath=['file:///{folder}']", "hydra.verbose=true"]
               for one in RUNS], ["a", "b", "c", "d"], "demo", None)
        for folder in ("one", "two")
    ]  # fmt: skip
    assert len({first.name, *(one.name for one in elsewhere)}) == 3
    assert shlex.split(elsewhere[1].command)[-1] == "hydra.searchpath=['file:///two']"
    write_sweep(tmp_path, named)
    assert [one.name for one in read_sweeps(tmp_path, "demo", "alphas")] == ["alphas"]
    with pytest.raises(ResultsError, match="no sweep 'beta' at demo scale; there are alphas"):
        read_sweeps(tmp_path, "demo", "beta")


def test_a_sweep_replaces_no_runs_of_another_one_of_its_name(tmp_path):
    first = swept(RUNS[:2], ["a", "b"], "demo", "s")
    path = write_sweep(tmp_path, first)
    for runs, names in ((RUNS, "abcd"), (RUNS[:2], "ab")):  # more runs, and the same ones
        refuse_other_runs(tmp_path, swept(runs, names, "demo", "s"))
    for runs, names, lost in (
        (RUNS[1:], "bcd", "1 run (a)"),
        (RUNS[:2], "xy", "2 runs (a, b)"),  # the same command
    ):
        with pytest.raises(ResultsError) as caught:
            refuse_other_runs(tmp_path, swept(runs, names, "demo", "s"))
        assert str(caught.value) == (
            f"name=s: this would drop {lost} of the earlier sweep of this name, {first.command}; "
            f"choose another name, or remove {path}"
        )
    many = [["task=nmt", f"seed={seed}"] for seed in range(6)]
    write_sweep(tmp_path, swept(many, "abcdef", "demo", "many"))
    with pytest.raises(ResultsError, match=r"drop 6 runs \(a, b, c, d, …\) of"):
        refuse_other_runs(tmp_path, swept(many, "uvwxyz", "demo", "many"))
    refuse_other_runs(tmp_path, swept(RUNS[1:], "bcd", "demo", "t"))
    refuse_other_runs(tmp_path, swept(RUNS[1:], "bcd", "full", "s"))


def test_a_sweep_of_other_data_is_another_sweep(tmp_path):
    own = ["data.generated=false", "data.folder=mine"]

    def sweep_of(folder: str, runs: str, name: str | None):  # type: ignore[no-untyped-def]
        typed = [[*own, f"data_dir={folder}", f"seed={seed}"] for seed in (1, 2)]
        return swept(typed, runs, "demo", name)

    first = sweep_of("/A", "ab", "own")
    assert first.command == f"repro run -m {' '.join(own)} data_dir=/A seed=1,2 name=own"
    write_sweep(tmp_path, first)
    with pytest.raises(ResultsError, match=r"drop 2 runs \(a, b\) .* data_dir=/A "):
        refuse_other_runs(tmp_path, sweep_of("/B", "cd", "own"))
    assert sweep_of("/A", "ab", None).name != sweep_of("/B", "cd", None).name
    both = swept([["seed=1", "+data_dir=/A"], ["seed=1", "+data_dir=/B"]], "ac", "demo", None)
    assert both.axes == {"+data_dir": ["/A", "/B"]}


def test_a_sweep_keeps_what_its_overrides_read(monkeypatch):
    typed = [["mapping.alpha=${oc.env:ALPHA}", f"seed={seed}"] for seed in (1, 2)]
    named = []
    for alpha in ("1.25", "1.5"):
        monkeypatch.setenv("ALPHA", alpha)
        sweep = swept(typed, ["a", "b"], "demo", None)
        assert sweep.command == f"repro run -m mapping.alpha={alpha} seed=1,2"
        named.append(sweep.name)
    assert len({*named}) == 2
    monkeypatch.setenv("OTHER", "2")
    both = [[f"mapping.alpha=${{oc.env:{name}}}"] for name in ("ALPHA", "OTHER")]
    assert swept(both, ["a", "b"], "demo", None).axes == {"mapping.alpha": ["1.5", "2"]}


@pytest.mark.parametrize(
    "damage",
    [
        lambda good: "",
        lambda good: "{",
        lambda good: "[]",
        lambda good: '{"name": "x"}',
        lambda good: good | {"axes": list(good["axes"])},
        lambda good: good | {"axes": {"seed": "12"}},
        lambda good: good | {"axes": {"seed": ["1", "1", "2"]}},
        lambda good: good | {"axes": {"seed": ["1"]}},
        lambda good: good | {"runs": {"a": {"seed": "1"}}},
        lambda good: good | {"runs": {"a": {"seed": 1}}},
        lambda good: good | {"name": "../../elsewhere"},
        lambda good: good | {"scale": "full"},
        lambda good: json.dumps(good).replace("repro", "\\ud83d"),
    ],
)
def test_a_malformed_file_is_named_and_hides_no_other_sweep(tmp_path, damage, caplog):
    good = swept(RUNS[:2], ["a", "b"], "demo", "good")
    write_sweep(tmp_path, good)
    path = write_sweep(tmp_path, swept(RUNS, ["a", "b", "c", "d"], "demo", "bad"))
    damaged = damage(json.loads(path.read_text()))
    path.write_text(damaged if isinstance(damaged, str) else json.dumps(damaged))
    with pytest.raises(ResultsError, match=r"bad\.json"):
        read_sweeps(tmp_path, "demo", "bad")
    assert not caplog.messages
    assert read_sweeps(tmp_path, "demo") == read_sweeps(tmp_path, "demo", "good") == [good]
    assert all(one.startswith(str(path)) for one in caplog.messages)
    assert [one.endswith("; left out") for one in caplog.messages] == [True, True]
