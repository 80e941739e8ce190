"""Folders beside the checkout that add settings, experiments and modules."""

import os
import re
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from uuid import uuid4

import pytest
from omegaconf import OmegaConf
from tutorial import TINY_INFLECTION

from repro.atomic import atomic_write_text as write
from repro.cli import main
from repro.config import ConfigError, paths
from repro.config.compose import compose_run
from repro.config.experiment import list_experiments, load_experiment
from repro.config.loading import group_choices
from repro.config.paths import (
    conf_dir,
    declared_in,
    experiments_dirs,
    extended,
    extension_dirs,
)
from repro.config.schema.mapping import EntmaxConfig
from repro.config.schema.registry import schema_choices

MILD = "defaults: [base_entmax, _self_]\nname: entmax\nalpha: 1.125\n"
EXPERIMENT = """
kind: figure
title: "t"
place: "p"
drawing: {name: lattice}
scales: {demo: {}}
"""
CHANGES = "changes the package's own task="
FORM = "has no effect; expected the names of choices, as "
PLACES = (
    "has no effect; protocols lie in protocol, protocol/data, protocol/decoding, "
    "protocol/hardware, protocol/model, protocol/training"
)


@pytest.fixture
def extension(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "conf").mkdir()
    monkeypatch.setenv("REPRO_EXTENSIONS", os.pathsep.join([str(tmp_path), ""]))
    return tmp_path


def test_without_any_there_are_the_package_s_own(monkeypatch):
    monkeypatch.delenv("REPRO_EXTENSIONS", raising=False)
    assert extension_dirs() == []
    assert extended("repro.tasks") == []
    assert len(experiments_dirs()) == 1


def test_a_choice_of_a_group_may_lie_in_an_extension(extension):
    with pytest.raises(ConfigError, match="no mapping 'mild'; choose mapping="):
        compose_run(["mapping=mild"])
    write(extension / "conf" / "mapping" / "mild.yaml", MILD)
    assert {"mild", "softmax"} <= set(group_choices("mapping"))
    assert compose_run(["mapping=mild"]).mapping == EntmaxConfig(name="entmax", alpha=1.125)


@pytest.mark.parametrize("scale", group_choices("scale"))
@pytest.mark.parametrize("task", group_choices("task"))
def test_choices_of_an_extension_keep_their_values_at_every_scale(extension, task, scale):
    protocol = extension / "conf" / "protocol" / f"{task}_{scale}.yaml"
    if scale != "full" and not (conf_dir() / "protocol" / protocol.name).exists():
        write(protocol, "")  # not all tasks have the scale subset
    full = compose_run([f"task={task}", "scale=full"])
    groups = ("data", "model", "training", "decoding", "hardware")
    mine = {group: node for group in groups if (node := getattr(full, group)) is not None}
    for group, node in mine.items():
        (base,) = (name for name, kind in schema_choices(group).items() if kind is type(node))
        text = f"defaults: [{base}, _self_]\n{OmegaConf.to_yaml(OmegaConf.structured(node))}"
        write(extension / "conf" / group / "mine.yaml", text)
    overrides = [f"task={task}", f"scale={scale}", *(f"{group}=mine" for group in mine)]
    run = compose_run(overrides)
    assert {group: getattr(run, group) for group in mine} == mine
    for group, node in mine.items():  # protocols that name them change them
        key = next(one.name for one in fields(node) if type(getattr(node, one.name)) is int)
        mine[group] = replace(node, **{key: getattr(node, key) + 2})
        name = f"mine_{scale}" if group == "hardware" else f"mine_{task}_{scale}"
        changed = extension / "conf" / "protocol" / group / f"{name}.yaml"
        write(changed, f"{key}: {getattr(mine[group], key)}\n")
    run = compose_run(overrides)
    assert {group: getattr(run, group) for group in mine} == mine


