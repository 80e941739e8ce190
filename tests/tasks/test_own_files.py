"""Files of a user's own: each task reads a folder, and refuses it with file, line and key."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from executed import executed

from repro.config.compose import compose_run
from repro.data.dependencies.universal_dependencies import HELD_OUT
from repro.errors import DataError
from repro.tasks import task_spec
from repro.tasks.entailment import encode_corpus
from repro.tasks.morphology.corpus import encode_corpus as encode_forms
from repro.tasks.nmt import parallel_corpus
from repro.tasks.parsing.corpus import encode_treebank

OWN = ["data.folder=mine", "hardware=cpu", "training.max_steps=1"]
WORD = "1\tcome\t_\tVERB\t_\t_\t0\troot\t_\t_\n\n"
PAIRS = ("a b", "c"), ("a", "d"), ("b", "c"), ("c c", "a")


def write(tmp_path: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = tmp_path / "mine" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")


def configured(tmp_path: Path, *overrides: str):
    places = [f"data_dir={tmp_path}", f"results_dir={tmp_path / 'results'}"]
    return compose_run([*overrides, *OWN, *places])


def refuse(tmp_path: Path, message: str, *overrides: str) -> None:
    config = configured(tmp_path, *overrides)
    spec = task_spec(config.task.name)
    with pytest.raises(DataError, match=message):
        spec.identify(config) and spec.check(config)


def pairs(kind: str, labels: str) -> str:
    rows = [
        {"premise": first, "hypothesis": second, "label": label}
        for (first, second), label in zip(PAIRS, labels, strict=True)
    ]
    if kind == "jsonl":
        return "".join(json.dumps(row) + "\n" for row in rows)
    return "\t".join(rows[0]) + "\n" + "".join("\t".join(r.values()) + "\n" for r in rows)


@pytest.mark.parametrize("kind", ["jsonl", "tsv"])
def test_sentence_pairs_with_any_labels(tmp_path, kind):
    write(tmp_path, {f"{split}.{kind}": pairs(kind, "yxzw") for split in ("train", "dev", "test")})
    config = configured(tmp_path, "task=snli", "data.source=files")
    data = encode_corpus(config)
    assert data.labels == ("w", "x", "y", "z")
    assert [example.label for example in data.train.examples] == [2, 1, 3, 0]
    folder = executed(config)
    assert "test/label_accuracy" in folder.read_record().metrics
    rows = (folder.predictions / "test.jsonl").read_text().splitlines()
    assert {json.loads(row)["label"] for row in rows} <= set(data.labels)


SNLI = ("task=snli", "data.source=files")


def test_wrong_sentence_pairs_are_named(tmp_path):
    refuse(tmp_path, r"data\.folder=mine: .*mine is not a folder", *SNLI)
    good = {f"{split}.tsv": pairs("tsv", "xyxy") for split in ("train", "dev", "test")}
    write(tmp_path, good)
    for name, text, message in (
        ("dev.tsv", pairs("tsv", "xyxz"), r"dev\.tsv:5: expected the label x, y or '-', found 'z'"),
        ("dev.tsv", "premise\tlabel\na\tx\n", r"dev\.tsv:2: expected a text under 'hypothesis'"),
        ("dev.tsv", good["dev.tsv"] + "a\n", r"dev\.tsv:6: expected 3 columns, found 1"),
        ("train.tsv", pairs("tsv", "xxxx"), r"train\.tsv: expected at least two labels, found x"),
        ("train.tsv", "", r"train\.tsv is empty"),
        ("test.tsv", "premise\thypothesis\tlabel\n", r"test\.tsv is empty"),
        ("dev.tsv", good["dev.tsv"] + " \ta\tx\n", r"dev\.tsv:6: expected a text under 'premise'"),
        ("dev.tsv", good["dev.tsv"] + "a\t\tx\n", r"dev\.tsv:6: expected a text under 'hypoth"),
        (
            "test.tsv",
            "id\tpremise\thypothesis\tlabel\n" + "1\ta\tb\tx\n2\ta\tb\ty\n1\ta\tb\ty\n",
            r"test\.tsv:4: the id '1' is repeated; line 2 has it",
        ),
        ("test.jsonl", "{}\n", r"has 2 of test\.jsonl and test\.tsv"),
    ):
        write(tmp_path, good | {name: text})
        refuse(tmp_path, message, *SNLI)
    (tmp_path / "mine" / "test.tsv").unlink()
    refuse(tmp_path, r"test\.jsonl:1: expected a text under 'premise' or 'sentence1'", *SNLI)


@pytest.mark.parametrize("task", ["nmt", "summarization", "parsing", "morphology", "snli"])
def test_a_folder_replaces_the_corpus_of_the_scale(task):
    for folder, name in (("mine", "mine"), ("/tmp/my texts/", "my-texts"), ("..", "own")):
        data = compose_run([f"task={task}", "scale=demo", f"data.folder='{folder}'"]).data
        assert (data.corpus, data.generated) == (name, False)
        assert getattr(data, "source", "files") == "files" or task != "snli"


def test_files_need_a_folder():
    with pytest.raises(DataError, match=r"data\.folder"):
        task_spec("snli").identify(compose_run(SNLI))


NMT = ("task=nmt", "data.source=xx", "data.target=tlh", "data.merges=0")


def texts(source: str, target: str, *further: str) -> dict[str, str]:
    splits = ("train", "dev", "test", *further)
    return {f"{split}.{side}": "one two\n" * 12 for split in splits for side in (source, target)}


def test_texts_of_free_languages_with_further_test_sets(tmp_path):
    write(tmp_path, texts("xx", "tlh", "test_old"))
    corpus = parallel_corpus(configured(tmp_path, *NMT))
    assert (corpus.source, corpus.target, corpus.tests) == ("xx", "tlh", ("test", "test_old"))
    assert not corpus.tokenised
    assert parallel_corpus(configured(tmp_path, *NMT, "data.tokenised=true")).tokenised
    write(tmp_path, {"dev.tlh": "one\n\n" * 6})
    refuse(tmp_path, r"dev\.tlh:2: a blank line", *NMT)
    write(tmp_path, {"dev.tlh": "one\n" * 11 + "one " * 5_001})
    refuse(tmp_path, r"dev\.tlh:12: 20,003 characters; expected at most 20,000", *NMT)
    write(tmp_path, {"dev.tlh": "one\n" * 11 + "one " * 5_000})
    parallel_corpus(configured(tmp_path, *NMT))
    (tmp_path / "mine" / "test.tlh").unlink()
    refuse(tmp_path, r"mine has no test\.tlh; expected .*test\.xx.*; found .*test\.xx", *NMT)


def test_articles_and_titles(tmp_path):
    write(tmp_path, texts("article", "title"))
    task_spec("summarization").check(configured(tmp_path, "task=summarization"))  # type: ignore
    (tmp_path / "mine" / "dev.title").unlink()
    refuse(tmp_path, r"mine has no dev\.title", "task=summarization")


def test_a_treebank_without_validation_data(tmp_path):
    write(tmp_path, {"train.conllu": WORD * 2 * HELD_OUT, "test.conllu": WORD})
    data = encode_treebank(configured(tmp_path, "task=parsing", "task.tags=upos"))
    assert (len(data.train), len(data.dev), len(data.test)) == (2 * HELD_OUT - 2, 2, 1)


def test_word_lists(tmp_path):
    rows = "take\ttook\tV;PST\ngo\twent\tV;PST\n"
    write(tmp_path, {f"old-norse-{split}": rows for split in ("train", "dev", "test")})
    config = configured(tmp_path, "task=morphology")
    data = encode_forms(config)
    assert data.corpus.languages == ["old-norse"]
    assert (len(data.train), len(data.dev)) == (2, 2)
    task = task_spec("morphology").build(config, torch.device("cpu"))
    assert len(task.batches(0)) == 1
    with pytest.raises(DataError, match=r"task\.languages: .*has no latin-train; it has old-norse"):
        encode_forms(configured(tmp_path, "task=morphology", "task.languages=[latin]"))
    for text, message in (
        ("take\ttook\n", "expected lemma TAB form TAB tags"),
        ("take\tto\0ok\tV\n", "expected text without NUL"),
        (f"take\t{'o' * 1001}\tV\n", "expected at most 1,000 characters"),
    ):
        write(tmp_path, {"old-norse-dev": rows + text})
        with pytest.raises(DataError, match=rf"old-norse-dev:3: {message}"):
            encode_forms(configured(tmp_path, "task=morphology", "task.languages=[old-norse]"))
    (tmp_path / "mine" / "old-norse-dev").unlink()
    with pytest.raises(DataError, match=r"mine has no old-norse-dev; .*found .*old-norse-test$"):
        encode_forms(configured(tmp_path, "task=morphology", "task.languages=[old-norse]"))


@pytest.mark.parametrize("task", ["morphology", "parsing", "snli", "summarization", "nmt"])
def test_other_names_of_corpora_are_refused(tmp_path, task):
    config = compose_run([f"task={task}", "data.corpus=mycorpus", f"results_dir={tmp_path}"])
    with pytest.raises(DataError, match=rf"data\.corpus=mycorpus: task={task} reads demo_"):
        task_spec(task).identify(config)
