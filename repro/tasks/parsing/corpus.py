"""Treebank of a dependency parser."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from repro import typed
from repro.config.schema.parsing import ParsingRun
from repro.data.demo.parsing import write_demo_treebank
from repro.data.dependencies.conllu import COLUMNS
from repro.data.dependencies.trees import Tree, TreeEncoder
from repro.data.dependencies.universal_dependencies import (
    Treebank,
    check_tags,
    load_treebank,
    treebank_folder,
)
from repro.data.vocabulary import Vocabulary
from repro.tasks.common import FolderState, corpus_folder
from repro.tasks.protocol import CorpusIdentity


@dataclass(frozen=True)
class EncodedTreebank:
    """Treebank with the vocabularies of its training data, and its splits as ids."""

    treebank: Treebank
    encoder: TreeEncoder
    train: list[Tree]
    dev: list[Tree]
    test: list[Tree]


def identify(config: ParsingRun) -> CorpusIdentity:
    """Read (or generate) the treebank of a configuration and return its identity.

    Raises:
        DataError: the treebank is missing, incomplete or malformed, or has no tags in the column
            that ``task.tags`` names.
    """
    treebank = _load(*_key(config))
    check_tags(treebank, config.task.tags.upper())
    return CorpusIdentity(treebank.name, treebank.fingerprint)


@dataclass(frozen=True)
class _Stored:
    words: list[str]
    tags: list[str]
    frequency: list[int]
    column: str

    def __post_init__(self) -> None:
        if len(self.frequency) != len(self.words):
            raise ValueError("field 'frequency' has another length than 'words'")
        if self.column not in COLUMNS:
            expected = " or ".join(COLUMNS)
            raise ValueError(f"field 'column' is {self.column!r}; expected {expected}")


def restored_treebank(stored: Mapping[str, Any]) -> EncodedTreebank:
    """Return vocabularies alone, from :meth:`ParsingTask.preparation`."""
    found = typed.build(_Stored, stored)
    words, tags = Vocabulary(found.words), Vocabulary(found.tags)
    encoder = TreeEncoder(words, tags, found.frequency, found.column)
    return EncodedTreebank(Treebank("", [], [], [], "", {}), encoder, [], [], [])


def encode_treebank(config: ParsingRun) -> EncodedTreebank:
    """Read the treebank of a configuration, build its vocabularies and convert words to ids."""
    return _encode(*_key(config), config.task.tags.upper())


def _key(config: ParsingRun) -> tuple[FolderState, str, bool]:
    """Return folder and name of the treebank, and whether its size is checked."""
    data = config.data
    chosen = (data.release, data.treebank)
    folder = corpus_folder(
        config, "universal_dependencies", "demo_parsing", write_demo_treebank, *chosen, data.seed
    )
    if data.folder is not None:
        return FolderState.of(folder), folder.name, False
    state = FolderState.of(treebank_folder(folder, *chosen))
    return state, f"{data.treebank} {data.release}", data.check_size


@lru_cache(maxsize=8)
def _load(folder: FolderState, name: str, check_size: bool) -> Treebank:
    return load_treebank(folder.path, name, check_size)


@lru_cache(maxsize=2)
def _encode(folder: FolderState, name: str, check_size: bool, tags: str) -> EncodedTreebank:
    corpus = _load(folder, name, check_size)
    encoder = TreeEncoder.build(corpus.train, tags)
    splits = (corpus.train, corpus.dev, corpus.test)
    return EncodedTreebank(corpus, encoder, *([*map(encoder.encode, part)] for part in splits))
