"""The sentence pairs of a configuration, read once and turned into ids, with word vectors."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal, cast

from torch import Tensor

from repro.checksums import sha256_of_file
from repro.config.schema import RunConfig
from repro.config.schema.nli import PairCorpusConfig, PairModelConfig
from repro.data.cooccurrence import cooccurrence_vectors
from repro.data.demo.nli import PREMISES, write_demo_nli
from repro.data.embeddings import (
    FoundVectors,
    WordVectorChoice,
    glove_fingerprint,
    kept_vectors,
    place_vectors,
    word_vectors,
)
from repro.data.errors import DataError
from repro.data.files import numbered_lines, sha256_of
from repro.data.nli import (
    MULTINLI,
    SNLI,
    NliCorpus,
    NliExample,
    NliReading,
    load_multinli,
    load_snli,
    nli_fingerprint,
)
from repro.data.nli_batching import EncodedPairs
from repro.data.nli_tokens import punctuation_words
from repro.data.vocabulary import Vocabulary
from repro.tasks.location import corpus_dir
from repro.tasks.protocol import CorpusIdentity

_SOURCES = {"snli": (SNLI, load_snli), "multinli": (MULTINLI, load_multinli)}


@dataclass(frozen=True)
class PairSplit:
    """The pairs of one split, as words and as ids."""

    examples: list[NliExample]
    encoded: EncodedPairs


@dataclass(frozen=True)
class EncodedCorpus:
    """The splits of a corpus, with the vocabulary of their words."""

    vocabulary: Vocabulary
    train: PairSplit
    dev: PairSplit
    test: PairSplit


def identify(config: RunConfig) -> CorpusIdentity:
    """Find (or generate) the corpus of a configuration and its word vectors; parses nothing.

    Raises:
        DataError: a file of the corpus or the vectors is missing.
    """
    data = _data(config)
    source, _ = _SOURCES[data.source]
    found = nli_fingerprint(source, _folder(config))
    vectors = glove_file(config)
    if vectors is not None:
        found = sha256_of(f"{found} {glove_fingerprint(vectors, _cache_dir(config))}".encode())
    for path in text_files(config):
        found = sha256_of(f"{found} {sha256_of_file(path)}".encode())
    return CorpusIdentity(f"{data.corpus}: {source.name}", found)


def check(config: RunConfig) -> None:
    """Read the corpus and the word vectors of a configuration; the former stay in memory.

    Raises:
        DataError: a file is malformed, or no training pair is short enough.
    """
    vectors_of(config, encode_corpus(config).vocabulary)


def encode_corpus(config: RunConfig) -> EncodedCorpus:
    """Vocabulary and ids of the corpus of a configuration.

    The vocabulary holds the words of the training data; with vectors from a file or a text also
    those of the other splits, for which these may have vectors.

    Raises:
        DataError: the corpus is missing or malformed.
    """
    data, model = _data(config), config.model
    assert isinstance(model, PairModelConfig)
    reading = NliReading(
        tokenization=cast(Literal["provided", "punctuation"], data.tokenization),
        lowercase=data.lowercase,
        expected=cast(Literal["official", "any"], data.expected),
        max_words=data.max_words,
    )
    folder = _folder(config).resolve()
    return _encode(folder, data.source, reading, data.min_count, model.vectors != "random")


def vectors_of(config: RunConfig, vocabulary: Vocabulary) -> Tensor:
    """First word vectors of a model, shape ``(len(vocabulary), vector_size)``.

    Raises:
        DataError: a file of vectors is asked for, and is missing or malformed; or the text holds
            too few words.
    """
    model = config.model
    assert isinstance(model, PairModelConfig)
    choice = WordVectorChoice(
        cast(Literal["glove", "text", "random"], model.vectors),
        model.trainable_vectors,
        model.vector_size,
        model.vector_deviation,
    )
    if choice.source == "text":
        found = _text_vectors(config, vocabulary)
        return place_vectors(vocabulary, choice, config.seed, found).matrix
    glove, cache = glove_file(config), _cache_dir(config)
    return word_vectors(vocabulary, choice, config.seed, glove, cache).matrix


def glove_file(config: RunConfig) -> Path | None:
    """The file of word vectors, if the model reads one.

    Raises:
        DataError: it reads one, and none is named.
    """
    model = config.model
    assert isinstance(model, PairModelConfig)
    if model.vectors != "glove":
        return None
    name = _data(config).glove
    if name is None:
        raise DataError(
            "model.vectors=glove needs a file of vectors: set data.glove to its path below "
            "data_dir, or set model.vectors=random"
        )
    assert config.data_dir is not None
    return Path(config.data_dir) / name


def text_files(config: RunConfig) -> list[Path]:
    """Files of plain text whose words are counted for word vectors, beside the training pairs.

    Raises:
        DataError: one is missing.
    """
    model = config.model
    assert isinstance(model, PairModelConfig)
    if model.vectors != "text" or not _data(config).text:
        return []
    assert config.data_dir is not None
    paths = [Path(config.data_dir) / name for name in _data(config).text]
    for path in paths:
        if not path.is_file():
            raise DataError(f"{path} of data.text is missing: expected text, one sentence a line")
    return paths


def _text_vectors(config: RunConfig, vocabulary: Vocabulary) -> FoundVectors:
    """Vectors from the training pairs and ``data.text``, kept below the results."""
    model = config.model
    assert isinstance(model, PairModelConfig)
    content = [identify(config).fingerprint, *vocabulary.tokens]
    content += [str(model.vector_size), str(model.vector_deviation)]
    name = f"text-{sha256_of(chr(10).join(content).encode())[:16]}.safetensors"
    size, deviation = model.vector_size, model.vector_deviation
    return kept_vectors(
        _cache_dir(config) / name,
        lambda: cooccurrence_vectors(_text(config), vocabulary, size, deviation),
    )


def _text(config: RunConfig) -> Iterator[Sequence[str]]:
    """Words of the training pairs, then of the files of ``data.text``."""
    yield from _sentences([encode_corpus(config).train.examples])
    for path in text_files(config):
        for _, line in numbered_lines(path.read_bytes(), path):
            yield punctuation_words(line.lower() if _data(config).lowercase else line)


def _data(config: RunConfig) -> PairCorpusConfig:
    assert isinstance(config.data, PairCorpusConfig)
    return config.data


def _folder(config: RunConfig) -> Path:
    data, folder = _data(config), corpus_dir(config)
    if not data.generated:
        return folder
    return _generate(folder.resolve(), data.source, data.seed, data.premises)


def _cache_dir(config: RunConfig) -> Path:
    assert config.results_dir is not None
    return Path(config.results_dir) / config.scale.name / "corpora" / "vectors"


@lru_cache(maxsize=8)
def _generate(folder: Path, source: str, seed: int, premises: int) -> Path:
    inside = folder / f"{seed}-{premises}"
    sizes = {part: min(size, premises) for part, size in PREMISES.items()} | {"train": premises}
    write_demo_nli(inside, seed, sizes, (_SOURCES[source][0],))
    return inside


@lru_cache(maxsize=2)
def _encode(
    folder: Path, source: str, reading: NliReading, min_count: int, every_word: bool
) -> EncodedCorpus:
    corpus: NliCorpus = _SOURCES[source][1](folder, reading)
    parts = (corpus.train, corpus.dev, corpus.test)
    counted = parts if every_word else parts[:1]
    vocabulary = Vocabulary.build(_sentences(counted), min_count)
    splits = [PairSplit(part, EncodedPairs(part, vocabulary)) for part in parts]
    return EncodedCorpus(vocabulary, *splits)


def _sentences(parts: Iterable[Sequence[NliExample]]) -> Iterator[Sequence[str]]:
    for example in (example for part in parts for example in part):
        yield example.premise
        yield example.hypothesis
