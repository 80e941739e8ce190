"""The treebank of a configuration, read once and turned into ids."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from repro.config.schema import RunConfig
from repro.config.schema.parsing import ParsingConfig, TreebankConfig
from repro.data.conllu import Sentence
from repro.data.demo.parsing import write_demo_treebank
from repro.data.trees import Tree, TreeEncoder
from repro.data.universal_dependencies import Treebank, check_tags, load_treebank
from repro.tasks.location import corpus_dir
from repro.tasks.protocol import CorpusIdentity


@dataclass(frozen=True)
class EncodedTreebank:
    """A treebank with the vocabularies of its training data, and its splits as ids."""

    treebank: Treebank
    encoder: TreeEncoder
    train: list[Tree]
    dev: list[Tree]
    test: list[Tree]


def identify(config: RunConfig) -> CorpusIdentity:
    """Read (or generate) the treebank of a configuration, and name it.

    Raises:
        DataError: it is missing, incomplete, malformed, or has no tags in the column of
            ``task.tags``.
    """
    treebank = _load(*_key(config))
    assert isinstance(config.task, ParsingConfig)
    check_tags(treebank, config.task.tags.upper())
    return CorpusIdentity(treebank.name, treebank.fingerprint)


def encode_treebank(config: RunConfig) -> EncodedTreebank:
    """Vocabularies and ids of the treebank of a configuration."""
    assert isinstance(config.task, ParsingConfig)
    return _encode(*_key(config), config.task.tags.upper())


Key = tuple[Path, str, str, bool]


def _key(config: RunConfig) -> Key:
    data, folder = config.data, corpus_dir(config)
    assert isinstance(data, TreebankConfig)
    if data.generated:
        write_demo_treebank(folder, data.release, data.treebank, data.seed)
    return folder.resolve(), data.release, data.treebank, data.check_counts


@lru_cache(maxsize=8)
def _load(folder: Path, release: str, treebank: str, check_counts: bool) -> Treebank:
    return load_treebank(folder, release, treebank, check_counts)


@lru_cache(maxsize=2)
def _encode(
    folder: Path, release: str, treebank: str, check_counts: bool, tags: str
) -> EncodedTreebank:
    corpus = _load(folder, release, treebank, check_counts)
    encoder = TreeEncoder.build(corpus.train, tags)

    def encode(sentences: Sequence[Sentence]) -> list[Tree]:
        return [encoder.encode(sentence) for sentence in sentences]

    return EncodedTreebank(
        corpus, encoder, encode(corpus.train), encode(corpus.dev), encode(corpus.test)
    )
