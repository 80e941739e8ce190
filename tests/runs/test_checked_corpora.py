"""Malformed corpora are refused, with file and line, before any run has a folder."""

import json
import shutil
from pathlib import Path

import pytest
import torch

from repro.cli import main
from repro.config.compose import compose_run
from repro.config.paths import conf_dir
from repro.results import list_runs
from repro.runs.job import locate
from repro.runs.train import build_task, check
from repro.tasks import entailment

INFERENCE = [
    "data.generated=false", "data.corpus=nli", "data.check_size=false", "model.vectors=random",
    "training.max_steps=1",
]  # fmt: skip


def write(path: Path, *lines: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes("".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape"))


def pair(number: int) -> str:
    row = {"gold_label": "neutral", "sentence1": "a b", "sentence2": "c d", "pairID": f"p{number}"}
    return json.dumps(row)


def write_inference(data: Path, source: str, **broken: str) -> None:
    parts = {"snli": ("train", "dev", "test"), "multinli": ("train", "dev_matched")}[source]
    for part in parts:
        rows = [pair(number) for number in range(6)]
        rows[3] = broken.get(part, rows[3])
        write(data / f"{source}_1.0" / f"{source}_1.0_{part}.jsonl", *rows)


def write_translation(data: Path) -> None:
    for stem in ("train", "val", "test"):
        for language in ("de", "en"):
            write(data / "tatoeba" / f"{stem}.{language}", *["ein kleines Haus"] * 4)


def write_summaries(data: Path) -> None:
    references = [f"task1_ref{number}.txt" for number in range(4)]
    parts = [f"{part}.{kind}.filter.txt" for part in ("train", "valid") for kind in KINDS]
    sizes = {"train": (parts, 4), "Giga": (["input.txt", references[0]], 1951)}
    for name, (files, size) in (sizes | {"DUC2004": (["input.txt", *references], 500)}).items():
        for file in files:
            write(data / "sumdata" / name / file, *["a small house"] * size)


TATOEBA = [
    "task=nmt", "data.generated=false", "data.corpus=tatoeba", "data.source=de", "data.target=en",
]  # fmt: skip
KINDS = ("article", "title")
SUMMARIES = [
    "task=summarization", "data.generated=false", "data.corpus=gigaword", "data.check_size=false",
]  # fmt: skip


def refused(
    overrides: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], *command: str
) -> str:
    """The one line that a command prints, having started nothing."""
    places = [f"data_dir={tmp_path / 'data'}", f"results_dir={tmp_path / 'results'}"]
    assert main([*(command or ["run"]), *overrides, *places]) == 2
    assert list_runs(tmp_path / "results", "demo") == []
    (line,) = capsys.readouterr().err.splitlines()
    return line


@pytest.mark.parametrize("task", ["snli", "nli_alignment"])
@pytest.mark.parametrize(
    ("dev", "setting", "expected"),
    [
        ("{", "seed=1", "snli_1.0_dev.jsonl:4: expected a JSON object"),
        (pair(3), "data.max_words=1", "data.max_words=1 leaves none of 6"),
    ],
)
def test_pairs_that_do_not_fit(task, dev, setting, expected, tmp_path, capsys):
    write_inference(tmp_path / "data", "snli", dev=dev)
    overrides = [f"task={task}", "data.source=snli", *INFERENCE, setting]
    assert expected in refused(overrides, tmp_path, capsys)


def test_a_sweep_and_a_reproduction_refuse_them_once(tmp_path, capsys):
    write_inference(tmp_path / "data", "snli", test="{")
    sweep = ["task=snli", "seed=1,2", *INFERENCE]
    assert "snli_1.0_test.jsonl:4: " in refused(sweep, tmp_path, capsys, "run", "-m")
    reproduction = ["reproduce", "niculae2017/table1"]
    assert "snli_1.0_test.jsonl:4: " in refused(INFERENCE, tmp_path, capsys, *reproduction)


def test_pairs_are_parsed_once_for_the_check_and_the_run(tmp_path, monkeypatch):
    read = []
    load = entailment.load_nli

    def counted(*arguments: object) -> object:
        read.append(arguments)
        return load(*arguments)

    monkeypatch.setattr(entailment, "load_nli", counted)
    write_inference(tmp_path / "data", "snli")
    places = [f"data_dir={tmp_path / 'data'}", f"results_dir={tmp_path / 'results'}"]
    here = "hardware.parallel_runs=1"  # other processes would not be counted
    assert main(["run", "-m", "task=snli", "seed=1,2", here, *INFERENCE, *places]) == 0
    assert len(read) == 1


@pytest.mark.parametrize(
    ("file", "lines", "setting", "expected"),
    [
        ("train.en", ["x", "", "x", "x"], "seed=1", "train.en:2: a blank line"),
        ("test.de", ["x", "\udcff", "x", "x"], "seed=1", "test.de:2: not UTF-8"),
        ("test.de", ["x"] * 4, "data.max_length=1", "data.max_length=1 leaves no training pair"),
    ],
)
def test_translations_that_do_not_fit(file, lines, setting, expected, tmp_path, capsys):
    write_translation(tmp_path / "data")
    write(tmp_path / "data" / "tatoeba" / file, *lines)
    assert expected in refused([*TATOEBA, setting], tmp_path, capsys)


@pytest.mark.parametrize(
    ("file", "count", "blank", "expected"),
    [
        ("train/train.title.filter.txt", 4, 2, "train.title.filter.txt:2: a blank line"),
        ("Giga/task1_ref0.txt", 1950, None, "task1_ref0.txt ends after 1950 lines"),
        ("DUC2004/task1_ref2.txt", 499, None, "task1_ref2.txt ends after 499 lines"),
        ("DUC2004/task1_ref3.txt", 500, 7, "task1_ref3.txt:7: a blank line"),
    ],
)
def test_malformed_summaries(file, count, blank, expected, tmp_path, capsys):
    write_summaries(tmp_path / "data")
    lines = ["" if number == blank else "a title" for number in range(1, count + 1)]
    write(tmp_path / "data" / "sumdata" / file, *lines)
    assert expected in refused(SUMMARIES, tmp_path, capsys)


def test_mappings_and_losses_that_do_not_exist(tmp_path, capsys):
    assert "choose mapping=" in refused(["mapping.name=x"], tmp_path, capsys)
    assert "choose loss=" in refused(["loss.name=x"], tmp_path, capsys)


@pytest.mark.parametrize("task", [path.stem for path in sorted((conf_dir() / "task").iterdir())])
def test_generated_corpora_of_two_seeds_do_not_replace_each_other(task, tmp_path):
    """Workers of one sweep read both at the same time."""
    found = []
    for seed in (1, 2):
        config = compose_run(
            [f"task={task}", "hardware=cpu", f"results_dir={tmp_path}", f"data.seed={seed}"]
        )
        locate(config)
        files = sorted(path for path in config.corpus_path.rglob("*") if path.is_file())
        found.append({path: path.read_bytes() for path in files})
    assert all(path.read_bytes() == content for path, content in found[0].items())
    assert found[0].keys().isdisjoint(found[1])
    assert [*found[0].values()] != [*found[1].values()]


@pytest.mark.parametrize("lost", ["corpora", "corpora/CORPUS"])
@pytest.mark.parametrize("task", [path.stem for path in sorted((conf_dir() / "task").iterdir())])
def test_a_generated_corpus_that_was_removed_is_written_again(task, lost, tmp_path):
    config = compose_run([f"task={task}", "hardware=cpu", f"results_dir={tmp_path}"])
    before = locate(config)
    check(before)
    shutil.rmtree(tmp_path / "demo" / lost.replace("CORPUS", config.data.corpus))
    after = locate(config)
    check(after)
    assert after.run_id == before.run_id
    assert len(build_task(config, torch.device("cpu")).batches(0)) > 0
