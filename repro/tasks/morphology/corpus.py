"""Corpus of a multilingual inflection model."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from repro import typed
from repro.config.schema.morphology import MorphologyRun
from repro.data.demo.morphology import write_demo_corpus
from repro.data.pair import Pair
from repro.data.sigmorphon import (
    SigmorphonCorpus,
    load,
    load_word_lists,
    source_tokens,
    target_tokens,
)
from repro.data.vocabulary import Vocabulary
from repro.tasks.common import FolderState, corpus_folder
from repro.tasks.protocol import CorpusIdentity


@dataclass(frozen=True)
class EncodedCorpus:
    """Corpus with its vocabularies, built from the training split, and its splits as ids."""

    corpus: SigmorphonCorpus
    source: Vocabulary
    target: Vocabulary
    train: list[Pair]
    dev: list[Pair]
    test: list[Pair]


def identify(config: MorphologyRun) -> CorpusIdentity:
    """Read (or generate) the corpus of a configuration and return its identity."""
    key = _key(config)
    name = config.data.corpus if config.data.folder is None else key[0].path.name
    return CorpusIdentity(name, _load(*key).fingerprint)


def encode_corpus(config: MorphologyRun) -> EncodedCorpus:
    """Read the corpus of a configuration, build its vocabularies and convert symbols to ids."""
    return _encode(*_key(config))


def _key(config: MorphologyRun) -> tuple[FolderState, str | None, tuple[str, ...] | None]:
    """Return folder, setting (``None`` for user-supplied word lists) and languages to read."""
    data, task = config.data, config.task
    folder = corpus_folder(
        config, "sigmorphon2018", "demo_morphology", write_demo_corpus, data.seed
    )
    languages = None if task.languages is None else tuple(sorted(task.languages))
    setting = task.setting if data.folder is None else None
    return FolderState.of(folder), setting, languages


@lru_cache(maxsize=4)
def _load(
    folder: FolderState, setting: str | None, languages: tuple[str, ...] | None
) -> SigmorphonCorpus:
    chosen = None if languages is None else list(languages)
    if setting is None:
        return load_word_lists(folder.path, chosen)
    return load(folder.path, setting, chosen)


@lru_cache(maxsize=2)
def _encode(
    folder: FolderState, setting: str | None, languages: tuple[str, ...] | None
) -> EncodedCorpus:
    corpus = _load(folder, setting, languages)
    source = Vocabulary.build(source_tokens(example) for example in corpus.train)
    target = Vocabulary.build(target_tokens(example) for example in corpus.train)
    splits = (
        [Pair(source.encode(source_tokens(e)), target.encode(target_tokens(e))) for e in part]
        for part in (corpus.train, corpus.dev, corpus.test)
    )
    return EncodedCorpus(corpus, source, target, *splits)


@dataclass(frozen=True)
class _Stored:
    languages: list[str]
    source: list[str]
    target: list[str]


def restored_corpus(stored: Mapping[str, Any]) -> EncodedCorpus:
    """Return languages and vocabularies alone, from :meth:`MorphologyTask.preparation`."""
    found = typed.build(_Stored, stored)
    corpus = SigmorphonCorpus(found.languages, [], [], [], fingerprint="")
    return EncodedCorpus(corpus, Vocabulary(found.source), Vocabulary(found.target), [], [], [])
