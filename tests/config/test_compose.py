import re
import shlex
from dataclasses import replace
from typing import get_type_hints

import pytest
import yaml
from hydra import compose
from hydra.core.override_parser.overrides_parser import OverridesParser

from repro.config import ConfigError
from repro.config.compose import compose_run, hydra_application, to_run_config, to_yaml
from repro.config.explain import unreadable
from repro.config.loading import group_choices
from repro.config.paths import conf_dir
from repro.config.schema.mapping import EntmaxConfig
from repro.config.schema.morphology import MorphologyConfig
from repro.config.schema.registry import registered_schemas, run_class
from repro.config.schema.seq2seq import TranslatorConfig


def test_defaults_and_overrides():
    run = compose_run(["mapping.alpha=1.25", "task.setting=medium", "scale=full", "seed=0"])
    assert run.mapping == EntmaxConfig(name="entmax", alpha=1.25)
    assert isinstance(run.task, MorphologyConfig)
    assert run.training.validate_every == 10
    assert run.seed == 0
    assert run.model.hidden_size == run.model.embedding_size == 300


@pytest.mark.parametrize("task", ["morphology", "nmt", "summarization", "snli"])
def test_the_example_of_an_experiment_sets_attention_and_loss(task):
    run = compose_run([f"task={task}", "+experiment=entmax_everywhere"])
    assert run.mapping == EntmaxConfig(name="entmax", alpha=1.5)
    assert (run.loss.name, run.loss.alpha) == ("entmax", 1.5)
    plain = compose_run([f"task={task}"])
    assert replace(run, mapping=plain.mapping, loss=plain.loss) == plain
    swept = compose_run([f"task={task}", "+experiment=entmax_everywhere", "mapping.alpha=1.25"])
    assert (swept.mapping.alpha, swept.loss.alpha) == (1.25, 1.5)


@pytest.mark.parametrize(
    ("scale", "length"),
    [("full", (100_000, 0.0, 100)), ("subset", (None, 1e-6, 60)), ("small", (None, 1e-6, 60))],
)
def test_inflection_has_the_length_of_the_released_program_at_full_scale_only(scale, length):
    run = compose_run(["task=morphology", f"scale={scale}"])
    training = run.training
    assert (training.max_steps, training.min_learning_rate, run.decoding.max_length) == length
    epochs = compose_run(["task=morphology", "scale=full", "training.max_steps=null"]).training
    assert (epochs.max_steps, epochs.max_epochs) == (None, 30)


@pytest.mark.parametrize(
    "overrides",
    [
        ["task=nmt", "scale=small", "mapping.alpha=1.25", "decoding.penalty_grid=[0,1]"],
        ["mapping=csoftmax", "task=nmt", "seed=3", "results_dir='a, b'", "data_dir=null"],
        [
            "task=parsing",
            "loss=sparsemap",
            "hardware.parallel_runs=2",
            "model.layers=1",
            "seed=1",
            "seed=2",
        ],
        ["scale=full", "task=snli", "mapping.gamma=${training.learning_rate}"],
    ],
    ids=lambda overrides: " ".join(overrides),
)
def test_values_beside_known_choices_give_what_hydra_gives(overrides):
    with hydra_application():
        expected = to_run_config(compose("config", overrides=overrides))
    for _ in range(2):  # the second time the choices are known
        assert compose_run(overrides) == expected
        compose_run([*overrides, "seed=99"])


@pytest.mark.parametrize(
    "overrides",
    ["seed=4 ++seed=3", "++seed=4 seed=3", "++seed=3", "+name=mine ++seed=3", "++seed=4 ++seed=3"],
)
def test_the_last_value_of_a_key_wins_however_it_is_written(overrides):
    assert compose_run(overrides.split()).seed == 3


def test_high_validates_every_epoch():
    assert compose_run(["task.setting=high", "scale=full"]).training.validate_every == 1


