import shlex
from importlib.metadata import PackageNotFoundError
from itertools import product
from pathlib import Path
from typing import Any

import forked
import pytest
import yaml
from hydra.core.plugins import Plugins
from omegaconf import OmegaConf

from repro.atomic import atomic_write_text
from repro.cli import main
from repro.config import ConfigError
from repro.config.compose import compose_run, hydra_application, sweep_application
from repro.config.loading import group_choices
from repro.config.overrides import (
    as_override,
    combinations,
    parse_override,
    quote_folders,
    resolved,
    with_search_path,
)
from repro.config.schema.mapping import EntmaxConfig
from repro.runs.job import locate

MINE = "defaults: [base_entmax, _self_]\nname: entmax\nalpha: 1.125\n"
EXPERIMENT = "# @package _global_\nhydra: {sweeper: {params: {seed: '1,2,3'}}}\n"


def split(*overrides: str) -> list[tuple[str, ...]]:
    with hydra_application() as application:
        return combinations(overrides, application.config_loader())


def test_a_glob_matches_choices_and_no_schemas():
    names = [name for name in group_choices("mapping") if name.endswith("max")]
    expected = [(f"mapping={name}", f"seed={seed}") for name in names for seed in (1, 2)]
    assert split("mapping=glob(*max)", "seed=1,2") == expected
    assert {"softmax", "entmax"} < set(names)


def test_a_glob_may_exclude():
    found = split("mapping=glob([s*,c*],exclude=[c*,sq*])")
    assert found == [("mapping=softmax",), ("mapping=sparsemax",)]


def test_hydras_sweeps_are_those_of_its_own_sweeper():
    overrides = ["seed=range(1,4)", "mapping.alpha=choice(1,2)", "+x='a,b'", "seed=7,8"]
    found = split(*overrides)
    assert found == [
        (f"mapping.alpha={alpha}", "+x='a,b'", f"seed={seed}")
        for alpha in (1, 2)
        for seed in (7, 8)
    ]


def test_a_text_that_looks_like_a_number_stays_as_it_was_typed():
    base = ["task=parsing", "scale=full"]
    for typed, text in (("2.10", "2.10"), ("'2.10'", "2.10"), ("1e3", "1e3"), ("2", "2")):
        assert compose_run([*base, f"data.release={typed}"]).data.release == text
    assert compose_run([*base, "name=007"]).name == "007"
    assert compose_run([*base, "data.folder=null"]).data.folder is None
    assert compose_run([*base, "training.learning_rate=1e-3"]).training.learning_rate == 0.001
    assert split("data.release=2.10, 2.2") == [("data.release=2.10",), ("data.release=2.2",)]
    assert split("data.release=choice('2.10',a)") == [("data.release=2.10",), ("data.release=a",)]


@pytest.mark.parametrize(
    "overrides",
    [
        "data.release=2.10 task=parsing",
        "seed=4 ++seed=3",
        "task=nli_alignment structure=null",
        "mapping.alpha=${training.decay_from} results_dir=here",
    ],
)
def test_the_configuration_of_a_run_is_the_one_that_is_printed(overrides, capsys):
    first, second = overrides.split()
    run = OmegaConf.structured(compose_run([first, second]))
    for command in (["--cfg", "job", first, second], [first, "--cfg=job", "--resolve", second]):
        assert main(["run", *command]) == 0
        assert capsys.readouterr().out == OmegaConf.to_yaml(run)
    for package, expected in (
        ("task", OmegaConf.to_yaml(run.task)), ("seed", f"{run.seed}\n"), ("structure", "null\n"),
    ):  # fmt: skip
        assert main(["run", "-c", "job", first, "--package", package, second]) == 0
        assert capsys.readouterr().out == expected