def test_a_protocol_in_an_extension_adds_a_scale_to_a_task(extension):
    overrides = ["task=snli", "scale=subset"]
    with pytest.raises(ConfigError, match="task=snli has no scale=subset"):
        compose_run(overrides)
    elsewhere = extension / "elsewhere"
    write(elsewhere / "protocol" / "snli_subset.yaml", "model: {hidden_size: 7}\n")
    searched = compose_run([*overrides, f"hydra.searchpath=[file://{elsewhere}]"])
    assert searched.model.hidden_size == 7
    write(extension / "other" / "mapping" / "mild.yaml", MILD)
    with pytest.raises(ConfigError, match="task=snli has no scale=subset"):
        compose_run([*overrides, f"hydra.searchpath=[file://{extension / 'other'}]"])
    write(extension / "conf" / "protocol" / "snli_subset.yaml", "model: {hidden_size: 9}\n")
    assert compose_run(overrides).model.hidden_size == 9


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("protocol/nmt_full", f"{CHANGES}nmt scale=full;"),
        ("protocol/training/morphology_morphology_full", f"{CHANGES}morphology scale=full;"),
        ("protocol/training/opennmt_morphology_small", f"{CHANGES}morphology scale=small;"),
        ("protocol/model/esim_nli_alignment_full", f"{CHANGES}nli_alignment scale=full;"),
        ("protocol/model/mine_snl_demo", f"{FORM}${{model}}_${{task}}_${{scale}}"),
        ("protocol/mine_snli_demo", f"{FORM}${{task}}_${{scale}}"),
        ("protocol/hardware/mine_demo", f"{FORM}${{hardware}}_${{scale}}"),
        ("protocol/modle/mine_snli_demo", PLACES),
        ("protocol/model/deep/mine_snli_demo", PLACES),
        ("protocol/mapping/mine_morphology_demo", PLACES),
        ("protocol/snli_demo", "protocol/snli_demo is defined in OWN already"),
        ("mapping/entmax", "mapping/entmax is defined in OWN already"),
        ("config", "config is defined in OWN already"),
    ],
)
@pytest.mark.parametrize("searched", [False, True])
def test_a_file_that_is_never_read_or_changes_what_the_package_has_is_refused(
    extension, name, expected, searched
):
    folder = extension / "further" if searched else extension / "conf"
    for group, base in (("model", "attention_classifier"), ("mapping", "softmax")):
        write(folder / group / "mine.yaml", f"defaults: [{base}, _self_]\n")
    write(folder / "protocol" / "model" / "mine_snli_demo.yaml", "hidden_size: 3\n")
    further = [f"hydra.searchpath=['file://{folder}']"] if searched else []
    assert compose_run([*further, "task=snli", "model=mine"]).model.hidden_size == 3
    path = folder / f"{name}.yaml"
    write(path, "seed: 3\n")
    with pytest.raises(ConfigError) as caught:
        compose_run(further)
    expected = expected.replace("OWN", str(conf_dir() / f"{name}.yaml"))
    assert str(caught.value).startswith(f"{path}: {expected}")


def test_a_protocol_of_a_scale_of_one_s_own_sets_the_seed(extension):
    write(extension / "conf" / "protocol" / "snli_subset.yaml", "seed: 3\n")
    assert compose_run(["task=snli", "scale=subset"]).seed == 3
    assert compose_run(["task=snli", "scale=subset", "seed=2"]).seed == 2


def test_a_task_of_an_extension_reads_protocols_of_further_groups(extension):
    text = """
# @package _global_
defaults:
  - /task/snli@_global_
  - optional /protocol/mapping@mapping: ${mapping}_${task}_${scale}
  - _self_
"""
    write(extension / "conf" / "task" / "mine.yaml", text.lstrip())
    path = extension / "conf" / "protocol" / "mapping" / "softmax_mine_demo.yaml"
    write(path, "gamma: 3\n")
    assert compose_run(["task=mine"]).mapping.gamma == 3
    assert compose_run(["task=snli"]).mapping.gamma == 1


