"""The parallel corpus of a configuration."""

from functools import lru_cache
from pathlib import Path

from repro.config.schema import RunConfig
from repro.config.schema.text_pairs import TranslationDataConfig
from repro.data.demo.translation import write_translation_demo
from repro.data.parallel import ParallelCorpus
from repro.data.translation import open_corpus
from repro.tasks.location import corpus_dir
from repro.tasks.protocol import CorpusIdentity
from repro.tasks.text_pairs import check_text


def identify(config: RunConfig) -> CorpusIdentity:
    """Find (or generate) the corpus of a configuration, and name it.

    Raises:
        DataError: it is missing or has another size.
    """
    corpus = parallel_corpus(config)
    name = f"{corpus.name} {corpus.source}-{corpus.target}"
    return CorpusIdentity(name, corpus.fingerprint)


def check(config: RunConfig) -> None:
    """Prepare the corpus of a configuration; see :func:`~repro.tasks.text_pairs.check_text`."""
    check_text(config, parallel_corpus(config))


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