@pytest.mark.parametrize("view", [["--cfg", "job"], ["--cfg", "all"], ["--info", "config"]])
@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("seed=-1", "seed is -1; expected a number in [0, 9223372036854775808)"),
        ("seed=1,2", "seed=1,2: several values; sweep with `run -m`"),
        ("+seed=2", "+seed=2: the key exists; leave out the +"),
        ("scale=subset", "task=snli has no scale=subset; choose scale= one of demo, full, small"),
        ("mapping=csoftmax", "the mapping 'csoftmax' does not fit task=snli; choose mapping= one"),
        ("sede", "cannot read 'sede'; expected KEY=VALUE"),
    ],
)
def test_what_a_run_refuses_is_not_printed(view, override, expected, refused):
    for command in (view, []):
        assert refused("run", "task=snli", override, *command).startswith(expected)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("seed=3 --cfg hydra", "hydra"),
        ("--cfg hydra hydra/launcher=slurm --package hydra.launcher", "partition: null"),
        ("--info searchpath seed=3", "hydra"),
        ("--hydra-help", "hydra"),
        ("--cfg all task=parsing structure=null", "\nstructure: null\n"),
        ("--info config task=nli_alignment structure=matching structure=null", "structure: null"),
        (
            "--cfg all task=parsing structure=null structure=arborescence -p structure",
            "arborescence",
        ),
    ],
)
def test_hydra_prints_what_it_knows(arguments, expected):
    done = forked.run("run", *arguments.split())  # Hydra changes how this process logs
    assert (done.returncode, done.stderr) == (0, "")
    assert expected in done.stdout


SAME = {
    "task=nli_alignment structure=null": ["task=nli_alignment"],
    "task=nli_alignment structure=matching structure=null": ["task=nli_alignment"],
    "task=nli_alignment structure=null structure=matching": [
        "task=nli_alignment structure=matching"
    ],
    "task=nli_alignment +experiment=matched structure=null": ["task=nli_alignment seed=7"],
    "task=nli_alignment structure=null,matching": [
        "task=nli_alignment",
        "task=nli_alignment structure=matching",
    ],
    "task.schedule.high.max_epochs=1 task.schedule={high:{max_epochs:2}} "
    "task.setting=high task.schedule.high.max_epochs=3": [
        "task.setting=high task.schedule.high.max_epochs=3"
    ],
    "task.setting=high task.schedule.high.max_epochs=3 task.schedule={high:{max_epochs:2}}": [
        "task.setting=high task.schedule.high.max_epochs=2"
    ],
    "task=nmt model.fertility={least:3} model.fertility.least=2 model.fertility={value:4}": [
        "task=nmt model.fertility.least=2 model.fertility.value=4"
    ],
    "seed=4 mapping=softmax ++seed=3 mapping=entmax": ["mapping=entmax seed=3"],
    "task=nmt task=snli": ["task=snli"],
    "task=snli scale=mine": ["task=snli scale=mine data.train_premises=9 seed=3"],
    "mapping=fusedmax,oscarmax mapping.lam=0.2": [
        "mapping=fusedmax mapping.lam=0.2",
        "mapping=oscarmax mapping.lam=0.2",
    ],
    "mapping=glob(*rmax,exclude=n*) mapping.lam=0.2": ["mapping=oscarmax mapping.lam=0.2"],
    "mapping=glob(*max,exclude=cs*) seed=2": [
        f"mapping={name} seed=2" for name in group_choices("mapping") if not name.startswith("cs")
    ],
    "task=nmt,summarization data.lowercase=true": [
        "task=nmt data.lowercase=true",
        "task=summarization data.lowercase=true",
    ],
    "task=snli,nli_alignment mapping.gamma=2": [
        "task=snli mapping.gamma=2",
        "task=nli_alignment mapping.gamma=2",
    ],
    "+experiment=hard,soft mapping.gamma=2": [
        "mapping=sparsemax mapping.gamma=2",
        "mapping=softmax mapping.gamma=2",
    ],
    "+experiment=swept mapping.lam=0.3": [
        "mapping=fusedmax mapping.lam=0.3",
        "mapping=oscarmax mapping.lam=0.3",
    ],
    "+experiment=weighted mapping=fusedmax,oscarmax": [
        "mapping=fusedmax mapping.lam=0.5",
        "mapping=oscarmax mapping.lam=0.5",
    ],
}
FURTHER = {
    "experiment/hard": "defaults: [{override /mapping: sparsemax}]",
    "experiment/soft": "defaults: [{override /mapping: softmax}]",
    "experiment/swept": "hydra: {sweeper: {params: {mapping: 'fusedmax,oscarmax'}}}",
    "experiment/weighted": "mapping: {lam: 0.5}",
    "experiment/matched": "defaults: [{override /structure: matching}]\nseed: 7",
    "scale/mine": "scale: {name: mine}",
    "protocol/snli_mine": "data: {corpus: demo_nli, generated: true, train_premises: 9}\n"
    "model: {vectors: random}\nseed: 3",
}