@pytest.mark.parametrize(
    ("content", "choice"),
    [
        ("mapping: {name: sparsemax}", "mapping=softmax"),
        ("mapping: {name: sparsemax}", "mapping=entmax"),  # the default
        ("mapping: {name: sparsemax}", "mapping=mild"),  # which has the name of its own default
        ("scale: {name: full}", "scale=demo"),
        ("task: {name: nmt}", "task=morphology"),
        ("task: {name: nmt}", "task=mine"),
        ("loss: {name: sparsemax}", "loss=cross_entropy"),
        ("logger: {name: csv}", "logger=none"),
    ],
)
def test_a_file_renames_no_choice(extension, content, choice):
    write(
        extension / "conf" / "mapping" / "mild.yaml", "defaults: [entmax, _self_]\nalpha: 1.125\n"
    )
    text = "# @package _global_\ndefaults: [/task/snli@_global_, _self_]\n"
    write(extension / "conf" / "task" / "mine.yaml", text)
    write(extension / "ep" / "experiment" / "ep.yaml", f"# @package _global_\n{content}\n")
    further = [f"hydra.searchpath=['file://{extension / 'ep'}']", "+experiment=ep"]
    compose_run([choice])
    with pytest.raises(ConfigError) as caught:
        compose_run([choice, *further])
    group, _, name = choice.partition("=")
    assert str(caught.value).startswith(f"{choice} is chosen, but a file sets {group}.name to ")
    text = f"# @package _global_\ndefaults: [{{override /{group}: {name}}}]\n"
    write(extension / "ep" / "experiment" / "ep.yaml", text)
    assert compose_run(further) == compose_run([choice])


def test_a_task_without_protocols_has_every_scale(extension):
    text = "# @package _global_\ndefaults: [/task/snli@_global_, _self_]\n"
    write(extension / "conf" / "task" / "mine.yaml", text)
    for scale in group_choices("scale"):
        assert compose_run(["task=mine", f"scale={scale}"]).scale.name == scale


def test_a_choice_that_is_typed_is_not_lost_to_a_null_of_a_file(extension):
    text = "# @package _global_\nstructure: null\n"
    write(extension / "conf" / "experiment" / "mine.yaml", text)
    alignment = ["task=nli_alignment", "+experiment=mine"]
    assert compose_run(alignment) == compose_run(alignment[:1])
    with pytest.raises(ConfigError, match=r"^structure=matching: a chosen file sets structure to "):
        compose_run([*alignment, "structure=matching"])
    text = "# @package _global_\ndefaults: [{override /structure: null}]\n"
    write(extension / "conf" / "experiment" / "mine.yaml", text)
    typed = [*alignment, "structure=matching"]
    assert compose_run(typed) == compose_run([alignment[0], "model.alignment=matching"])


def test_a_file_that_has_changed_is_read_again(extension):
    for alpha in (1.125, 1.25):
        text = MILD.replace("1.125", str(alpha))
        write(extension / "conf" / "mapping" / "mild.yaml", text)
        text = EXPERIMENT.replace('place: "p"', f"place: number {alpha}")
        write(extension / "experiments" / "mine" / "figure1.yaml", text)
        assert compose_run(["mapping=mild"]).mapping == EntmaxConfig(name="entmax", alpha=alpha)
        assert load_experiment("mine/figure1").place == f"number {alpha}"


@pytest.mark.parametrize("name", ["models/layers", "models/seq2seq", "config/schema/mapping"])
def test_a_module_of_the_package_cannot_be_hidden(extension, name):
    path = extension / "repro" / f"{name}.py"
    write(path, "SIZE = 1\n")
    with pytest.raises(ConfigError) as caught:
        extended("repro.models")
    own = conf_dir().parent / "repro" / name
    taken = own / "__init__.py" if own.is_dir() else own.with_suffix(".py")
    module = f"repro.{name.replace('/', '.')}"
    assert str(caught.value) == f"{path}: {module} is defined in {taken} already"


def test_a_module_of_an_extension_cannot_hide_that_of_another(extension, monkeypatch):
    other = extension / "other"
    paths = [extension / "repro" / "models" / "mine.py", other / "repro/models/mine/__init__.py"]
    for path in paths:
        write(path, "SIZE = 1\n")
    write(extension / "repro" / "models" / "__init__.py", "")  # hides nothing
    folders = [str(extension), str(other), str(extension)]
    monkeypatch.setenv("REPRO_EXTENSIONS", os.pathsep.join(folders))
    refused = re.escape(f"{paths[1]}: repro.models.mine is defined in {paths[0]} already")
    with pytest.raises(ConfigError, match=refused):
        extended("repro.models")
    paths[1].unlink()
    assert extended("repro.models") == [f"{one}/repro/models" for one in dict.fromkeys(folders)]


def test_an_experiment_may_lie_in_an_extension(extension):
    before = list_experiments()
    write(extension / "experiments" / "mine" / "figure1.yaml", EXPERIMENT)
    assert set(list_experiments()) == {*before, "mine/figure1"}
    assert load_experiment("mine/figure1").title == "t"


