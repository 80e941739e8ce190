from statistics import fmean

import pytest
import torch
from executed import executed
from predicted import printed
from stored_statistics import assert_sums_give_the_records

from repro.config.compose import compose_run
from repro.evaluation.metrics.summarization import rouge
from repro.report.figures.attention import prediction_of
from repro.results import RunFolder
from repro.tasks.summarization import summary_corpus
from repro.tasks.summarization.task import SummarizationTask

SMALL = [
    "task=summarization", "hardware=cpu", "hardware.parallel_runs=1", "model.embedding_size=16",
    "model.hidden_size=16", "task.stored_examples=2", "training.max_steps=40",
    "decoding.beam_size=2",
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    root = tmp_path_factory.mktemp("summarization")
    return executed(compose_run([*SMALL, f"results_dir={root}"]))


def references(folder: RunFolder, split: str) -> list[list[str]]:
    results = folder.path.parents[2]
    corpus = summary_corpus(compose_run([*SMALL, f"results_dir={results}"]))
    files = [corpus.splits[split].target, *corpus.references.get(split, ())]
    return [
        list(titles) for titles in zip(*(f.read_text().splitlines() for f in files), strict=True)
    ]


@pytest.mark.parametrize(("split", "count"), [("dev", 1), ("test", 1), ("test_duc2004", 4)])
def test_rouge_of_the_stored_summaries(folder, split, count):
    path = folder.predictions / f"{split}.txt"
    lines, gold = path.read_text().splitlines(), references(folder, split)
    assert {len(titles) for titles in gold} == {count}
    for suffix, cut in (("", 75), ("_whole", None)):
        found = rouge(lines, gold, max_bytes=cut)
        for name, kind in (("rouge1", "rouge1"), ("rougeL", "rougeL"), ("rougeW", "rougeW1.2")):
            mean = fmean(one.fmeasure for one in found[kind])
            assert folder.read_record().metrics[f"{split}/{name}{suffix}"] == pytest.approx(mean)
        recall = fmean(one.recall for one in found["rougeL"])
        assert folder.read_record().metrics[f"{split}/rougeL_recall{suffix}"] == pytest.approx(
            recall
        )


def test_predictions_are_the_stored_summaries(folder):
    results = folder.path.parents[2]
    corpus = summary_corpus(compose_run([*SMALL, f"results_dir={results}"]))
    lines = corpus.splits["test"].source.read_text("utf-8").splitlines()
    stored = (folder.predictions / "test.txt").read_text("utf-8")
    assert printed(folder.path, lines) == stored


def test_scores_of_each_summary_give_the_records(folder):
    assert_sums_give_the_records(folder)


def test_attention_joins_words(folder):
    rows = folder.read_attention()
    assert [row["separator"] for row in rows] == [" ", " "]
    assert rows[0]["language"] == "article to title"
    said = " ".join(symbol for symbol in rows[0]["output"] if symbol != "</s>")
    assert prediction_of(rows[0]) == said
    assert rows[0]["gold"] == references(folder, "dev")[0][0].lower()


def test_rouge_tunes_penalties(folder):
    results = folder.path.parents[2]
    task = SummarizationTask(compose_run([*SMALL, f"results_dir={results}"]), torch.device("cpu"))
    gold = [titles[0].split() for titles in references(folder, "dev")]
    assert task.quality(gold) == pytest.approx(100)
    assert task.quality([[] for _ in gold]) == 0