@pytest.mark.parametrize(("line", "runs"), SAME.items())
def test_a_sweep_composes_its_runs_as_single_ones(line, runs, tmp_path, capsys):
    for name, content in FURTHER.items():
        path = tmp_path / "conf" / f"{name}.yaml"
        atomic_write_text(path, f"# @package _global_\n{content}\n")
    path = f"hydra.searchpath=['file://{tmp_path / 'conf'}']"
    shared = [f"results_dir={tmp_path / 'r'}", "hardware=cpu"]
    single = [[*one.split(), *shared, path] for one in runs]
    expected = [locate(compose_run(one), one).run_id for one in single]
    further = ["-cd", str(tmp_path / "conf")]
    assert main(["run", "-m", "--dry-run", *line.split(), *shared, *further]) == 0
    listed = capsys.readouterr().out.splitlines()[:-1]
    assert [one.split()[0] for one in listed] == expected
    if len(runs) == 1 and "glob" not in line:
        one = [*line.split(), *shared, path]
        assert locate(compose_run(one), one).run_id == expected[0]


def test_hydras_settings_read_those_of_a_sweep(tmp_path):
    typed = ["mapping=fusedmax,oscarmax", "mapping.lam=0.25", "seed=1,2", "task.setting=medium"]
    folder = f"hydra.sweep.dir='{tmp_path}/${{task.setting}}-${{mapping.lam}}'"
    with sweep_application([*typed, folder]) as (_, master):
        assert master.hydra.sweep.dir == f"{tmp_path}/medium-0.25"


def test_a_key_with_plus_signs_is_the_same_axis():
    assert split("seed=1,2", "++seed=3,4") == [("seed=3",), ("seed=4",)]
    assert split("++data.release=2.10, 2.2") == [("data.release=2.10",), ("data.release=2.2",)]


