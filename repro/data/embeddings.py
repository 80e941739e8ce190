"""Word vectors: GloVe's text files, read once per vocabulary and cached, or random ones.

A line of a GloVe file is a word and its numbers, all separated by one space; there is no header. A
few words contain spaces themselves, so the numbers are split off from the right.

References:
    Pennington et al. (2014), GloVe: Global vectors for word representation.
"""

from codecs import BOM_UTF8
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save
from torch import Tensor

from repro.atomic import atomic_write_bytes, atomic_write_text
from repro.checksums import sha256_of_file
from repro.config.schema.nli import WordVectorConfig
from repro.data.stages import cached_stage
from repro.data.vocabulary import Vocabulary
from repro.errors import DataError

_VECTORS, _DIGEST = "vectors.safetensors", "sha256"


@dataclass(frozen=True, eq=False)
class FoundVectors:
    """Vectors of the words of a vocabulary that a file or a text provides.

    Attributes:
        rows: ids of the words, ascending, shape ``(k,)``.
        vectors: vectors of these words, shape ``(k, dimension)``, float32.
    """

    rows: Tensor
    vectors: Tensor


def glove_vectors(
    path: Path, vocabulary: Vocabulary, dimension: int, cache_dir: Path
) -> FoundVectors:
    """Return the vectors that a GloVe file has of a vocabulary; see :func:`read_glove`.

    They are cached by the content of the file, the vocabulary and the dimension.
    """
    content = glove_fingerprint(path, cache_dir)
    identity = {"content": content, "words": vocabulary.tokens, "dimension": dimension}
    read = partial(read_glove, path, vocabulary, dimension)
    return kept_vectors(cache_dir, "glove", identity, read, {path: content})


def place_vectors(
    vocabulary: Vocabulary, choice: WordVectorConfig, seed: int, found: FoundVectors | None
) -> Tensor:
    """Combine found vectors with vectors of the other words drawn from a normal distribution.

    The row of ``PAD`` is zero.
    """
    generator = torch.Generator().manual_seed(seed)
    size = (len(vocabulary), choice.vector_size)
    matrix = torch.normal(0.0, choice.embedding_std, size, generator=generator)
    matrix[Vocabulary.PAD] = 0.0
    if found is not None:
        matrix[found.rows] = found.vectors
    return matrix


def read_glove(path: Path, vocabulary: Vocabulary, dimension: int) -> FoundVectors:
    """Read the vectors of a vocabulary in one pass; the first line of a repeated word counts.

    Raises:
        DataError: the file is missing or malformed, or contains no word of the vocabulary; names
            the file and the line.
    """
    ids = {token.encode(): index for index, token in enumerate(vocabulary.tokens)}
    vectors: dict[int, NDArray[np.float32]] = {}
    with _opened(path).open("rb") as stream:
        for number, content in enumerate(stream, start=1):
            line = content.removeprefix(BOM_UTF8) if number == 1 else content
            # Words of the vocabulary have no space, so only their lines need to be parsed.
            if number > 1 and line.partition(b" ")[0] not in ids:
                continue
            word, *numbers = line.rstrip(b"\r\n").rsplit(b" ", dimension)
            wanted = f"{path}:{number}: expected a word and {dimension} numbers"
            if len(numbers) != dimension:
                raise DataError(f"{wanted}, as model.vector_size says, found {len(numbers)}")
            try:
                vector = np.array(numbers, dtype=np.float32)
            except ValueError:
                raise DataError(f"{wanted}, all separated by one space") from None
            if not np.isfinite(vector).all():
                raise DataError(
                    f"{path}:{number}: expected {dimension} finite numbers after the word"
                )
            if word in ids:
                vectors.setdefault(ids[word], vector)
    if not vectors:
        raise DataError(
            f"{path} holds no word of the vocabulary ({len(ids)} words); set data.glove to vectors "
            "of the language of the corpus, or set model.vectors=random"
        )
    rows = sorted(vectors)
    table = torch.from_numpy(np.stack([vectors[row] for row in rows]))
    return FoundVectors(torch.tensor(rows), table)


def glove_fingerprint(path: Path, cache_dir: Path) -> str:
    """Compute the SHA-256 of a file of vectors, or read it from the cache.

    The cached value is used while path, size and modification time of the file are the same.

    Raises:
        DataError: the file is missing.
    """
    state = _opened(path).stat()
    identity = {"path": str(path.resolve()), "size": state.st_size, "mtime": state.st_mtime_ns}

    def build(folder: Path) -> None:
        atomic_write_text(folder / _DIGEST, sha256_of_file(path))

    folder = cached_stage(cache_dir, "fingerprint", identity, build)
    return (folder / _DIGEST).read_text(encoding="utf-8")


def kept_vectors(
    cache_dir: Path,
    name: str,
    identity: Mapping[str, object],
    make: Callable[[], FoundVectors],
    sources: Mapping[Path, str] = MappingProxyType({}),
) -> FoundVectors:
    """Read vectors from their stage; see :func:`~repro.data.stages.cached_stage`."""

    def build(folder: Path) -> None:
        atomic_write_bytes(folder / _VECTORS, save(vars(make())))

    folder = cached_stage(cache_dir, name, identity, build, sources)
    return FoundVectors(**load_file(folder / _VECTORS))


def _opened(path: Path) -> Path:
    if not path.is_file():
        raise DataError(
            f"{path} of data.glove is missing: unpack word vectors there (see "
            "https://nlp.stanford.edu/projects/glove), or set model.vectors=random"
        )
    return path
