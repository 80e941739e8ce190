"""Files of natural language inference: sentence pairs and word vectors of a configuration."""

from pathlib import Path

from repro.checksums import sha256_of_file
from repro.config.schema.nli import PairRun
from repro.data.corpora.inference import MULTINLI, SNLI
from repro.data.demo.nli import PREMISES, write_demo_nli
from repro.data.files import sha256_of
from repro.data.nli import archive_files, fingerprint, pair_files
from repro.errors import DataError
from repro.tasks.common import corpus_folder
from repro.tasks.protocol import CorpusIdentity

SOURCES = {corpus.name: corpus for corpus in (SNLI, MULTINLI)}


def identify(config: PairRun) -> CorpusIdentity:
    """Find (or generate) the corpus and the word vectors of a configuration without parsing them.

    Raises:
        DataError: a file of the corpus or the vectors is missing.
    """
    data, folder = config.data, pair_folder(config)
    own = data.source == "files"
    found = fingerprint(pair_files(folder) if own else archive_files(SOURCES[data.source], folder))
    vectors = glove_file(config)
    if vectors is not None:
        from repro.data.embeddings import glove_fingerprint  # imports PyTorch

        found = sha256_of(f"{found} {glove_fingerprint(vectors, vectors_dir(config))}".encode())
    for path in text_files(config):
        found = sha256_of(f"{found} {sha256_of_file(path)}".encode())
    return CorpusIdentity(folder.name if own else f"{data.corpus}: {data.source}", found)


def glove_file(config: PairRun) -> Path | None:
    """Return the path of the file of word vectors, or ``None`` if the model reads none."""
    if config.model.vectors != "glove":
        return None
    if config.data.glove is None:
        raise DataError(
            "model.vectors=glove needs a file of vectors: set data.glove to its path below "
            "data_dir, or set model.vectors=random"
        )
    return config.data_path / config.data.glove


def text_files(config: PairRun) -> list[Path]:
    """Find the files of ``data.text``, from which word vectors are learned besides the pairs."""
    if config.model.vectors != "text":
        return []
    paths = [config.data_path / name for name in config.data.text]
    for path in paths:
        if not path.is_file():
            raise DataError(f"{path} of data.text is missing: expected text, one sentence a line")
    return paths


def pair_folder(config: PairRun) -> Path:
    """Return the folder of the corpus, which is user-supplied, generated or published."""
    data = config.data
    if data.folder is None and data.source == "files":
        raise DataError("data.source=files reads the files of data.folder; set that as well")
    size = data.train_premises
    return corpus_folder(
        config, "nli", "demo_nli", _write_demo, data.source, data.seed, size, inside=str(size)
    )


def vectors_dir(config: PairRun) -> Path:
    """Return the folder of cached word vectors."""
    return config.corpora_path / "vectors"


def _write_demo(folder: Path, source: str, seed: int, premises: int) -> None:
    sizes = {part: min(size, premises) for part, size in PREMISES.items()} | {"train": premises}
    write_demo_nli(folder, seed, sizes, (SOURCES[source],))