def test_an_experiment_that_stands_twice_is_refused(extension):
    path = extension / "experiments" / "peters2019" / "table1.yaml"
    write(path, EXPERIMENT)
    with pytest.raises(ConfigError) as caught:
        list_experiments()
    assert str(caught.value).startswith(f"{path}: peters2019/table1 is defined in ")


def test_the_checkout_itself_may_be_named(monkeypatch):
    checkout = conf_dir().parent
    monkeypatch.setenv("REPRO_EXTENSIONS", str(checkout))
    assert extended("repro.models") == [str(checkout / "repro" / "models")]


def test_modules_are_looked_for_where_the_checkout_has_them(extension):
    assert extended("repro.config.schema") == [str(extension / "repro" / "config" / "schema")]


def test_a_folder_that_is_named_twice_counts_once(extension, monkeypatch):
    write(extension / "experiments" / "mine" / "figure1.yaml", EXPERIMENT)
    monkeypatch.setenv("REPRO_EXTENSIONS", os.pathsep.join([str(extension), f"{extension}/."]))
    assert extension_dirs() == [extension]
    assert "mine/figure1" in list_experiments()


def test_an_extension_that_is_no_folder_is_refused(monkeypatch):
    monkeypatch.setenv("REPRO_EXTENSIONS", "/nowhere/at/all")
    with pytest.raises(ConfigError, match=r"REPRO_EXTENSIONS names .*all; expected a folder"):
        extension_dirs()


def test_an_extension_that_holds_nothing_is_refused(tmp_path, monkeypatch, refused):
    monkeypatch.setenv("REPRO_EXTENSIONS", str(tmp_path))
    (tmp_path / "mapping").mkdir()
    expected = f"REPRO_EXTENSIONS names {tmp_path}; expected in it a folder conf, experiments or"
    for command in (["run", "--dry-run"], ["plan", "peters2019/figure3"], ["report"]):
        assert refused(*command, f"results_dir={tmp_path}/results") == f"{expected} repro"
    for name in ("conf", "experiments", "repro"):
        (tmp_path / name).mkdir()
        assert extension_dirs() == [tmp_path]
        (tmp_path / name).rmdir()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("kind: [table\nx: 1\n", "table1.yaml:2: not YAML"),
        ("- 1\n", "table1.yaml: "),
        ("7\n", "table1.yaml: "),
        ("kind: \x00", "table1.yaml: not YAML"),
        ("[" * 5000, "table1.yaml:"),
    ],
    ids=["syntax", "list", "scalar", "control", "nested"],
)
@pytest.mark.parametrize("command", [["reproduce", "mine/table1"], ["report"]])
def test_a_broken_experiment_is_refused_in_one_line(extension, text, expected, command, refused):
    write(extension / "experiments" / "mine" / "table1.yaml", text)
    write(extension / "results" / "demo" / "figures" / "mine" / "figure1.json", "{}")
    assert expected in refused(*command, f"results_dir={extension / 'results'}")


def test_a_broken_experiment_is_no_failure_of_a_run(extension, capsys):
    path = extension / "experiments" / "mine" / "table1.yaml"
    path.parent.mkdir(parents=True)
    run = ["run", *TINY_INFLECTION, f"results_dir={extension / 'results'}"]
    for text in (b"kind: [table\nx: 1\n", b"kind: table\nrow: {}\n", b'title: "\xe9"\n'):
        path.write_bytes(text)
        for command in (run, [*run, "-m", "seed=1,2"]):
            assert main(command) == 0
            line = capsys.readouterr().err.splitlines()[-1]
            assert line.startswith(f"the cells that the runs fill are not listed: {path}")


def test_a_cycle_of_files_is_refused_in_one_line(extension, refused):
    for name, other in (("mild", "wild"), ("wild", "mild")):
        write(extension / "conf" / "mapping" / f"{name}.yaml", f"defaults: [{other}]\n")
    for command in (["run"], ["run", "-m"], ["run", "--cfg", "job"]):
        line = refused(*command, "mapping=mild")
        assert line == "the `defaults` of configuration files form a cycle"


