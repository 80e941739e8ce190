"""The parallel corpus of a configuration."""

import logging
from functools import lru_cache
from pathlib import Path

from repro.config.schema import RunConfig
from repro.config.schema.text_pairs import TranslationDataConfig
from repro.data.demo.translation import write_translation_demo
from repro.data.parallel import ParallelCorpus, about
from repro.data.translation import SHORT_PAIRS, open_corpus
from repro.tasks.location import corpus_dir
from repro.tasks.protocol import CorpusIdentity
from repro.tasks.text_pairs import check_text

_log = logging.getLogger(__name__)


def identify(config: RunConfig) -> CorpusIdentity:
    """Find (or generate) the corpus of a configuration, and name it.

    Raises:
        DataError: it is missing or has another size.
    """
    corpus = parallel_corpus(config)
    name = f"{corpus.name} {corpus.source}-{corpus.target}"
    return CorpusIdentity(name, corpus.fingerprint)


def check(config: RunConfig) -> None:
    """Prepare the corpus of a configuration; see :func:`~repro.tasks.text_pairs.check_text`.

    Where a paper counts the training pairs that are short enough, another number is warned of: the
    lengths depend on tokeniser and subwords, so it is no sign of a damaged corpus.
    """
    prepared = check_text(config, parallel_corpus(config))
    assert isinstance(config.data, TranslationDataConfig)
    published = SHORT_PAIRS.get(config.data.corpus)
    if prepared is None or published is None or not _as_counted(config.data):
        return
    count = len(prepared.splits["train"])
    if count not in about(published):
        _log.warning(
            "%s: %d training pairs have at most %d symbols a side; Malaviya et al. (2018) count %d",
            config.data.corpus,
            count,
            config.data.max_length,
            published,
        )


def _as_counted(data: TranslationDataConfig) -> bool:
    """Whether a corpus is prepared like those whose short pairs were counted."""
    return (data.merges, data.joint, data.max_length, data.subset) == (32_000, True, 50, False)


def parallel_corpus(config: RunConfig) -> ParallelCorpus:
    """The files of the corpus of a configuration.

    Raises:
        DataError: it is missing or has another size.
    """
    data, folder = config.data, corpus_dir(config).resolve()
    assert isinstance(data, TranslationDataConfig)
    if data.generated:
        _generate(folder, data.seed)
    assert config.results_dir is not None
    cache = Path(config.results_dir).resolve() / config.scale.name / "corpora" / "prepared"
    return _open(folder, data.corpus, data.source, data.target, data.subset, cache)


@lru_cache(maxsize=8)
def _generate(folder: Path, seed: int) -> None:
    write_translation_demo(folder, seed)


@lru_cache(maxsize=8)
def _open(
    folder: Path, name: str, source: str, target: str, subset: bool, cache: Path
) -> ParallelCorpus:
    return open_corpus(folder, name, source, target, subset=subset, cache=cache)