SWEPT = {
    "mapping=glob(*smax)": "matches no choice of mapping",
    "seed=glob(*)": "matches no choice of seed",
    "seed=interval(1,2)": "an interval has no list of values",
    "seed=range(1,1)": "seed=range(1,1) has no values",
    "seed=range(1,3),5": "seed=range(1,3),5: several sweeps of one key",
    "name=a,b": "several names; a sweep has one, name=NAME",
}
TWICE = "task.schedule.high is swept twice; expected one {…}, or task.schedule.high.KEY=VALUE"
UNREADABLE = {
    "seed=choice(1": "expected KEY=VALUE",
    "name=é": "'name=\"é\"'",
    "name=it's": "double quotes",
}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        *(
            (f"-m {shlex.quote(override)}", expected)
            for override, expected in (SWEPT | UNREADABLE).items()
        ),
        *((shlex.quote(override), expected) for override, expected in UNREADABLE.items()),
        *((shlex.quote(override), "run -m") for override in SWEPT),
        ("-m mapping@loss=entmax seed=1,2", "mapping@loss=entmax: expected mapping=NAME"),
        ("-m mapping@loss=entmax,softmax", "expected mapping=NAME"),
        ("-m 'task.schedule.high={a: 1},{a: 2}' 'task.schedule.high={b: 1},{b: 2}'", TWICE),
        ("-m seed=1,2 hydra.sweep.dir=/tmp/${hydra.job.num}", "reads hydra.job.num, which is"),
        ("-m protocol=nmt_demo seed=1,2", "expected task=NAME and scale=NAME"),
        ("--cfg job protocol@_global_=nmt_demo", "expected task=NAME and scale=NAME"),
        ("--cfg job model=morphology.yaml", "expected the name of a choice, without .yaml"),
        ("--cfg job mapping=entmax +mapping=softmax", "+mapping=softmax: leave out the +"),
        ("-m mapping=entmax,softmax +mapping=softmax", "+mapping=softmax: leave out the +"),
        ("-m +mapping=entmax,softmax", "+mapping=entmax: leave out the +"),
        ("++hydra.searchpath=[conf]", "++hydra.searchpath=[conf]: the key exists; leave out"),
        ("-m seed=1,2 ++hydra.searchpath=[conf]", "the key exists; leave out the +"),
        ("hydra.searchpath=/tmp", "hydra.searchpath=/tmp: expected a list of folders"),
        ("-m seed=1,2 hydra.searchpath=null", "=null: expected a list of folders"),
        ("-m hydra.launcher.foo=1", "unknown key 'foo'; valid keys here: parallel_runs"),
        ("-m task=parsing data.release=choice(2.10,2.0)", "2.1; expected a text, in quotes"),
        ("task.languages=[no,1.10]", "task.languages is 1.1; expected a text, in quotes"),
        ("+experiment=sub/dee", "no experiment 'sub/dee'; choose experiment= one of"),
        (
            "mapping=entmax mapping.gamma=1",
            "a key of mapping=fusedmax, oscarmax, softmax, sparsemax",
        ),
        ("-m seed=1,2 seed=${oc.env:NOSEED}", "seed reads the environment variable"),
        ("hydra.searchpath=[conf] hydra.searchpath=[conf]", "hydra.searchpath is given twice"),
        ("-m hydra.searchpath=[conf] hydra.searchpath=[conf]", "given twice; name all fold"),
        ("-m seed=1,2 hydra.launcher.parallel_runs=1,2", "a sweep has one setting of Hy"),
        ("-m seed=1,2 mapping.alpha=2,0.5", "seed=1 mapping.alpha=0.5: mapping.alpha is 0"),
        ("-m mapping=fusedmax,entmax mapping.lam=1", "mapping=entmax: mapping.lam (mapping="),
        ("-m structure=matching seed=1,2", "the task does not use structure=matching"),
        ("-m mapping=glob(*max)", "fit task=morphology; choose mapping= one of entmax, fusedmax"),
        ("-m +experiment=entmax_everywhere task=parsing", "and a task that has a choice of"),
        ("-m seed=1,2 +hydra/launcher=basic", "+hydra/launcher=basic: leave out the +"),
        ("-m task=nmt training=morphology seed=1,2", "max_epochs reads task.setting"),
        ("-m --dry-run hydra/sweeper=basic seed=1,2", "choose hydra/sweeper=grid"),
        ("-m ~hydra/launcher seed=1,2", "~hydra/launcher: nothing can be deleted"),
        ("-m seed=1,2 +hydra.nope=1", "+hydra.nope=1: unknown key 'nope'; valid keys"),
        ("-m seed=1,2 hydra.sweeper=grid", "hydra.sweeper is grid; expected hydra/sweeper"),
        ("-m +hydra.callbacks.x=3", "hydra.callbacks.x is 3; expected a mapping with _target"),
        ("-m '+hydra.callbacks.x={a: 3}'", "is {'a': 3}; expected a mapping with _target_"),
        (
            "-m '+hydra.callbacks.x={_target_: nope.Nope}'",
            "hydra.callbacks.x: 'nope.Nope' cannot be created (No module named 'nope')",
        ),
        ("/mapping=entmax", "expected KEY=VALUE with a key such as mapping.alpha"),
        ("-m 'seed =1,2'", "expected KEY=VALUE with a key such as mapping.alpha"),
        ("-m hydra.job.chdir=true", "hydra.job.chdir=true changes nothing in a sweep"),
        ("-m +hydra.job.env_set.X=1 seed=1,2", "+hydra.job.env_set.X=1 changes nothing"),
        ("-m hydra.output_subdir=x hydra/launcher=slurm", "hydra.output_subdir=x changes"),
        ("-m hydra.run.dir=x hydra/launcher=basic", "hydra.run.dir=x changes nothing"),
        ("hydra=1", "hydra=1: expected hydra.KEY=VALUE"),
        ("-m hydra.sweeper.params.seed=3", "is written +hydra.sweeper.params.seed=VALUE"),
        ("-m results_dir=/tmp/A,/tmp/B", "a sweep has one, results_dir=FOLDER; write a name"),
        ("-m \"results_dir='/tmp/A','/tmp/B'\"", "several folders; a sweep has one, results_dir="),
        ("-cd here --config-dir=there", "name all folders in hydra.searchpath=[A,B]"),
        ("--cfg job -cd here -cd there", "--config-dir is given twice"),
        ("--cfg job hydra.launcher.parallel_runs=2", "is for multiruns; add -m"),
        ("--cfg job hydra.job.chdir=true", "changes nothing in a single run"),
        ("data.corpus=a data.folder=b", "data.corpus is not read beside data.folder"),
        ("-m data.corpus=a data.folder=b,c", "data.corpus is not read beside data.folder"),
        ("-cn other", "is not supported"),
        ("--config-path=x", "is not supported"),
        ("--experimental-rerun job.pickle", "is not supported"),
    ],
)
def test_arguments_that_are_not_taken_are_refused_in_one_line(arguments, expected, refused):
    assert expected in refused("run", *shlex.split(arguments))