def test_a_scale_changes_the_protocol_and_an_override_still_wins():
    assert compose_run(["scale=demo"]).data.generated
    assert not compose_run(["scale=small"]).data.generated
    assert compose_run(["scale=demo", "model.hidden_size=8"]).model.hidden_size == 8
    small = ["task=nmt", "scale=small"]
    assert compose_run(small).training.optimizer == "adam"
    assert compose_run([*small, "training=opennmt"]).training.optimizer == "sgd"
    demo = ["task=nmt", "scale=demo"]
    assert compose_run([*demo, "training=opennmt"]).training.optimizer == "adam"
    named = ["data=translation", "model=translator", "decoding=rescored_beam"]
    assert compose_run([*demo, *named]) == compose_run(demo)
    assert compose_run([*demo, "data.corpus=mine"]).data.corpus == "mine"


REFUSED = {
    "mapping.alfa=2": "did you mean 'alpha'",
    "training.lr=0.1": "did you mean 'learning_rate'",
    "lr=0.1": "did you mean training.learning_rate",
    "mapping=entmx": "entmax, fusedmax, learned_alpha_entmax, normmax, oscarmax, softmax",
    "mapping.alpha=0.5": "mapping.alpha is 0.5; expected a number >= 1",
    "loss.alpha=0.99": "loss.alpha is 0.99",
    "mapping.alpha=two": "mapping.alpha is 'two'; expected a number",
    "hardwre=cpu": "did you mean 'hardware'",
    "hardware=tpu": "auto, cpu, cuda",
    "task.setting=low": "one of medium, high",
    "task=nmt2": "choose task= one of",
    "task=snli scale=subset": "no scale=subset; choose scale= one of demo, full, small",
    "scale=subset task=parsing": "task=parsing has no scale=subset",
    "task=nli_alignment scale=subset": "task=nli_alignment has no scale=subset",
    "task=summarization scale=subset": "task=summarization has no scale=subset",
    "precision=fp8": "one of fp32, tf32, bf16",
    "fail_fast=maybe": "fail_fast",
    "seed=-1": "seed is -1",
    "seed=9223372036854775808": "a number in [0, 9223372036854775808)",
    "mapping.alpha": "cannot read 'mapping.alpha'; expected KEY=VALUE",
    "task.languages=[a": "cannot read 'task.languages=[a'; expected KEY=VALUE",
    "seed=2 task=3": "task=3: expected the name of a choice",
    "mapping=": "choose mapping= one of csoftmax",
    "mapping=???": "no mapping '???'; choose mapping= one of csoftmax",
    "mapping=base_entmax": "no mapping 'base_entmax'",
    "task=base_nmt": "no task 'base_nmt'; choose task= one of morphology",
    "seed=???": "seed has no value; expected seed=VALUE",
    "mapping.alpha=???": "mapping.alpha has no value; expected mapping.alpha=VALUE",
    "task.languages=english": "task.languages is 'english'; expected a list, as [a,b]",
    "task.shown=null": "task.shown is null; expected a list",
    "seed=null": "seed is null; expected an integer",
    "seed.foo=1": "seed is a value, not a group; expected seed=VALUE",
    "mapping.alpha.x=1": "mapping.alpha is a value, not a group",
    "name.foo=1": "name is a value, not a group",
    "+foo=1": "unknown key 'foo'",
    "+model.foo=1": "unknown key 'foo'; valid keys here: name, embedding_size",
    "task.schedule.high.foo=1": "valid keys here: max_epochs",
    "task.schedule.low.max_epochs=1": "task.schedule.low: unknown key 'low'; valid keys here: h",
    "task=nmt task.schedule.low=1": "unknown key 'schedule' (it is a key of task=morphology)",
    "task.schedule=1": "task.schedule is a group, not a value; expected task.schedule.KEY=VAL",
    "task=nmt model.fertility=null": "model.fertility is a group, not a value",
    "hydra.foo=1": "unknown key 'foo'; valid keys here: defaults, mode",
    "hydra.job.nam=1": "unknown key 'nam' (did you mean 'name'?); valid keys here: name",
    "data.corpus=": "data.corpus is ''; expected a name",
    "data.corpus=../elsewhere": "data.corpus is '../elsewhere'; expected a name",
    "hardware.threads=0": "hardware.threads is 0; expected a number in [1, 1024], or null",
    "hardware.parallel_runs=-1": "hardware.parallel_runs is -1; expected a number in [0, 1024]",
    "training.learning_rate=inf": "expected a finite number > 0",
    "training.max_steps=0": "training.max_steps is 0",
    "decoding.beam_size=1001": "decoding.beam_size is 1001",
    "decoding.max_hypotheses=0": "decoding.max_hypotheses is 0",
    "task.stored_examples=-1": "task.stored_examples is -1",
    "model.hidden_size=7": "an even number",
    "training.decay=0": "training.decay",
    "training.monitor=luck": "training.monitor is 'luck'; expected one of accuracy",
    "mapping=csoftmax": "the mapping 'csoftmax' does not fit task=morphology; choose mapping= "
    "one of entmax, fusedmax, learned_alpha_entmax, normmax, oscarmax, softmax, sparsemax, "
    "sq_pnorm_max",
    "task=snli loss=crf": "task=snli; choose loss= one of cross_entropy, entmax, sparsemax",
    "mapping=null": "mapping=null does not fit task=morphology; choose mapping= one of entmax",
    "task=null": "task=null: expected the name of a choice",
    "hardware=null": "hardware=null: expected the name of a choice",
    "structure=null": "the task does not use structure=null; leave it out",
    "loss=cross_entropy mapping.alpha=1.5 loss.alpha=1.5": "loss.alpha (loss=cross_entropy): "
    "unknown key 'alpha'",
    "task=parsing +experiment=entmax_everywhere": "experiment/entmax_everywhere.yaml: its "
    "`defaults` override mapping, which has",
    "task=nmt model=morphology mapping=csparsemax": "csparsemax needs model.fertility",
    "task=summarization model=morphology mapping=csoftmax": "csoftmax needs model.fertility",
    "task.languages=[a,a]": "task.languages is ['a', 'a']; expected each value once, or null",
    "task.languages=[]": "task.languages is []",
    "task.languages=[../a]": "task.languages is '../a'; expected a name",
    "results_dir=": "results_dir is ''; expected a folder, or null",
    "scale.name=full": "scale.name=full: choose scale=",
    "mapping.name=softmax": "choose mapping=",
    "~mapping.alpha=1.8": "~mapping.alpha=1.8: nothing can be deleted",
    "~seed": "~seed: nothing can be deleted",
    "+mapping.alpha=1.8": "leave out the +",
    "mapping=[entmax]": "expected the name of a choice",
    "model=morphology.yaml": "model=morphology.yaml: expected the name of a choice, without",
    "model='morphology.yaml'": "expected the name of a choice, without .yaml",
    "+mapping=sparsemax": "+mapping=sparsemax: leave out the +",
    "mapping=entmax +mapping=sparsemax": "+mapping=sparsemax: leave out the +",
    "++mapping=sparsemax": "leave out the +",
    "+task=nmt": "+task=nmt: leave out the +",
    "+experiment=entmax_everywhere +experiment=mine": "+experiment=entmax_everywhere: experiment "
    "is chosen twice; leave one of them out",
    "experiment=mine +experiment=entmax_everywhere": "experiment is chosen twice",
    "+scale=small": "+scale=small: leave out the +",
    "task=nli_alignment +structure=matching": "leave out the +",
    "+seed=3": "+seed=3: the key exists; leave out the +",
    "++foo=1": "unknown key 'foo'",
    "mapping@loss=entmax": "mapping@loss=entmax: expected mapping=NAME",
    "+mapping@loss=entmax": "+mapping@loss=entmax: expected mapping=NAME",
    "mapping/loss=entmax": "mapping/loss=entmax: expected mapping=NAME",
    "protocol=nmt_demo": "protocol=nmt_demo: a protocol cannot be chosen; expected task=NAME",
    "protocol@_global_=nmt_demo": "expected task=NAME and scale=NAME",
    "protocol/training@training=nmt_nmt_demo": "expected task=NAME and scale=NAME",
    "protocol": "cannot read 'protocol'; expected KEY=VALUE",
    "task=nmt training=morphology": "training.max_epochs reads task.setting, which this run does "
    "not have; expected training.max_epochs=VALUE, or another training=",
    "seed=${task.sed}": "seed reads task.sed, which this run does not have; expected seed=",
    "task.schedule.medium.max_epochs=0": "task.schedule.medium.max_epochs is 0",
    "mapping=fusedmax mapping.lam=-1": "mapping.lam is -1.0; expected a number >= 0",
    "mapping=fusedmax mapping.lam=inf": "mapping.lam is inf",
    "mapping=fusedmax mapping.gamma=0": "mapping.gamma is 0.0; expected a number > 0",
    "mapping=oscarmax mapping.lam=nan": "mapping.lam is nan",
    "mapping=oscarmax mapping.variant=fast": "one of exact, paper",
    "mapping=normmax mapping.alpha=1": "mapping.alpha is 1.0; expected a number > 1",
    "mapping=normmax mapping.alpha=inf": "mapping.alpha is inf",
    "mapping=sq_pnorm_max mapping.p=1": "mapping.p is 1.0; expected a number in (1, 2]",
    "mapping=sq_pnorm_max mapping.p=2.1": "mapping.p is 2.1",
    "task=snli data.source=qnli": "data.source is 'qnli'",
    "task=snli data.train_premises=0": "data.train_premises is 0",
    "task=snli model.vectors=bert": "model.vectors is 'bert'",
    "task=snli model.dropout=1": "model.dropout is 1",
    "task=snli model=esim": "does not fit task=snli",
    "task=snli task.evaluation_batch=0": "task.evaluation_batch is 0",
    "task=nli_alignment model.alignment=soft": "expected one of words, sequential, matching",
    "task=nli_alignment model.max_iter=0": "model.max_iter is 0",
    "task=nli_alignment model.alignment=sequential mapping=sparsemax": "mapping=sparsemax",
    "task=nli_alignment structure=matching mapping=sparsemax": "mapping=sparsemax",
    "task=morphology data=nli": "data of another task does not fit task=morphology",
    "task=summarization data=translation data.source=a data.target=b": "does not fit",
    "learning_rate=0.01": "training.learning_rate",
    "epochs=3": "training.max_epochs",
    "beam_size=3": "decoding.beam_size",
    "alpha=1.5": "mapping.alpha",
    "mapping=sparsemax mapping.alpha=1.5": "mapping=entmax",
    "task.languages=a,b": "or write a list, task.languages=[a,b]",
    "mapping=softmax,entmax": "sweep with `run -m`",
    "task=parsing mapping=softmax": "the task does not use mapping=softmax",
    "task=parsing mapping.alpha=2 model.hidden_size=8": "not use mapping.alpha=2; leave it out",
    "task": "task= one of ",
    "task=parsing data.release=x/../../../../evil": "data.release is 'x/../../../../evil'",
    "task=parsing data.treebank=../evil": "data.treebank is '../evil'; expected a name",
    "task=nmt data.source=../de": "data.source is '../de'; expected a name",
    "task=nmt data.target=/en": "data.target is '/en'; expected a name",
    "task=morphology task.languages=[english,../x]": "task.languages is '../x'; expected a name",
    "task=snli data.source=../x": "data.source is '../x'; expected one of snli",
    "task=snli mapping=csparsemax": "the mapping 'csparsemax' does not fit task=snli",
    "task=snli mapping.gamma=1e-300": "mapping.gamma is 1e-300; expected a number > 0",
    "task=snli model.embedding_std=inf": "model.embedding_std is inf; expected a finite number > 0",
    "task=nmt model.fertility.value=inf": "model.fertility.value is inf; expected a finite number",
    "task=nmt decoding.penalty_grid=[0,nan]": "decoding.penalty_grid is nan; expected a finite",
    "task=nmt decoding.penalty_grid=[]": "decoding.penalty_grid is []; expected at least one value",
    "task=parsing model.word_dropout=inf": "model.word_dropout is inf; expected a finite number",
    "task=parsing loss=structured_svm loss.cost=inf": "loss.cost is inf; expected a finite number",
    "task=parsing data.seed=-1": "data.seed is -1; expected a number in [0, ",
    "task=parsing hardware.threads=100000": "hardware.threads is 100000; expected a number",
}


