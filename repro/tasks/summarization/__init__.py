"""Sentence summarization (Niculae & Blondel, 2017, §4.3)."""

from functools import lru_cache

from repro.config.schema.text_pairs import SEARCH_SETTINGS, SummarizationRun
from repro.data.demo.summaries import write_summary_demo
from repro.data.parallel import ParallelCorpus, open_folder
from repro.data.summarization import open_summaries
from repro.tasks.common import FolderState, corpus_folder
from repro.tasks.protocol import CorpusIdentity, TaskSpec, imported


def identify(config: SummarizationRun) -> CorpusIdentity:
    """Find (or generate) the corpus of a configuration and return its identity."""
    corpus = summary_corpus(config)
    name = config.data.corpus if config.data.folder is None else corpus.name
    return CorpusIdentity(name, corpus.fingerprint)


def summary_corpus(config: SummarizationRun) -> ParallelCorpus:
    """Find the files of the corpus of a configuration.

    Raises:
        DataError: the corpus is missing or not of the expected size.
    """
    data = config.data
    folder = corpus_folder(config, "gigaword", "demo_titles", write_summary_demo, data.seed)
    if data.folder is not None:
        return open_folder(folder, "article", "title", tokenised=data.tokenised)
    return _open(FolderState.of(folder), data.check_size, data.generated)


@lru_cache(maxsize=8)
def _open(folder: FolderState, check_sizes: bool, generated: bool) -> ParallelCorpus:
    return open_summaries(folder.path, check_sizes=check_sizes, generated=generated)


SPEC = TaskSpec(
    identify=identify,
    build=imported("repro.tasks.summarization.task:SummarizationTask"),
    check=imported("repro.tasks.summarization.task:check"),
    restore=imported("repro.tasks.summarization.task:SummarizationTask"),
    unread_in_training=SEARCH_SETTINGS,
)
