import re
from pathlib import Path

import pytest

from repro.config import ConfigError, experiment
from repro.config.experiment import list_experiments, load_experiment
from repro.config.planning import plan_runs

MINIMAL = """
kind: table
title: "t"
place: "p"
base: [task=morphology]
seeds: [1, 2]
rows: [{name: a, values: {"x": [loss.alpha=1], "y": [loss.alpha=2]}}]
columns: [{name: k, values: {c: [metric=test/accuracy]}}]
published: {source: s, rows: {"x": {c: 1.0}}}
scales: {demo: {}, small: {seeds: [7], overrides: [decoding.beam_size=2]}}
"""
COMPUTED = """
kind: figure
title: "t"
place: "p"
drawing: {name: d}
scales: {demo: {}, full: {}}
"""
TUNED = MINIMAL + "tune: {key: training.learning_rate, values: [2, 1], metric: dev/accuracy}\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "paper").mkdir()
    monkeypatch.setattr(experiment, "experiments_dirs", lambda: [tmp_path])
    return tmp_path / "paper"


def test_runs_are_the_product_of_rows_columns_and_seeds_of_the_scale(folder):
    (folder / "table9.yaml").write_text(MINIMAL)
    table = load_experiment("paper/table9")
    demo, small = (list(plan_runs(table, scale)) for scale in ("demo", "small"))
    assert [(run.row, run.seed) for run in demo] == [("x", 1), ("x", 2), ("y", 1), ("y", 2)]
    assert demo[2].overrides == ("task=morphology", "scale=demo", "loss.alpha=2", "seed=1")
    assert [run.seed for run in small] == [7, 7]
    assert "decoding.beam_size=2" in small[0].overrides


ONCE = "; expected each seed once"
WRONG = {
    MINIMAL: [
        ("kind: table", "kind: chart", "expected 'table' or 'figure'"),
        ("kind: table", "kind: figure", "needs a 'drawing'"),
        ('"x": {c: 1.0}', '"x": {d: 1.0}', "names ['d'], no columns"),
        ('"x": {c: 1.0}', '"x": {c: many}', "['c'] are not numbers"),
        ('"x": {c: 1.0}', '"z": {c: 1.0}', "are not rows"),
        ("metric=test/accuracy", "aggregate=ensemble", "column 'c' needs metric=SPLIT/NAME"),
        ("/accuracy", "/accuracy, aggregate=all", "aggregate is one of mean, ensemble"),
        ("/accuracy", "/accuracy, relative_to=z", "relative_to of ['c']"),
        ("title:", "titel:", "titel"),
        ("seeds: [1, 2]", "seeds: [1]\nbaseline: z", "baseline 'z' is not a row"),
        ("seeds: [1, 2]", "seeds: [one]", "'seeds'[0] is 'one'"),
        ("seeds: [1, 2]", "seeds: [1]\nseeds: [2]", "seeds"),
        ("seeds: [1, 2]", "seeds: [1, 1]", f"yaml: seeds is [1, 1]{ONCE}"),
        ("seeds: [1, 2]", "", "' is missing or empty"),
        ("columns: [{name: k, values: {c: [metric=test/accuracy]}}]", "", "' is missing or empty"),
        ('"x": [loss', "1: [loss", "a key of field 'rows'[0].values is 1"),
        ("seeds: [7]", "seed: [7]", "unknown key 'seed'"),
        ("seeds: [7]", "columns: {d: []}", "unknown columns ['d']"),
        ("seeds: [7]", "rows: {x: [], z: []}", "unknown ones: ['z']"),
        ("seeds: [7]", "rows: {}", "names no rows"),
        ("seeds: [7]", "seeds: [7, 7]", f"scale 'small' seeds is [7, 7]{ONCE}"),
        ("seeds: [7]", "column_seeds: {c: [2, 1, 2]}", f"column_seeds['c'] is [2, 1, 2]{ONCE}"),
        ("seeds: [7]", "tuned: [1]", "has 'tuned', but the experiment has no"),
        ("seeds: [7]", "rows: {x: [name=foo]}", "scale 'small': name=foo names a sweep"),
        ("seeds: [7]", "columns: {c: [name=foo]}", "scale 'small': name=foo names a sweep"),
        ("kind:", "departures: [{reason: r, rows: [z]}]\nkind:", "'z'"),
        ("kind:", "departures: [{reason: r, columns: [z]}]\nkind:", "'z'"),
        ("kind:", f"departures: [{', '.join(['{reason: r}'] * 9)}]\nkind:", "more than 8"),
        ("kind:", "omit: [nowhere]\nkind:", "omit names unknown columns ['nowhere']"),
    ],
    TUNED: [
        ("seeds: [7]", "tuned: []", "has 'tuned', but it is empty"),
        ("[2, 1]", "[]", "tune.values is empty"),
        ("[2, 1]", "[2, 1], rows: [z]", "tune.rows names ['z']"),
        ("[2, 1]", "[2, 1], grid_factor: 1", "takes a factor > 1"),
        ("[2, 1]", "[2, -1], grid_factor: 2", "takes a factor > 1, and values > 0"),
        ("/accuracy", "/accuracy, aggregate=ensemble", "no columns 'aggregate: ensemble'"),
    ],
    COMPUTED: [
        ("kind:", "seeds: [1]\nkind:", "' is missing or empty"),
        ("kind:", "base: [task=morphology]\nkind:", "' is missing or empty"),
        (
            "kind:",
            "columns: [{name: k, values: {c: [metric=a/b]}}]\nkind:",
            "' is missing or empty",
        ),
        ("demo: {}", "demo: {seeds: [1]}", "' is missing or empty"),
        ("demo: {}", "demo: {overrides: [a=b]}", "' is missing or empty"),
    ],
}


