import shlex
from pathlib import Path

import pytest

from repro.cli import main
from repro.config import ConfigError
from repro.config.compose import compose_run, group_choices
from repro.config.sweeps import combinations, expand_globs

MINE = "defaults: [base_entmax, _self_]\nname: entmax\nalpha: 1.125\n"


def test_a_glob_matches_choices_and_no_schemas() -> None:
    expanded = expand_globs(["-m", "mapping=glob(*max)", "seed=1,2"])
    names = [name for name in group_choices("mapping") if name.endswith("max")]
    assert expanded == ["-m", f"mapping={','.join(names)}", "seed=1,2"]
    assert {"softmax", "entmax"} < set(names)
    assert len(combinations(expanded[1:], None)) == 2 * len(names)


def test_a_glob_may_exclude() -> None:
    (expanded,) = expand_globs(["mapping=glob([s*,c*],exclude=[c*,sq*])"])
    assert expanded == "mapping=softmax,sparsemax"


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("mapping=glob(*smax)", "matches no choice of mapping"),
        ("seed=glob(*)", "matches no choice of seed"),
        ("seed=interval(1,2)", "an interval has no list of values"),
        ("seed=choice(1", "expected KEY=VALUE"),
        ("results_dir=/tmp/é", "'results_dir=\"/tmp/é\"'"),
        ("results_dir=it's", "double quotes"),
    ],
)
@pytest.mark.parametrize("options", [[], ["-m"]])
def test_what_cannot_be_swept_is_refused_in_one_line(
    override: str, expected: str, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", *options, override]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert expected in line


@pytest.mark.parametrize("folder", ["/tmp/é", "it's", "a \"b'", "back\\sl'ash", "[a"])
def test_quotes_that_a_message_proposes_are_read(folder: str) -> None:
    with pytest.raises(ConfigError) as caught:
        expand_globs([f"results_dir={folder}"])
    _, _, proposed = str(caught.value).rpartition("ASCII: ")
    assert compose_run(shlex.split(proposed)).results_dir == folder


@pytest.mark.parametrize("option", ["hydra", "-cd", "--config-dir"])
def test_further_folders_of_choices_are_checked(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mapping").mkdir()
    (tmp_path / "mapping" / "mine.yaml").write_text(MINE)
    further = ["-cd", str(tmp_path)]
    if option == "hydra":
        further = [f"hydra.searchpath=['file://{tmp_path}']"]
    for override, expected in (
        ("mapping=mine", "seed is -1"),
        ("mapping=other", "no mapping 'other'"),
    ):
        assert main(["run", override, "seed=-1", *further]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert expected in line


def test_further_folders_are_part_of_every_combination(tmp_path: Path) -> None:
    (tmp_path / "mapping").mkdir()
    (tmp_path / "mapping" / "mine.yaml").write_text(MINE)
    runs = combinations(["mapping=mine,softmax", "seed=1,2"], str(tmp_path))
    assert [compose_run(run).mapping.name for run in runs] == ["entmax"] * 2 + ["softmax"] * 2  # type: ignore[union-attr]
    with pytest.raises(ConfigError, match="name all folders in the latter"):
        combinations([f"hydra.searchpath=['{tmp_path}']"], str(tmp_path))


@pytest.mark.parametrize(
    "option", [["-cn", "other"], ["--config-path=x"], ["--experimental-rerun", "job.pickle"]]
)
def test_options_that_replace_the_configuration_are_refused(
    option: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", *option]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "is not supported" in line


def test_long_messages_and_several_lines_become_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["run", "mapping.alpha=" + "a" * 5000]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert len(line) < 2100
    assert "[…]" in line


@pytest.mark.parametrize("command", [["report"], ["show", "3f2a"], ["run"], ["data", "list"]])
def test_an_empty_folder_is_refused(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    key = "data_dir" if command[0] == "data" else "results_dir"
    assert main([*command, f"{key}="]) == 2
    assert f"{key} is ''; expected a folder" in capsys.readouterr().err