@pytest.mark.parametrize("folder", ["/tmp/é", "it's", "a \"b'", "back\\sl'ash", "[a"])
def test_quotes_that_a_message_proposes_are_read(folder):
    with pytest.raises(ConfigError) as caught:
        split(f"results_dir={folder}")
    _, _, proposed = str(caught.value).rpartition("ASCII: ")
    assert compose_run(shlex.split(proposed)).results_dir == str(Path(folder).absolute())
    assert compose_run(quote_folders([f"results_dir={folder}"])).results_dir.endswith(folder)


@pytest.mark.parametrize("option", ["hydra", "-cd", "--config-dir"])
def test_further_folders_of_choices_are_checked(option, tmp_path, refused):
    atomic_write_text(tmp_path / "mapping" / "mine.yaml", MINE)
    further = [option, str(tmp_path)]
    if option == "hydra":
        further = [f"hydra.searchpath=['file://{tmp_path}']"]
    for override, expected in (
        ("mapping=mine", "seed is -1"),
        ("mapping=other", "no mapping 'other'; choose mapping= one of csoftmax"),
        ("mapping=other", "learned_alpha_entmax, mine, normmax"),
    ):
        assert expected in refused("run", override, "seed=-1", *further)
    (tmp_path / "mapping" / "mine.yaml").write_text(MINE.replace("name: entmax", "name: other"))
    assert "mapping.name is 'other'; expected one of" in refused(
        "run", "--dry-run", "mapping=mine", *further, f"results_dir={tmp_path}"
    )
    if option != "hydra":
        assert str(tmp_path / "absent") in refused("run", option, str(tmp_path / "absent"))