@pytest.mark.parametrize(("overrides", "expected"), REFUSED.items())
def test_bad_settings_are_refused_with_the_choices(overrides, expected):
    with pytest.raises(ConfigError) as caught:
        compose_run(overrides.split())
    assert expected in str(caught.value)


def test_a_model_whose_settings_extend_the_translator_s_has_fertilities():
    class Mine(TranslatorConfig):
        pass

    run = compose_run(["task=nmt", "mapping=csparsemax"])
    assert isinstance(replace(run, model=Mine(**vars(run.model))).model, Mine)


@pytest.mark.parametrize(
    ("task", "data", "accepted"),
    [
        ("morphology", "translation", ["morphology"]),
        ("summarization", "translation data.source=a data.target=b", ["sumdata"]),
        ("nmt", "sumdata", ["translation"]),
    ],
)
def test_the_choices_of_data_in_a_message_are_those_that_the_task_accepts(task, data, accepted):
    with pytest.raises(ConfigError) as caught:
        compose_run([f"task={task}", *f"data={data}".split()])
    _, _, listed = str(caught.value).partition("choose data= one of ")
    assert listed.split(", ") == accepted
    for choice in accepted:
        compose_run([f"task={task}", f"data={choice}"])


@pytest.mark.parametrize("value", ["[ü]", "[ü,a b]", "[[x], y]", 'say "ü"', "a (b)"])
def test_the_advised_quotes_are_accepted(value):
    advised = shlex.split(unreadable(f"task.shown={value}"))[-1]
    (parsed,) = OverridesParser.create().parse_overrides([advised])
    assert parsed.value() == yaml.safe_load(value)


