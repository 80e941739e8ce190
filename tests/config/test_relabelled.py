"""Overrides of a reproduction change no setting that a label states."""

import pytest
from measured import made_up_table

from repro.atomic import atomic_write_text
from repro.config import ConfigError
from repro.config.experiment import Axis, Column, ScalePlan, load_experiment
from repro.config.planning import plan_runs, refuse_relabelled


def refuse(name: str, *extra: str, scale: str = "demo", columns: tuple[str, ...] = ()) -> None:
    experiment = load_experiment(name)
    runs = [one for one in plan_runs(experiment, scale) if one.column in (columns or [one.column])]
    refuse_relabelled(experiment, scale, runs, extra)


@pytest.mark.parametrize(
    ("name", "text", "place"),
    [
        ("peters2019/table1", "loss.alpha=2", "rows"),  # equal in some rows, not in all
        ("peters2019/figure5", "loss.alpha=2", "rows"),
        ("niculae2018/table1", "loss=crf", "rows"),
        ("malaviya2018/table1", "model.coverage_vector=true", "rows"),  # other rows leave it
        ("peters2019/table1", "task.setting=medium", "columns; choose --columns"),
        ("peters2019/table2", "data.source=orun", "columns; choose --columns"),
        ("niculae2018/table1", "training.learning_rate=0.5", "tuning"),
        ("niculae2018/table1", "training.learning_rate=0.005", "tuning"),
        ("peters2019/table1", "seed=7", "itself"),
        ("peters2019/table1", "seed=1", "itself"),
        ("peters2019/table1", "++seed=1", "itself"),
        ("malaviya2018/table2", "model.fertility.strategy=constant", "rows"),
        ("malaviya2018/table2", "model.fertility={strategy: constant, epochs: 1}", "rows"),
        ("malaviya2018/table2", "model.fertility=null", "rows"),
        ("peters2019/table2", "data=null", "columns"),
        ("malaviya2018/table2", "+model.fertility={value: 2}", "rows"),
    ],
)
def test_what_labels_state_is_refused(name, text, place):
    key = text.partition("=")[0].lstrip("+")
    with pytest.raises(ConfigError) as refused:
        refuse(name, "hardware=cpu", text)
    assert str(refused.value).startswith(f"{text}: {name} sets {key}")
    assert place in str(refused.value)


def test_a_name_of_a_sweep_is_refused():
    with pytest.raises(ConfigError, match="name=mine names a sweep, which artefacts are not"):
        refuse("peters2019/table1", "name=mine")


@pytest.mark.parametrize("command", ["plan", "reproduce"])
def test_a_file_whose_values_those_of_the_artefact_replace_is_refused(
    command, tmp_path, monkeypatch, refused
):
    file = tmp_path / "conf" / "experiment" / "mine.yaml"
    # Nothing is composed: it would be refused for its content.
    atomic_write_text(file, "# @package _global_\ntraining: {max_epochs: three}\n")
    monkeypatch.setenv("REPRO_EXTENSIONS", str(tmp_path))
    results = tmp_path / "results"
    for text in ("+experiment=mine", "+experiment@_global_=mine", "experiment=no"):
        assert refused(command, "peters2019/table1", text, f"results_dir={results}").startswith(
            f"{text}: the values of an artefact win over those of a file"
        )
    assert not results.exists()


def test_a_chosen_column_keeps_its_setting():
    medium = ("medium (avg.)", "medium (ens.)")
    refuse("peters2019/table1", "task.setting=medium", columns=medium)
    with pytest.raises(ConfigError, match=r"^task\.setting=high: "):
        refuse("peters2019/table1", "task.setting=high", columns=medium)
    length = "training.max_steps=10"
    refuse("peters2019/table2", length, scale="full", columns=("DE→EN",))
    with pytest.raises(ConfigError, match="in its columns"):  # one of RO→EN
        refuse("peters2019/table2", length, scale="full")


def test_a_text_is_compared_as_a_text():
    """The release 2.10 is another than 2.1."""
    column = Column("UD 2.1", "test/uas", ["data.release=2.1"])
    table = made_up_table(
        base=["task=parsing"],
        rows=[Axis("loss", {"crf": ["loss=crf"]})],
        columns=[column],
        seeds=[1],
        scales={"full": ScalePlan()},
    )
    runs = [*plan_runs(table, "full")]
    refuse_relabelled(table, "full", runs, ["data.release=2.1"])
    with pytest.raises(ConfigError, match=r"^data\.release=2\.10: .* in its columns"):
        refuse_relabelled(table, "full", runs, ["data.release=2.10"])


def test_seeds_that_a_tuned_cell_runs_later_count():
    with pytest.raises(ConfigError, match=r"^seed=1: "):
        refuse("niculae2018/table2", "seed=1", scale="small")
    refuse("niculae2018/table2", "seed=1", "training.learning_rate=6e-3")  # all that demo runs


def test_what_all_runs_state_and_what_base_and_scale_state_is_allowed():
    refuse("peters2019/figure5", "loss.alpha=1.50", "mapping.alpha=1.5", "seed=1", "seed=1")
    refuse("peters2019/table1", "hardware=cpu", "data_dir=data", "training.max_epochs=2")
    refuse("peters2019/table1", "loss=entmax", "mapping=entmax", "task=morphology")  # of the base
    refuse("peters2019/table1", "model=morphology", "hardware=cpu")  # no label states a key of them
    refuse("niculae2018/table1", "training=opennmt")  # keeps the rate that is tuned
    refuse("peters2019/table2", "data=translation")  # and the languages of the columns
    refuse("peters2019/section4_1", "task.languages=[english]", scale="small")
    # Rows and columns with further settings of the scale.
    refuse("peters2019/table1", "training.learning_rate=0.01", scale="small")
    refuse("niculae2018/table1", "training.max_epochs=1", scale="small")


def test_a_figure_of_the_library_has_no_labels():
    refuse("peters2019/figure3", "seed=7")


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("loss.alpha=1.5", "loss.alpha"),
        ("mapping=softmax", "mapping.alpha"),  # a choice without the key that a label states
        ("task=nmt", "task.setting"),
    ],
)
@pytest.mark.parametrize("command", ["plan", "reproduce"])
def test_commands_refuse_before_any_work(command, text, key, tmp_path, refused):
    results = tmp_path / "results"
    artefacts = ["peters2019/figure3", "peters2019/table1"]
    line = refused(command, *artefacts, text, f"results_dir={results}")
    assert line.startswith(f"{text}: peters2019/table1 sets {key} in its ")
    assert not results.exists()