@pytest.mark.parametrize(
    "command",
    [["run"], ["run", "--dry-run"], ["run", "-m", "mapping=mine"], ["run", "--cfg", "job"]],
)
@pytest.mark.parametrize("prefix", ["", "file://"])
def test_a_folder_of_the_search_path_that_does_not_exist_is_refused(
    command, prefix, tmp_path, refused
):
    path = f"hydra.searchpath=[{prefix}{tmp_path}/here,{prefix}{tmp_path}/absent]"
    (tmp_path / "here").mkdir()
    line = refused(*command, path, f"results_dir={tmp_path}")
    assert line == f"{path}: there is no folder {tmp_path}/absent"


@pytest.mark.parametrize("command", [["run"], ["run", "-m"], ["run", "--cfg", "job"]])
@pytest.mark.parametrize("entry", ["pkg://repro", "'${oc.env:HOME}'", "'structured://x'"])
def test_an_entry_of_the_search_path_that_is_no_folder_is_refused(command, entry, refused):
    path = f"hydra.searchpath=[{entry}]"
    line = refused(*command, path, "seed=1")
    entry = entry.strip("'")
    expected = f"expected a folder, not {entry}; REPRO_EXTENSIONS serves for packages"
    assert line == f"{path}: {expected}"


@pytest.mark.parametrize("option", ["hydra", "-cd"])
def test_further_folders_are_searched_in_sweeps(option, tmp_path, capsys, refused):
    atomic_write_text(tmp_path / "mapping" / "mine.yaml", MINE)
    atomic_write_text(tmp_path / "experiment" / "seeds.yaml", EXPERIMENT)
    further = [option, str(tmp_path)]
    if option == "hydra":
        further = [f"hydra.searchpath=['file://{tmp_path}']"]
    for sweep, planned in (
        ("mapping=mine,softmax", "2 runs"),
        ("mapping=glob(m*)", "1 run"),
        ("+experiment=seeds", "3 runs"),
    ):
        assert main(["run", "-m", sweep, *further, "--dry-run", f"results_dir={tmp_path}"]) == 0
        assert f"{planned}, 0 of them done" in capsys.readouterr().out
    assert "hydra.sweeper.params.seed is for multiruns; add -m" in refused(
        "run", "+experiment=seeds", *further, "--dry-run", f"results_dir={tmp_path}"
    )


def test_a_dry_run_counts_combinations_that_give_one_run(tmp_path, capsys):
    where = f"results_dir={tmp_path}"
    for swept, last in (
        (["mapping.alpha=2,2.0"], "2 combinations, 1 run, 0 of them done"),
        (["mapping.alpha=2,2.0", "seed=1,2"], "4 combinations, 2 runs, 0 of them done"),
        (["mapping.alpha=2,2.0", "logger=csv"], "2 combinations, 1 run, 0 of them done"),
        (["seed=1,2"], "2 runs, 0 of them done"),
    ):
        assert main(["run", "-m", *swept, "--dry-run", where]) == 0
        assert capsys.readouterr().out.splitlines()[-1] == last


@pytest.mark.parametrize("swept", [
    "logger=csv,tensorboard", "hardware=cpu,auto", "hardware.threads=1,2", "fail_fast=true,false",
    "training.checkpoint_minutes=1,2", "task.shown=[a],[b]", "+experiment=one,four",
])  # fmt: skip
@pytest.mark.parametrize("dry", [[], ["--dry-run"]])
def test_a_swept_key_that_is_no_part_of_the_identity_is_refused(swept, dry, tmp_path, refused):
    for name, threads in (("one", 1), ("four", 4)):
        path = tmp_path / "conf" / "experiment" / f"{name}.yaml"
        atomic_write_text(path, f"# @package _global_\nhardware: {{threads: {threads}}}\n")
    further = ["-cd", str(tmp_path / "conf"), f"results_dir={tmp_path / 'results'}"]
    key = swept.partition("=")[0].lstrip("+")
    for sweep in ([swept], ["seed=1,2", swept], [swept, "mapping.alpha=2,2.0"]):
        expected = f"{key} is swept, but its runs would be one: name one value"
        assert refused("run", "-m", *sweep, *dry, *further) == expected
    assert not [*tmp_path.glob("results/demo/sweeps/*")]