@pytest.mark.parametrize("group", ["mapping", "task", "scale", "hardware", "logger"])
def test_every_choice_of_a_group_composes(group):
    for choice in group_choices(group):
        bounded = group == "mapping" and _base(choice, group) == "bounded"
        run = compose_run([f"{group}={choice}", *(["task=nmt"] if bounded else [])])
        assert "???" not in to_yaml(run)


@pytest.mark.parametrize("loss", group_choices("loss"))
def test_a_loss_composes_with_the_tasks_that_it_fits_and_no_other(loss):
    kind = registered_schemas()["loss"][_base(loss)]
    for task in group_choices("task"):
        overrides = [f"task={task}", f"loss={loss}"]
        wanted = get_type_hints(run_class(registered_schemas()["task"][task]))["loss"]
        if issubclass(kind, wanted):
            assert "???" not in to_yaml(compose_run(overrides))
        else:
            with pytest.raises(ConfigError, match=f"does not fit task={task}"):
                compose_run(overrides)


def _base(choice: str, group: str = "loss") -> str:
    found = re.search(r"base_(\w+)", (conf_dir() / group / f"{choice}.yaml").read_text())
    return found.group(1)


def test_every_registered_schema_is_the_base_of_a_file():
    texts = "".join(path.read_text() for path in conf_dir().glob("*/*.yaml"))
    texts += (conf_dir().parent / "docs" / "add-a-mapping.md").read_text("utf-8")  # for new ones
    for options in registered_schemas().values():
        assert all(f"base_{name}" in texts for name in options)


def test_composition_does_not_depend_on_the_working_directory(tmp_path, monkeypatch):
    here = compose_run(["seed=3"])
    monkeypatch.chdir(str(tmp_path))
    assert compose_run(["seed=3"]) == here


@pytest.mark.parametrize(
    "override", ["seed=1,2", "mapping.alpha=1,1.5", "mapping=softmax,entmax", "task"]
)
def test_no_advice_is_refused_in_turn(override):
    with pytest.raises(ConfigError) as caught:
        compose_run([override])
    assert "list" not in str(caught.value)
    assert '""' not in str(caught.value)