@pytest.mark.parametrize(
    ("text", "old", "new", "expected"),
    [(text, *case) for text, cases in WRONG.items() for case in cases],
)
def test_a_wrong_file_is_refused_by_name(folder, text, old, new, expected):
    path = folder / "table9.yaml"
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(ConfigError) as caught:
        load_experiment("paper/table9")
    assert str(caught.value).startswith(f"{path}:")
    assert expected in str(caught.value)


STATED = {
    "base": ("[task=morphology]", "[task=morphology, {}]"),
    "row 'x'": ('"x": [loss.alpha=1]', '"x": [loss.alpha=1, {}]'),
    "column 'c'": ("[metric=test/accuracy]", "[metric=test/accuracy, {}]"),
    "scale 'small'": ("[decoding.beam_size=2]", "[{}]"),
}
LEFT_OUT = {
    "'hydra.searchpath=[/tmp]'": " is not read for artefacts; use REPRO_EXTENSIONS",
    "hydra/launcher=slurm": " has no effect here; type `repro reproduce ARTEFACT hydra/launcher=sl",
    "+hydra.launcher.time=3": " has no effect here; type `repro reproduce ARTEFACT +hydra.launcher",
    "hydra.sweeper.dry_run=true": " changes nothing in an artefact; leave it out",
    "hydra.job.num=3": " changes nothing in an artefact; leave it out",
    "seed=3": " has no effect; expected it in `seeds`",
    "scale=small": " has no effect; expected it in `scales`",
    "name=foo": " names a sweep, which artefacts are not; leave it out",
}


@pytest.mark.parametrize("place", STATED)
@pytest.mark.parametrize(("override", "expected"), LEFT_OUT.items())
def test_a_setting_of_hydra_or_a_name_is_refused_where_it_stands(folder, place, override, expected):
    old, new = STATED[place]
    path = folder / "table9.yaml"
    path.write_text(MINIMAL.replace(old, new.format(override)))
    with pytest.raises(ConfigError) as caught:
        load_experiment("paper/table9")
    stated = override.strip("'")
    assert str(caught.value).startswith(f"{path}: {place}: {stated}{expected}")


@pytest.mark.parametrize("override", ["hardware=cuda", "data_dir=/elsewhere", "logger=csv"])
@pytest.mark.parametrize("place", [*STATED, "rows", "columns"])
def test_cells_differ_by_what_identifies_a_run(folder, place, override):
    text = MINIMAL.replace("demo: {}", f"demo: {{{place}: {{{place[0]}: [{override}]}}}}")
    if place in STATED:
        old, new = STATED[place]
        text = MINIMAL.replace(old, new.format(override))
    else:
        text = text.replace("{r:", "{x:")
    (folder / "table9.yaml").write_text(text)
    if place in ("base", "scale 'small'"):  # of every run
        assert load_experiment("paper/table9").artefact == "table9"
    else:
        with pytest.raises(ConfigError, match=f"{override} is no part of what identifies a run"):
            load_experiment("paper/table9")


def test_a_figure_of_the_library_plans_no_runs(folder):
    (folder / "figure9.yaml").write_text(COMPUTED)
    found = load_experiment("paper/figure9")
    assert found.computed
    assert list(plan_runs(found, "full")) == []
    with pytest.raises(ConfigError, match="it has demo, full"):
        list(plan_runs(found, "small"))
    (folder / "table9.yaml").write_text(MINIMAL)
    assert not load_experiment("paper/table9").computed


