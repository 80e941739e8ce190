"""Sentence summarization (Niculae & Blondel, 2017, §4.3)."""

from functools import lru_cache
from pathlib import Path

import torch

from repro.config.schema.summarization import SummarizationRun
from repro.data.demo.summaries import write_summary_demo
from repro.data.parallel import ParallelCorpus, open_folder
from repro.data.summarization import open_summaries
from repro.tasks.corpora import check_name, own_folder
from repro.tasks.protocol import CorpusIdentity, TaskSpec
from repro.tasks.summarization.scoring import SummaryScorer
from repro.tasks.text_pairs import SEARCH_SETTINGS, TextPairsTask, check_text, prepare_text


def identify(config: SummarizationRun) -> CorpusIdentity:
    """Find (or generate) the corpus of a configuration, and name it.

    Raises:
        DataError: it is missing or has another size.
    """
    corpus = summary_corpus(config)
    name = config.data.corpus if config.data.folder is None else corpus.name
    return CorpusIdentity(name, corpus.fingerprint)


def check(config: SummarizationRun) -> None:
    """Prepare the corpus of a configuration; see :func:`~repro.tasks.text_pairs.check_text`."""
    check_text(config, summary_corpus(config))


def summary_corpus(config: SummarizationRun) -> ParallelCorpus:
    """Find the files of the corpus of a configuration.

    Raises:
        DataError: it is missing or has another size.
    """
    data, own = config.data, own_folder(config)
    if own is not None:
        return open_folder(own, "article", "title", tokenised=data.tokenised)
    check_name(config, "gigaword", "demo_headlines")
    folder = config.corpus_path.resolve()
    if data.generated:
        _generate(folder, data.seed)
    return _open(folder, data.check_size, data.generated)


@lru_cache(maxsize=8)
def _generate(folder: Path, seed: int) -> None:
    write_summary_demo(folder, seed)


@lru_cache(maxsize=8)
def _open(folder: Path, check_sizes: bool, generated: bool) -> ParallelCorpus:
    return open_summaries(folder, check_sizes=check_sizes, generated=generated)


def build(config: SummarizationRun, device: torch.device) -> TextPairsTask:
    """Prepare the corpus and make an untrained model; the random state decides its weights."""
    text = prepare_text(config, summary_corpus(config))
    return TextPairsTask(config, text, SummaryScorer, device)


SPEC = TaskSpec(identify=identify, build=build, check=check, unread_in_training=SEARCH_SETTINGS)
