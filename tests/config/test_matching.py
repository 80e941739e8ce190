"""Plans of runs are compared with recorded settings, and cached."""

from types import SimpleNamespace

import pytest

from repro.atomic import atomic_write_text
from repro.config import ConfigError, planning
from repro.config.planning import Plans, choices_in, planned
from repro.config.schema import morphology, registry
from repro.runs.environment import extensions_digest

PLAN = ["task=morphology", "mapping=entmax", "scale=demo", "mapping.alpha=1.5", "seed=2"]


def test_choices_are_named_as_they_are_recorded():
    assert choices_in(PLAN) == {"mapping": planned(PLAN).settings["mapping.name"]}
    assert choices_in(["mapping=softmax", "mapping=sparsemax"]) == {"mapping": "sparsemax"}
    assert choices_in(["loss=cross_entropy"]) == {"loss": "softmax"}
    assert choices_in(["mapping=of_an_extension", "task=nmt", "seed=2"]) == {}


@pytest.mark.parametrize("language", ["no", "on", "1e3x", "0o17"])
def test_values_are_read_as_hydra_reads_them(language):
    assert planned(("task=nmt", f"data.source={language}")).settings["data.source"] == language


def test_kept_plans_are_used_until_the_configuration_changes(tmp_path, monkeypatch):
    path = tmp_path / "plans.json"
    first = Plans(path)
    made = first[tuple(PLAN)]
    first.save()
    monkeypatch.setattr(planning, "planned", lambda overrides: pytest.fail("composed again"))
    kept = Plans(path)[tuple(PLAN)]
    assert kept == made == planned(PLAN)

    extension = tmp_path / "extension"
    (extension / "conf").mkdir(parents=True)
    (extension / "conf" / "more.yaml").write_text("seed: 1\n")
    monkeypatch.setenv("REPRO_EXTENSIONS", str(extension))
    with pytest.raises(pytest.fail.Exception, match="composed again"):
        Plans(path)[tuple(PLAN)]


def test_files_behind_a_link_to_a_folder_count(tmp_path, monkeypatch):
    """Hydra and Python's imports follow it."""
    monkeypatch.setenv("REPRO_EXTENSIONS", str(tmp_path / "extension"))
    real, conf = tmp_path / "real", tmp_path / "extension/conf"
    real.mkdir()
    conf.mkdir(parents=True)
    (conf / "mapping").symlink_to(real)
    (real / "back").symlink_to(conf)  # a cycle
    path, overrides, digests = tmp_path / "plans.json", ("mapping=mine",), set()
    for alpha in (1.3, 1.7):
        (real / "mine.yaml").write_text(f"defaults: [entmax, _self_]\nalpha: {alpha}\n")
        plans = Plans(path)
        assert plans[overrides].settings["mapping.alpha"] == alpha
        plans.save()
        digests.add(extensions_digest())
    assert len(digests) == 2


def test_a_configuration_file_that_moves_changes_the_plans(tmp_path, monkeypatch):
    """Only in the folder of its group has a protocol an effect."""
    monkeypatch.setenv("REPRO_EXTENSIONS", str(tmp_path))
    moved, overrides = tmp_path / "conf/model", ("task=morphology", "model=mine")
    file = moved / "mine.yaml"
    atomic_write_text(file, "defaults: [morphology, _self_]\nhidden_size: 8\n")
    aside, protocol = tmp_path / "conf/aside", tmp_path / "conf/protocol/model"
    (aside / "protocol").mkdir(parents=True)
    (aside / "protocol/mine_morphology_demo.yaml").write_text("hidden_size: 12\n")
    path = tmp_path / "plans.json"
    for size in (8, 12):
        plans = Plans(path)
        assert plans[overrides].settings["model.hidden_size"] == size
        plans.save()
        if aside.exists():
            protocol.parent.mkdir()
            (aside / "protocol").rename(protocol)
            aside.rmdir()


@pytest.mark.parametrize("in_file", [False, True])
def test_plans_that_read_the_environment_are_made_anew(tmp_path, monkeypatch, in_file):
    rate = "${oc.env:LR}"
    overrides = (*PLAN, f"training.learning_rate={rate}")
    if in_file:
        file = tmp_path / "conf" / "training" / "mine.yaml"
        atomic_write_text(file, f"defaults: [morphology, _self_]\nlearning_rate: {rate}\n")
        monkeypatch.setenv("REPRO_EXTENSIONS", str(tmp_path))
        overrides = (*PLAN, "training=mine")
    path = tmp_path / "plans.json"
    for value in (0.01, 0.3):
        monkeypatch.setenv("LR", str(value))
        plans = Plans(path)
        assert plans[overrides].settings["training.learning_rate"] == value
        assert plans[tuple(PLAN)] == planned(PLAN)
        plans.save()
    assert path.exists() != in_file  # the other plan is kept


@pytest.mark.parametrize("content", ["", "[]", '{"of": 1}', "\x00"])
def test_damaged_plans_are_made_anew(tmp_path, content):
    path = tmp_path / "plans.json"
    path.write_text(content)
    plans = Plans(path)
    assert plans[tuple(PLAN)] == planned(PLAN)
    plans.save()
    assert list(Plans(path)._known) == [planning.json.dumps(PLAN)]


def test_the_name_of_a_choice_is_that_in_its_file_now(tmp_path, monkeypatch):
    monkeypatch.setenv("REPRO_EXTENSIONS", str(tmp_path))
    file = tmp_path / "conf" / "mapping" / "mild.yaml"
    atomic_write_text(file, "name: [\n")
    with pytest.raises(ConfigError, match=r"mild\.yaml:\d"):
        choices_in(["mapping=mild"])
    file.write_text("name: milder\n")
    assert choices_in(["mapping=mild"]) == {"mapping": "milder"}


def test_a_schema_has_one_module(monkeypatch):
    twice = [*registry._modules(), registry._modules()[-1]]
    monkeypatch.setattr(registry, "_modules", lambda: twice)
    with pytest.raises(ConfigError, match=twice[-1].__name__):
        registry.registered_schemas.__wrapped__()


@pytest.mark.parametrize("declared", [3, {"task": 3}, {"task": {"mine": 3}}])
def test_schemas_that_are_no_dictionary_are_refused(monkeypatch, declared):
    module = SimpleNamespace(__name__="mine", __file__="/mine.py", SCHEMAS=declared)
    monkeypatch.setattr(registry, "_modules", lambda: [module])
    with pytest.raises(ConfigError, match=r"/mine\.py: SCHEMAS is "):
        registry.registered_schemas.__wrapped__()


@pytest.mark.parametrize("declared", [3, [3], [SimpleNamespace]])
def test_run_classes_of_another_type_are_refused(monkeypatch, declared):
    module = SimpleNamespace(__name__="mine", __file__="/mine.py", RUNS=declared)
    monkeypatch.setattr(registry, "_modules", lambda: [module])
    with pytest.raises(
        ConfigError, match=r"/mine\.py: RUNS is .*; expected subclasses of RunConfig"
    ):
        registry._run_classes.__wrapped__()


def test_a_task_has_one_run_class(monkeypatch):
    monkeypatch.setattr(registry, "_modules", lambda: [morphology, morphology])
    with pytest.raises(ConfigError, match=r"MorphologyConfig has .*\.MorphologyRun already"):
        registry._run_classes.__wrapped__()