def test_an_unknown_artefact_or_scale_is_refused_with_the_choices(folder):
    (folder / "table9.yaml").write_text(MINIMAL)
    with pytest.raises(ConfigError, match="choose from: paper/table9"):
        load_experiment("paper/table8")
    with pytest.raises(ConfigError, match="it has demo, small"):
        list(plan_runs(load_experiment("paper/table9"), "full"))


def test_published_values_of_table_1_have_all_rows():
    table = load_experiment("peters2019/table1")
    assert set(table.published.rows) == set(table.row_labels())
    assert len(list(plan_runs(table, "full"))) == 9 * 4 * 3


def test_artefacts_are_listed_as_one_reads_them(folder):
    for name in ("figure10", "figure9", "appendix_b", "table2", "table1"):
        (folder / f"{name}.yaml").write_text(MINIMAL)
    order = ["table1", "table2", "figure9", "figure10", "appendix_b"]
    assert list_experiments() == [f"paper/{name}" for name in order]


def test_a_scale_has_its_own_columns_and_grid(folder):
    small = "small: {tuned: [4], columns: {c: [decoding.beam_size=2]}}"
    (folder / "table9.yaml").write_text(re.sub(r"small: \{.*\}\}", small + "}", TUNED))
    found = load_experiment("paper/table9")
    demo = [(run.seed, run.value) for run in plan_runs(found, "demo") if run.row == "x"]
    assert demo == [(1, 1.0), (1, 2.0)]
    (run, _) = plan_runs(found, "small")
    assert run.overrides[-4:] == (
        "loss.alpha=1", "decoding.beam_size=2", "training.learning_rate=4", "seed=1",
    )  # fmt: skip


def test_a_scale_has_its_own_rows(folder):
    rows = "rows: {'[y]': [training.learning_rate=1], '*': [training.batch_size=3]}"
    (folder / "table9.yaml").write_text(MINIMAL.replace("seeds: [7]", rows.replace("*", "z*|y")))
    with pytest.raises(ConfigError, match="z"):
        load_experiment("paper/table9")
    (folder / "table9.yaml").write_text(MINIMAL.replace("seeds: [7]", rows.replace("*", "y*")))
    found = load_experiment("paper/table9")
    small = list(plan_runs(found, "small"))
    assert [run.row for run in small] == ["y"] * len(found.seeds)
    assert {"training.learning_rate=1", "training.batch_size=3"} <= {*small[0].overrides}
    assert {run.row for run in plan_runs(found, "demo")} == {"x", "y"}
    assert (found.rows_at("small"), found.rows_at("demo")) == (["y"], ["x", "y"])


def test_columns_are_a_product_whose_overrides_are_written_once(folder):
    columns = """columns:
  - {name: corpus, values: {A: [data.seed=1, metric=test/], B: [data.seed=2, metric=dev/]}}
  - {name: score, values: {acc: [metric=accuracy], ens: [metric=accuracy, aggregate=ensemble]}}
omit: [B ens]
published: {source: s, rows: {x: {A: {acc: 1.5, ens: 2}, B: {acc: 3}}}}
"""
    text = re.sub(r"columns: .*\npublished: .*\n", columns, MINIMAL)
    small = "small: {columns: {A: [data.seed=7]}, omit: [ens]}"
    (folder / "table9.yaml").write_text(re.sub(r"small: \{.*\}\}", small + "}", text))
    found = load_experiment("paper/table9")
    assert [(one.name, one.metric, one.aggregate, one.overrides) for one in found.columns] == [
        ("A acc", "test/accuracy", "mean", ["data.seed=1"]),
        ("A ens", "test/accuracy", "ensemble", ["data.seed=1"]),
        ("B acc", "dev/accuracy", "mean", ["data.seed=2"]),
    ]
    assert found.published.rows == {"x": {"A acc": 1.5, "A ens": 2, "B acc": 3}}
    (column,) = found.columns_at("small")
    assert (column.name, column.overrides) == ("A acc", ["data.seed=1", "data.seed=7"])


def test_files_of_other_tasks_are_left_out_but_none_that_plans_a_run_of_the_task():
    planned: dict[str, set[str]] = {}
    for name in list_experiments():
        one = load_experiment(name)
        for run in (run for scale in one.scales if one.columns for run in plan_runs(one, scale)):
            (task,) = {item for item in run.overrides if item.startswith("task=")}
            planned.setdefault(task.removeprefix("task="), set()).add(name)
    assert len(planned) > 1
    for task, names in planned.items():
        assert names <= {*list_experiments(task)} < {*list_experiments()}


def test_a_file_without_a_task_may_run_the_default(folder):
    (folder / "table1.yaml").write_text(MINIMAL.replace("task=morphology", "scale=demo"))
    (folder / "table2.yaml").write_text(MINIMAL.replace("task=morphology", "task=nmt"))
    assert list_experiments("morphology") == ["paper/table1"]
