"""The sentence pairs of a configuration, read once and turned into ids, with word vectors."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from torch import Tensor

from repro.checksums import sha256_of_file
from repro.config.schema.checks import part_of
from repro.config.schema.nli import NliReading, PairRun
from repro.data.cooccurrence import cooccurrence_vectors
from repro.data.corpora.inference import MULTINLI, SNLI
from repro.data.demo.nli import PREMISES, write_demo_nli
from repro.data.embeddings import (
    FoundVectors,
    glove_fingerprint,
    kept_vectors,
    place_vectors,
    word_vectors,
)
from repro.data.errors import DataError
from repro.data.files import numbered_lines, sha256_of
from repro.data.nli import (
    NliExample,
    load_nli,
    load_pairs,
    nli_fingerprint,
    own_fingerprint,
)
from repro.data.nli_batching import EncodedPairs
from repro.data.nli_tokens import punctuation_words
from repro.data.vocabulary import Vocabulary
from repro.tasks.corpora import check_name, own_folder
from repro.tasks.protocol import CorpusIdentity

_SOURCES = {corpus.name: corpus for corpus in (SNLI, MULTINLI)}


@dataclass(frozen=True)
class PairSplit:
    """The pairs of one split, as words and as ids."""

    examples: list[NliExample]
    encoded: EncodedPairs


@dataclass(frozen=True)
class EncodedCorpus:
    """The splits of a corpus, with the vocabulary of their words and the names of its labels."""

    vocabulary: Vocabulary
    labels: tuple[str, ...]
    train: PairSplit
    dev: PairSplit
    test: PairSplit


def identify(config: PairRun) -> CorpusIdentity:
    """Find (or generate) the corpus of a configuration and its word vectors; parses nothing.

    Raises:
        DataError: a file of the corpus or the vectors is missing.
    """
    data, folder = config.data, _folder(config)
    own = data.source == "files"
    found = own_fingerprint(folder) if own else nli_fingerprint(_SOURCES[data.source], folder)
    vectors = glove_file(config)
    if vectors is not None:
        found = sha256_of(f"{found} {glove_fingerprint(vectors, _cache_dir(config))}".encode())
    for path in text_files(config):
        found = sha256_of(f"{found} {sha256_of_file(path)}".encode())
    return CorpusIdentity(folder.name if own else f"{data.corpus}: {data.source}", found)


def check(config: PairRun) -> None:
    """Read the corpus and the word vectors of a configuration; the former stay in memory.

    Raises:
        DataError: a file is malformed, or no training pair is short enough.
    """
    vectors_of(config, encode_corpus(config).vocabulary)


def encode_corpus(config: PairRun) -> EncodedCorpus:
    """Vocabulary and ids of the corpus of a configuration.

    The vocabulary holds the words of the training data; with vectors from a file or a text also
    those of the other splits, for which these may have vectors.

    Raises:
        DataError: the corpus is missing or malformed.
    """
    data, every_word = config.data, config.model.vectors != "random"
    reading = part_of(NliReading, data)
    return _encode(_folder(config).resolve(), data.source, reading, data.min_count, every_word)


def vectors_of(config: PairRun, vocabulary: Vocabulary) -> Tensor:
    """First word vectors of a model, shape ``(len(vocabulary), vector_size)``.

    Raises:
        DataError: a file of vectors is asked for, and is missing or malformed; or the text holds
            too few words.
    """
    model = config.model
    if model.vectors == "text":
        found = _text_vectors(config, vocabulary)
        return place_vectors(vocabulary, model, config.seed, found).matrix
    glove, cache = glove_file(config), _cache_dir(config)
    return word_vectors(vocabulary, model, config.seed, glove, cache).matrix


def glove_file(config: PairRun) -> Path | None:
    """The file of word vectors, if the model reads one.

    Raises:
        DataError: it reads one, and none is named.
    """
    model = config.model
    if model.vectors != "glove":
        return None
    name = config.data.glove
    if name is None:
        raise DataError(
            "model.vectors=glove needs a file of vectors: set data.glove to its path below "
            "data_dir, or set model.vectors=random"
        )
    return config.data_path / name


def text_files(config: PairRun) -> list[Path]:
    """Files of plain text whose words are counted for word vectors, beside the training pairs.

    Raises:
        DataError: one is missing.
    """
    model = config.model
    if model.vectors != "text" or not config.data.text:
        return []
    paths = [config.data_path / name for name in config.data.text]
    for path in paths:
        if not path.is_file():
            raise DataError(f"{path} of data.text is missing: expected text, one sentence a line")
    return paths


def _text_vectors(config: PairRun, vocabulary: Vocabulary) -> FoundVectors:
    """Vectors from the training pairs and ``data.text``, kept below the results."""
    model = config.model
    content = [identify(config).fingerprint, *vocabulary.tokens]
    content += [str(model.vector_size), str(model.embedding_std)]
    name = f"text-{sha256_of(chr(10).join(content).encode())[:16]}.safetensors"
    size, deviation = model.vector_size, model.embedding_std
    return kept_vectors(
        _cache_dir(config) / name,
        lambda: cooccurrence_vectors(_text(config), vocabulary, size, deviation),
    )


def _text(config: PairRun) -> Iterator[Sequence[str]]:
    """Words of the training pairs, then of the files of ``data.text``."""
    yield from _sentences([encode_corpus(config).train.examples])
    for path in text_files(config):
        for _, line in numbered_lines(path.read_bytes(), path):
            yield punctuation_words(line.lower() if config.data.lowercase else line)


def _folder(config: PairRun) -> Path:
    """Folder of the corpus: your own, a generated one, or that of the published corpora."""
    data, own = config.data, own_folder(config)
    if (own is None) == (data.source == "files"):
        raise DataError(
            "data.source=files reads the files of data.folder; set both of them or neither"
        )
    if own is not None:
        return own
    check_name(config, "nli", "demo_nli")
    if not data.generated:
        return config.corpus_path
    return _generate(config.corpus_path.resolve(), data.source, data.seed, data.train_premises)


def _cache_dir(config: PairRun) -> Path:
    return config.corpora_path / "vectors"


@lru_cache(maxsize=8)
def _generate(folder: Path, source: str, seed: int, premises: int) -> Path:
    inside = folder / f"{seed}-{premises}"
    sizes = {part: min(size, premises) for part, size in PREMISES.items()} | {"train": premises}
    write_demo_nli(inside, seed, sizes, (_SOURCES[source],))
    return inside


@lru_cache(maxsize=2)
def _encode(
    folder: Path, source: str, reading: NliReading, min_count: int, every_word: bool
) -> EncodedCorpus:
    own = source == "files"
    corpus = load_pairs(folder, reading) if own else load_nli(_SOURCES[source], folder, reading)
    parts = (corpus.train, corpus.dev, corpus.test)
    counted = parts if every_word else parts[:1]
    vocabulary = Vocabulary.build(_sentences(counted), min_count)
    splits = [PairSplit(part, EncodedPairs(part, vocabulary)) for part in parts]
    return EncodedCorpus(vocabulary, corpus.labels, *splits)


def _sentences(parts: Iterable[Sequence[NliExample]]) -> Iterator[Sequence[str]]:
    for example in (example for part in parts for example in part):
        yield example.premise
        yield example.hypothesis