@pytest.mark.parametrize("form", ["{0}/a,{0}/b", "'{0}/a','{0}/b'"])
def test_folders_of_different_corpora_are_swept(form, tmp_path, capsys, refused):
    for folder, split in product("ab", ("train", "dev", "test")):
        path = tmp_path / folder / "mine" / f"xx-{split}"
        atomic_write_text(path, "a\tas\tN\nb\tbs\tN\n")
    swept = f"data_dir={form.format(tmp_path)}"
    typed = [f"results_dir={tmp_path}", "data.folder=mine", "task.languages=[xx]", swept]
    expected = "data_dir is swept, but its runs would be one: name one value"
    assert refused("run", "-m", "--dry-run", *typed) == expected
    path.write_text("c\tcs\tN\n", encoding="utf-8")
    assert main(["run", "-m", "--dry-run", *typed]) == 0
    *runs, count = capsys.readouterr().out.splitlines()
    labels = [line.split()[-1].replace("'", "") for line in runs]
    assert labels == [f"data_dir={tmp_path}/a", f"data_dir={tmp_path}/b"]
    assert count == "2 runs, 0 of them done"


def test_a_group_of_a_further_folder_is_chosen_with_a_plus(tmp_path, refused):
    atomic_write_text(tmp_path / "study" / "mine.yaml", "# @package _global_\nseed: 3\n")
    for command in (["run"], ["run", "-m"], ["run", "--cfg", "job"]):
        line = refused(*command, "study=mine", "-cd", str(tmp_path))
        assert line == "study has no default; choose it with a +, as +study=mine"


def test_a_further_folder_without_files_of_choices_is_no_group(tmp_path):
    for name in ("seed", "src/inner"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "src/inner/mine.yaml").write_text("# @package _global_\nseed: 3\n")
    further = f"hydra.searchpath=['{tmp_path}']"
    assert compose_run([further, "seed=2"]).seed == 2
    assert compose_run([further, "+src/inner=mine"]).seed == 3
    with pytest.raises(ConfigError, match="unknown key 'src'; valid keys here: task, data, "):
        compose_run([further, "src=mine"])


def test_a_folder_with_a_comma_may_be_that_of_a_sweep(tmp_path):
    folder = f"{tmp_path}/a,b"
    assert quote_folders([f"results_dir={folder}"]) == [f"results_dir='{folder}'"]
    typed = f'results_dir="{folder}"'
    assert quote_folders([typed], sweep=True) == [typed]
    Path(folder).mkdir()
    assert quote_folders([f"results_dir={folder}"], sweep=True) == [f"results_dir='{folder}'"]


def test_a_home_folder_in_a_file_is_the_one_that_is_typed(tmp_path):
    atomic_write_text(tmp_path / "study" / "mine.yaml", "# @package _global_\nresults_dir: ~/x\n")
    run = compose_run(["+study=mine", f"hydra.searchpath=['{tmp_path}']"])
    assert run.results_dir == str(Path.home() / "x")


def test_choices_beside_further_folders_are_composed_once(tmp_path, monkeypatch):
    path = f"hydra.searchpath=['file://{tmp_path}']"
    compose_run([path, "seed=1"])
    monkeypatch.setattr("repro.config.compose.compose", None)
    assert compose_run([path, "seed=2"]).seed == 2


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ('{name: null, seed: "1,2"}', ["name=null", "seed=1,2"]),
        ("{fail_fast: true}", ["fail_fast=true"]),
        ("{mapping.alpha: 1.25}", ["mapping.alpha=1.25"]),
        ("{task.languages: [ü, null]}", ['task.languages=["ü", null]']),
        ("{data.folder: null}", ["data.folder=null"]),
        ("{data.folder: /tmp/it's}", [r"data.folder='/tmp/it\'s'"]),
        ("{task.setting: ü}", ["task.setting='ü'"]),
        ("{mapping: glob(s*)}", ["mapping=glob(s*)"]),
    ],
)
def test_settings_of_a_sweeper_are_written_as_overrides(params, expected):
    written = [as_override(str(key), value) for key, value in yaml.safe_load(params).items()]
    assert written == expected
    assert all(parse_override(item) for item in written)


