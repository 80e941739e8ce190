"""Sentence summarization (Niculae & Blondel, 2017, §4.3)."""

from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from statistics import fmean
from typing import Any

import torch

from repro.config.schema.text_pairs import SummarizationRun
from repro.data.demo.summaries import write_summary_demo
from repro.data.parallel import ParallelCorpus, open_folder, read_pairs, stream_lines
from repro.data.summarization import open_summaries
from repro.evaluation.metrics import METRICS, Evaluation, score_outputs
from repro.evaluation.metrics.summarization import Summaries
from repro.tasks.common import check_name, own_folder
from repro.tasks.protocol import CorpusIdentity, TaskSpec
from repro.tasks.text_pairs import SEARCH_SETTINGS, TextPairsTask, Words, check_text


class SummarizationTask(TextPairsTask):
    """Generation of titles from sentences."""

    def __init__(
        self,
        config: SummarizationRun,
        device: torch.device,
        stored: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(config, partial(summary_corpus, config), device, stored)

    def quality(self, outputs: Sequence[Words]) -> float:
        """Average the F scores of ROUGE-1, ROUGE-2 and ROUGE-L on validation data."""
        texts = self._summaries("dev", outputs)
        return fmean(METRICS[name].value(texts) for name in ("rouge1", "rouge2", "rougeL"))

    def score(self, split: str, outputs: Sequence[Words]) -> Evaluation:
        """Compute the ROUGE metrics, of summaries cut to 75 bytes and of whole ones.

        References:
            Niculae & Blondel (2017), §4.3, Tables 6 and 7.
        """
        return score_outputs(split, self._summaries(split, outputs))

    def _summaries(self, split: str, outputs: Sequence[Words]) -> Summaries:
        first = [title for _, title in read_pairs(self.data.texts[split])]
        further = self.data.corpus.references.get(split, ())
        others = ([line.strip() for line in stream_lines(path)] for path in further)
        references = list(zip(first, *others, strict=True))
        return Summaries([" ".join(words) for words in outputs], references)


def identify(config: SummarizationRun) -> CorpusIdentity:
    """Find (or generate) the corpus of a configuration and return its identity."""
    corpus = summary_corpus(config)
    name = config.data.corpus if config.data.folder is None else corpus.name
    return CorpusIdentity(name, corpus.fingerprint)


def check(config: SummarizationRun) -> None:
    """Prepare the corpus of a configuration; see :func:`~repro.tasks.text_pairs.check_text`."""
    check_text(config, summary_corpus(config))


def summary_corpus(config: SummarizationRun) -> ParallelCorpus:
    """Find the files of the corpus of a configuration.

    Raises:
        DataError: the corpus is missing or not of the expected size.
    """
    data, own = config.data, own_folder(config)
    if own is not None:
        return open_folder(own, "article", "title", tokenised=data.tokenised)
    check_name(config, "gigaword", "demo_titles")
    folder = config.corpus_path.resolve()
    if data.generated:
        _generate(folder, data.seed)
    return _open(folder, check_sizes=data.check_size, generated=data.generated)


_generate = lru_cache(maxsize=8)(write_summary_demo)
_open = lru_cache(maxsize=8)(open_summaries)


SPEC = TaskSpec(
    identify=identify,
    build=SummarizationTask,
    check=check,
    restore=SummarizationTask,
    unread_in_training=SEARCH_SETTINGS,
)