def test_a_refused_row_of_an_artefact_is_named(extension, refused):
    table = (experiments_dirs()[0] / "peters2019" / "table1.yaml").read_text(encoding="utf-8")
    changed = table.replace("[mapping.alpha=1.5]", "[mapping=softmx]")
    write(extension / "experiments" / "mine" / "table1.yaml", changed)
    for command in (["plan"], ["reproduce", "--dry-run"]):
        line = refused(*command, "mine/table1", f"results_dir={extension}")
        expected = "mine/table1: 1 / 1.5, high (avg.), seed 1: no mapping 'softmx'"
        assert line.startswith(expected)
        typed = ["peters2019/table1", "decoding=beeam", f"results_dir={extension}"]
        assert "no decoding 'beeam'" in refused(*command, *typed)


def test_a_cycle_is_refused_before_anything_is_composed(extension, refused):
    write(extension / "conf" / "mapping" / "wild.yaml", "defaults: [mild]\n")
    for defaults, named in (("wild", "mild, wild"), ("mild", "mild")):
        write(extension / "conf" / "mapping" / "mild.yaml", f"defaults: [{defaults}]\n")
        assert refused("results", "mapping=mild", f"results_dir={extension}").endswith(
            f"/mild.yaml: the `defaults` of {named} form a cycle"
        )


def test_the_name_of_a_sweep_in_a_file_is_refused_in_a_single_run(extension, capsys):
    write(extension / "conf" / "experiment" / "mine.yaml", "# @package _global_\nname: mine\n")
    for command, status in ((["run"], 2), (["run", "--dry-run"], 2), (["run", "-m"], 0)):
        arguments = ["+experiment=mine", f"results_dir={extension}", "--dry-run"]
        assert main([*command, *arguments]) == status
        assert (capsys.readouterr().err == "repro: name=mine names a sweep; add -m\n") == (
            status == 2
        )


@pytest.mark.parametrize(
    ("content", "found"), [("name: two", "one and two"), ("seed: 2", "one and null")]
)
def test_files_that_name_a_sweep_differently_are_refused(extension, content, found, refused):
    for name, text in (("a", "name: one"), ("b", content)):
        write(extension / "conf" / "experiment" / f"{name}.yaml", f"# @package _global_\n{text}\n")
    arguments = ["run", "-m", "+experiment=a,b", f"results_dir={extension}/of", "--dry-run"]
    expected = f"name is {found}; a sweep has one; set name= on the command line"
    assert refused(*arguments) == expected
    assert main([*arguments, "name=mine"]) == 0


