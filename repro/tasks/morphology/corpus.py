"""The corpus of a configuration, read once and turned into ids."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from repro.config.schema import RunConfig
from repro.config.schema.morphology import MorphologyConfig
from repro.data.batching import Pair
from repro.data.demo.morphology import write_demo_corpus
from repro.data.sigmorphon import (
    Inflection,
    SigmorphonCorpus,
    load,
    source_tokens,
    target_tokens,
)
from repro.data.vocabulary import Vocabulary
from repro.tasks.location import corpus_dir
from repro.tasks.protocol import CorpusIdentity


@dataclass(frozen=True)
class EncodedCorpus:
    """A corpus with its vocabularies, built from the training split, and its splits as ids."""

    corpus: SigmorphonCorpus
    source: Vocabulary
    target: Vocabulary
    train: list[Pair]
    dev: list[Pair]
    test: list[Pair]


def identify(config: RunConfig) -> CorpusIdentity:
    """Read (or generate) the corpus of a configuration, and name it.

    Raises:
        DataError: it is missing, incomplete or malformed.
    """
    return CorpusIdentity(config.data.corpus, _corpus(config).fingerprint)


def encode_corpus(config: RunConfig) -> EncodedCorpus:
    """Vocabularies and ids of the corpus of a configuration."""
    return _encode(*_key(config))


Key = tuple[Path, str, tuple[str, ...] | None]


def _key(config: RunConfig) -> Key:
    task = config.task
    assert isinstance(task, MorphologyConfig)
    folder = corpus_dir(config)
    if config.data.generated:
        write_demo_corpus(folder, config.data.seed)
    languages = None if task.languages is None else tuple(sorted(task.languages))
    return folder.resolve(), task.setting, languages


def _corpus(config: RunConfig) -> SigmorphonCorpus:
    return _load(*_key(config))


@lru_cache(maxsize=4)
def _load(folder: Path, setting: str, languages: tuple[str, ...] | None) -> SigmorphonCorpus:
    return load(folder, setting, None if languages is None else list(languages))


@lru_cache(maxsize=2)
def _encode(folder: Path, setting: str, languages: tuple[str, ...] | None) -> EncodedCorpus:
    corpus = _load(folder, setting, languages)
    source = Vocabulary.build(source_tokens(example) for example in corpus.train)
    target = Vocabulary.build(target_tokens(example) for example in corpus.train)

    def encode(examples: Sequence[Inflection]) -> list[Pair]:
        return [
            Pair(source.encode(source_tokens(e)), target.encode(target_tokens(e))) for e in examples
        ]

    return EncodedCorpus(
        corpus, source, target, encode(corpus.train), encode(corpus.dev), encode(corpus.test)
    )