@pytest.mark.parametrize(
    ("override", "value", "expected"),
    [
        ("training.learning_rate=${oc.env:MINE}", "0.01", "training.learning_rate=0.01"),
        ("++data.source='${oc.env:MINE}'", "it's a,b", r"++data.source='it\'s a,b'"),
        ("mapping.alpha=${training.decay}", "1", "mapping.alpha=${training.decay}"),
        ("mapping.alpha=1.5", "1", "mapping.alpha=1.5"),
    ],
)
def test_what_reads_the_environment_is_shown_by_its_value(override, value, expected, monkeypatch):
    monkeypatch.setenv("MINE", value)
    assert resolved(override) == expected
    parse_override(expected)


def test_files_of_further_folders_are_read_again(tmp_path):
    (tmp_path / "mapping").mkdir()
    for alpha in (1.125, 1.25):
        (tmp_path / "mapping" / "mine.yaml").write_text(MINE.replace("1.125", str(alpha)))
        run = compose_run(["mapping=mine", f"hydra.searchpath=['file://{tmp_path}']"])
        assert run.mapping == EntmaxConfig(name="entmax", alpha=alpha)


def test_further_folders_are_named_in_one_way(tmp_path):
    with pytest.raises(ConfigError, match="name all folders in the latter"):
        with_search_path([f"hydra.searchpath=['{tmp_path}']"], str(tmp_path))


def test_long_messages_and_several_lines_become_one_line(refused):
    line = refused("run", "mapping.alpha=" + "a" * 5000)
    assert len(line) < 2100
    assert "[…]" in line


@pytest.mark.parametrize("command", [["report"], ["show", "3f2a"], ["status"], ["data", "list"]])
def test_an_interpolation_that_is_not_resolved_is_refused(command, refused):
    key = "data_dir" if command[0] == "data" else "results_dir"
    line = refused(*command, f"{key}=${{oc.env:D}}/r")
    assert line == f"{key} is '${{oc.env:D}}/r'; this command reads no interpolation"


@pytest.mark.parametrize("command", [["report"], ["show", "3f2a"], ["run"], ["data", "list"]])
def test_an_empty_folder_is_refused(command, refused):
    key = "data_dir" if command[0] == "data" else "results_dir"
    assert f"{key} is ''; expected a folder" in refused(*command, f"{key}=")


@pytest.mark.parametrize(
    ("wrong", "culprit"),
    [
        ("mapping=entmx", "no mapping 'entmx' (did you mean 'entmax'?)"),
        ("hydra.launcher.partion=x", "hydra.launcher.partion: unknown key 'partion'; valid"),
        ("hydra/sweeper=optuna hydra.sweeper.n_trials=2", "hydra/sweeper=optuna needs "),
        ("structure=matching", "the task does not use structure=matching; leave it out"),
        ("hydra/launcher=slrm", "no hydra/launcher 'slrm' (did you mean 'slurm'?)"),
    ],
)
def test_what_is_wrong_beside_the_settings_of_a_launcher_is_named(
    wrong, culprit, monkeypatch, refused
):
    def absent(name: str) -> str:
        raise PackageNotFoundError(name)

    if "optuna" in wrong:
        discover = Plugins.instance().discover

        def without_optuna(_: Plugins, *kind: Any) -> list[type]:
            return [one for one in discover(*kind) if "Optuna" not in one.__name__]

        monkeypatch.setattr(Plugins, "discover", without_optuna)
        monkeypatch.setattr("repro.config.errors.version", absent)
    launcher = ["hydra/launcher=slurm", "hydra.launcher.partition=gpu"]
    assert refused("run", "-m", "seed=1,2", *launcher, *wrong.split()).startswith(culprit)