HEADS = {"experiment": "# @package _global_\n", "model": "defaults: [translator, _self_]\n"}
NO_SCHEMA = (
    "its `defaults` name no schema; expected `defaults: [SCHEMA, _self_]` with one of base_alp…"
)
REFUSED = {
    "experiment/mine": {
        "hydra: {sweeper: {params: 3}}": "hydra.sweeper.params is 3; expected a mapping, or null",
        "hydra: {sweeper: {parms: {seed: 1}}}": "hydra.sweeper.parms: unknown key 'parms' (did you "
        "mean 'params'?); valid keys here: params, dry_run",
        "hydra: {sweeper: 3}": "hydra.sweeper is 3; expected hydra/sweeper=NAME",
        "hydra: {launcher: {job: 3}}": "hydra.launcher.job: unknown key 'job'…",
        "hydra: {sweeper: {params: {name: '${oc.env:NOPE}'}}}": "the configuration reads the "
        "environment variable NOPE, which is not set",
        "hydra: {sweeper: {params: {hydra/launcher: slurm}}}": "hydra.sweeper.params: "
        "hydra/launcher has no effect; type hydra/launcher=slurm",
        "hydra: {sweeper: {params: {hydra.searchpath: [/tmp]}}}": "hydra.sweeper.params: "
        "hydra.searchpath has no effect; type hydra.searchpath=[…",
        "hydra: {sweeper: {params: {+hydra.job.num: 3}}}": "hydra.sweeper.params: "
        "hydra.job.num changes nothing in a sweep; leave it out",
        "defaults: [{override /hydra/sweeper: basic}]": "FILE: `override /hydra/sweeper` has no "
        "effect; type hydra/sweeper=basic",
        "defaults: [{override /protocol@_global_: nmt_small}]": "FILE: `override /protocol@_global_"
        "`: a protocol cannot be chosen; expected task=NAME and scale=NAME",
        "defaults: [{override /protocol/training@training: x}]": "FILE: `override /protocol/"
        "training@training`: a protocol cannot be chosen…",
        "defaults: [{override /mapping: sparsmax}]": "FILE: no mapping 'sparsmax'…",
        "defaults: [{override /mapping: entmax}, {override /mapping: softmax}]": "FILE: `defaults` "
        "state 'override /mapping' twice",
        "defaults: [{/mapping: sparsemax}]": "FILE: its `defaults` choose mapping, which has a "
        "choice; expected `- override /mapping: sparsemax`",
        "defaults: [{override /structure: matching}]": "NAME: its `defaults` override structure, "
        "which has no choice; expected `- override /structure: NAME` and a task that…",
        "defaults: [{override mapping: sparsemax}]": "NAME: its `defaults` override experiment/"
        "mapping, which has no choice; expected `- override /mapping: NAME` and a task…",
        "defaults: [{override /model: morphology.yaml}]": "model=morphology.yaml: expected the name"
        " of a choice, without .yaml",
        "defaults: [{mapping: softmax}]": "NAME: its `defaults` name 'mapping/softmax'…",
        "defaults: [base_nope]": "NAME: its `defaults` name 'base_nope', which conf/experiment "
        "does not have; expected one of entmax_everywhere, mine, or a…",
        "defaults: [mine]": "FILE: its `defaults` name the file itself",
        "defaults: 3": "Invalid defaults list in 'experiment/mine', defaults must be a list (got…",
        "3": "FILE: expected a mapping",
        "nope: 3": "NAME: unknown key 'nope'; valid keys here: task, …",
        "mapping: sparsemax": "NAME: mapping is sparsemax; expected its keys, or a choice in "
        "`defaults`, as `- override /mapping: NAME`",
        "name: ${oc.env:NOPE}": "name reads the environment variable NOPE, which is not set",
        "seed: two": "NAME: seed is 'two'; expected an integer",
        "training: {max_epoch: 3}": "NAME: training.max_epoch: unknown key 'max_epoch' (did you "
        "mean 'max_epochs'?); valid keys here: …",
        "model: {hidden_size: x}": "NAME: model.hidden_size is 'x'; expected an integer",
        "model: {fertility: 3}": "NAME: model.fertility is 3; expected its keys",
        "task: {shown: 3}": "NAME: task.shown is 3; expected a list, as [a,b]",
        "precision: {a: 3}": "NAME: precision is a value, not a group…",
    },
    "model/mine": {
        "hidden_size: x": "NAME: model.hidden_size is 'x'; expected an integer",
        "fertility: {least: x}": "NAME: model.fertility.least is 'x'; expected an integer",
        "fertility: {leest: 1}": "NAME: model.fertility.leest: unknown key 'leest' (did you…",
        "layer: 1": "NAME: unknown key 'layer' (did you mean 'layers'?)…",
    },
    "mapping/mine": {
        "# @package _global_\ndefaults: [entmax, _self_]": "a chosen file of mapping begins with "
        "`# @package _global_`; leave the line out",
        "defaults: [base_entmx, _self_]": "NAME: its `defaults` name 'base_entmx', which "
        "conf/mapping does not have (did you mean 'base_entmax'?); expected one of base_alpha, …",
        "name: entmax\nalpha: 2": f"NAME: {NO_SCHEMA}",
        "name: entmax": f"NAME: {NO_SCHEMA}",
        "gamma: 2": f"NAME: {NO_SCHEMA}",
        "defaults: [base_entmax\nname: entmax": "FILE:2: not YAML…",
    },
    "logger/mine": {
        "defaults: [csv, tensorboard, _self_]": "FILE: `defaults` name csv, tensorboard; expected "
        "one logger",
    },
    "study/mine": {"seed: 3": "NAME: expected `# @package _global_` in its first line"},
}
"""Files of choices, by name and content, and how messages begin, or what they are."""


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [(name, *case) for name, cases in REFUSED.items() for case in cases.items()],
)
def test_the_file_of_a_choice_is_refused_in_one_line(
    extension, name, content, expected, monkeypatch, refused
):
    monkeypatch.delenv("NOPE", raising=False)
    file, group = extension / "conf" / f"{name}.yaml", name.partition("/")[0]
    write(file, f"{HEADS.get(group, '')}{content}\n")
    added = "+" * (group in ("experiment", "study"))
    arguments = ["task=nmt", f"{added}{group}=mine", f"results_dir={extension}/of"]
    expected = expected.replace("FILE", str(file)).replace("NAME: ", f"{name}.yaml: ", 1)
    # A single run needs neither a sweeper nor a launcher.
    for command in (["-m"], *([[], ["--cfg", "job"]] if "hydra: " not in content else [])):
        line = refused("run", *command, *arguments)
        cut = len(expected) - 1 if expected.endswith("…") else None
        assert line[:cut] == expected[:cut]
    assert not (extension / "of").exists()


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("experiment=mine", "experiment has no default; choose it with a +, as +experiment=mine"),
        ("+experiment=null", "+experiment=null: expected the name of a choice"),
        ("+experiment=mine.yaml", "experiment=mine.yaml: expected the name of a choice, without"),
    ],
)
@pytest.mark.parametrize("command", [["run"], ["run", "-m"], ["run", "--cfg", "job"]])
def test_an_experiment_is_chosen_by_its_name_with_a_plus(
    extension, command, typed, expected, refused
):
    write(extension / "conf" / "experiment" / "mine.yaml", "# @package _global_\nseed: 3\n")
    assert refused(*command, typed).removeprefix("+").startswith(expected.removeprefix("+"))
    assert compose_run(["+experiment=mine"]).seed == 3
    assert compose_run(["data.folder=mine.yaml"]).data.folder == "mine.yaml"


