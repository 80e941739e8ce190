"""The articles and titles of a configuration."""

from functools import lru_cache
from pathlib import Path

from repro.config.schema import RunConfig
from repro.config.schema.text_pairs import TextPairsConfig
from repro.data.demo.summaries import write_summary_demo
from repro.data.parallel import ParallelCorpus
from repro.data.summarization import open_summaries
from repro.tasks.location import corpus_dir
from repro.tasks.protocol import CorpusIdentity
from repro.tasks.text_pairs import check_text


def identify(config: RunConfig) -> CorpusIdentity:
    """Find (or generate) the corpus of a configuration, and name it.

    Raises:
        DataError: it is missing or has another size.
    """
    return CorpusIdentity(config.data.corpus, summary_corpus(config).fingerprint)


def check(config: RunConfig) -> None:
    """Prepare the corpus of a configuration; see :func:`~repro.tasks.text_pairs.check_text`."""
    check_text(config, summary_corpus(config))


def summary_corpus(config: RunConfig) -> ParallelCorpus:
    """The files of the corpus of a configuration.

    Raises:
        DataError: it is missing or has another size.
    """
    data, folder = config.data, corpus_dir(config).resolve()
    assert isinstance(data, TextPairsConfig)
    if data.generated:
        _generate(folder, data.seed)
    return _open(folder, data.subset, data.generated)


@lru_cache(maxsize=8)
def _generate(folder: Path, seed: int) -> None:
    write_summary_demo(folder, seed)


@lru_cache(maxsize=8)
def _open(folder: Path, subset: bool, generated: bool) -> ParallelCorpus:
    return open_summaries(folder, subset=subset, generated=generated)