@pytest.mark.parametrize(
    ("options", "content", "expected"),
    [
        ("", "sweeper: {params: {seed: '1,2'}}", "hydra.sweeper.params.seed is for multiruns; add"),
        ("", "launcher: {parallel_runs: 3}", "hydra.launcher.parallel_runs is for multiruns; add"),
        ("", "mode: MULTIRUN", "hydra.mode is for multiruns; add -m"),
        ("", "job: {chdir: true}", "hydra.job.chdir changes nothing in a single run"),
        ("-m", "mode: MULTIRUN", "hydra.mode changes nothing in a sweep; leave it out"),
        ("-m", "job: {chdir: true}", "hydra.job.chdir changes nothing in a sweep; leave it out"),
        ("-m hydra/launcher=basic", "run: {dir: here}", "hydra.run.dir changes nothing in a"),
    ],
)
def test_settings_of_hydra_in_a_chosen_file_are_refused_where_nothing_reads_them(
    extension, options, content, expected, refused
):
    folder, head = extension / "conf" / "experiment", "# @package _global_\n"
    for name in ("inner", "another"):
        write(folder / f"{name}.yaml", f"{head}hydra: {{{content}}}\n")
    write(folder / "outer.yaml", f"{head}defaults: [inner, _self_]\n")
    for chosen in ("inner", "outer"):
        line = refused("run", *options.split(), f"+experiment={chosen}", "--dry-run")
        assert line.startswith(f"{folder}/inner.yaml: {expected}")
    assert main(["run", "--dry-run", f"results_dir={extension}/of"]) == 0  # it is not chosen


def test_settings_of_hydra_in_one_of_several_swept_files_are_refused(extension, refused):
    folder = extension / "conf" / "experiment"
    write(folder / "plain.yaml", "# @package _global_\nseed: 2\n")
    write(folder / "other.yaml", "# @package _global_\nseed: 3\n")
    write(folder / "states.yaml", "# @package _global_\nhydra: {launcher: {parallel_runs: 2}}\n")
    sweep = ["run", "-m", "--dry-run", f"results_dir={extension}/of"]
    assert main([*sweep, "+experiment=plain,other"]) == 0
    for swept in ("plain,states", "states,plain", "glob(*)"):
        expected = f"{folder}/states.yaml: hydra.launcher.parallel_runs is not read where several"
        assert refused(*sweep, f"+experiment={swept}").startswith(expected)
    assert main([*sweep, "+experiment=states", "seed=1,2"]) == 0


@pytest.mark.parametrize(
    "content",
    [
        "data: {release: 2.10}",
        "data: {treebank: no}",
        "hydra: {sweeper: {params: {data.release: 2.10}}}",
    ],
)
@pytest.mark.parametrize("extended", [False, True])
def test_a_text_that_yaml_reads_as_something_else_is_refused(
    extension, content, extended, capsys, refused
):
    folder = extension / "conf" / "experiment"
    head = "# @package _global_\n"
    write(folder / "inner.yaml", f"{head}{content}\n")
    write(folder / "outer.yaml", f"{head}defaults: [inner, _self_]\n")
    arguments = ["run", "-m", "--dry-run", "task=parsing", f"results_dir={extension}/of"]
    chosen = f"+experiment={'outer' if extended else 'inner'}"
    assert "expected a text, in quotes" in refused(*arguments, chosen)
    quoted = content.replace("2.10", "'2.10'").replace("no}", "'no'}")
    write(folder / "inner.yaml", f"{head}{quoted}\n")
    main([*arguments, chosen])
    assert "expected a text" not in capsys.readouterr().err


def test_the_refused_settings_depend_on_the_launcher_and_not_on_its_name(extension, refused):
    launcher = extension / "conf" / "hydra" / "launcher" / "two.yaml"
    write(launcher, "defaults: [local, _self_]\nparallel_runs: 2\n")
    commands = [["run", "-m", "seed=1,2", "--dry-run"], ["plan", "peters2019/table1"]]
    for command in commands:
        arguments = [*command, "hydra/launcher=two", f"results_dir={extension}/of"]
        assert main(arguments) == 0
        assert "hydra.job.chdir=true changes nothing in a" in refused(
            *arguments, "hydra.job.chdir=true"
        )


@pytest.mark.parametrize("kind", [Callable, EntmaxConfig])
@pytest.mark.parametrize("declared", [3, [3], {"mine": 3}, {3: print}, "mine"])
def test_declarations_of_another_type_are_refused(tmp_path, monkeypatch, kind, declared):
    monkeypatch.syspath_prepend(tmp_path)
    package = f"declaring_{uuid4().hex}"
    path = tmp_path / package / "mine.py"
    write(path, f"THINGS = {declared!r}\n".replace("<built-in function print>", "print"))
    what = "functions or classes" if kind is Callable else "objects of EntmaxConfig"
    with pytest.raises(ConfigError) as caught:
        declared_in(package, [str(path.parent)], "THINGS", kind)
    expected = f"expected a dictionary of {what} by name"
    assert str(caught.value) == f"{path}: THINGS is {declared!r}; {expected}"


@pytest.mark.parametrize("name", ["training/mine", "models/seq2seq/mine", "mine", "mine/new/deep"])
def test_a_module_that_would_never_be_imported_is_refused(extension, name):
    write(extension / "repro" / "tasks" / "mine" / "parts" / "deep.py", "SIZE = 1\n")
    write(extension / "repro" / "report" / "__init__.py", "")  # hides nothing
    extended("repro.models")
    path = extension / "repro" / f"{name}.py"
    write(path, "SIZE = 1\n")
    paths._check_modules.cache_clear()
    with pytest.raises(ConfigError) as caught:
        extended("repro.models")
    expected = "expected in one of repro.config.schema, repro.data, "
    assert str(caught.value).startswith(f"{path} is never imported; {expected}")


@pytest.mark.parametrize(
    ("task", "choice", "known"),
    [
        ("morphology", "mapping/entmax", "softmax, "),
        ("nmt", "mapping/csparsemax", "csoftmax, csparsemax"),
        ("morphology", "loss/entmax", "softmax, "),
        ("parsing", "loss/crf", "structured_perceptron, "),
        ("parsing", "structure/arborescence", "matching, arborescence"),
        ("nmt", "model/translator", "seq2seq"),
    ],
)
def test_a_name_that_nothing_has_is_refused_before_a_run(extension, task, choice, known, refused):
    group = choice.partition("/")[0]
    text = re.sub(
        "^name: .*$", "name: nosuch", (conf_dir() / f"{choice}.yaml").read_text(), flags=re.M
    )
    write(extension / "conf" / group / "mine.yaml", text)
    arguments = [f"task={task}", f"{group}=mine", "hardware=cpu", f"results_dir={extension}/of"]
    for command in (["--dry-run"], ["-m", "--dry-run", "seed=1,2"], []):
        assert refused("run", *command, *arguments).startswith(
            f"{group}.name is 'nosuch'; expected one of {known}"
        )
    assert not list(extension.glob("of/*/runs/*"))
