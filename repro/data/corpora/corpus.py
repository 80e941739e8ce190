"""Declaration of a corpus: what it consists of, how large it is, and how to get it."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

Sizes = Mapping[str, int | range]
"""Number of examples of each split, or the range of accepted numbers."""
HUB_STEMS = {"train": "train", "dev": "validation", "test": "test"}
"""Usual names of the splits on the Hub."""


@dataclass(frozen=True)
class Download:
    """File on the web.

    Attributes:
        url: address of the file.
        checksum: published checksum, ``sha256:…`` or ``md5:…``, or the blob id of git, ``git:…``;
            without one, later downloads are compared with the first one.
        path: destination of a single file, relative to the data folder; ``None`` for a tar or zip
            file, which is unpacked into the folder of the corpus.
    """

    url: str
    checksum: str | None = None
    path: str | None = None


@dataclass(frozen=True)
class HubFiles:
    """Parquet files on the Hugging Face Hub; code of the repository is never run.

    Attributes:
        repository: ``owner/name``.
        files: pattern of the files of each split.
        revision: branch or commit; the receipt records the commit.
        sizes: expected number of examples of each split that is checked.
        first: number of examples to take from a split to which the Hub has appended another one.
    """

    repository: str
    files: Mapping[str, str]
    revision: str = "main"
    sizes: Sizes = field(default_factory=dict)
    first: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """Declaration of a corpus that a task reads.

    Attributes:
        name: name for ``repro data fetch`` and, if a task has several corpora, ``data.corpus``.
        title: short description of the corpus.
        tasks: tasks that read it.
        licence: licence of the data, or a note that none is stated.
        citation: the publication to cite.
        folder: folder of the corpus, relative to the data folder.
        sizes: expected number of examples of each split that is checked.
        downloads: files that ``repro data fetch`` downloads.
        members: patterns of the names of files to extract from archives.
        hub: copy on the Hugging Face Hub, fetched as ``<name>@hub``; requires a
            :class:`HubCorpus`.
        obtain: how to get a corpus that cannot be fetched.
        reads: files that the corpus's reader expects, or patterns of them, relative to ``folder``.
    """

    name: str
    title: str
    tasks: tuple[str, ...]
    licence: str
    citation: str
    folder: str
    sizes: Sizes = field(default_factory=dict)
    downloads: tuple[Download, ...] = ()
    members: tuple[str, ...] = ()
    hub: HubFiles | None = None
    obtain: str = ""
    reads: tuple[str, ...] = ()

    @property
    def expected(self) -> list[str]:
        """Patterns of the files of the corpus, relative to the data folder."""
        return [f"{self.folder}/{name}" for name in self.reads]

    @property
    def archive_folder(self) -> str:
        """Folder below the data folder into which archives are unpacked."""
        return self.folder

    @property
    def how_to_get(self) -> str:
        """Commands that fetch the corpus, or instructions to obtain it."""
        names = [self.name] if self.downloads else []
        names += [f"{self.name}@hub"] if self.hub else []
        ways = [f"run `repro data fetch {name}`" for name in names]
        return " or ".join([*ways, *([self.obtain] if self.obtain else [])])


@dataclass(frozen=True, kw_only=True)
class HubCorpus(Corpus, ABC):
    """Corpus whose files can be written from a copy on the Hub."""

    @abstractmethod
    def write_hub_split(
        self, split: str, rows: Iterable[Mapping[str, object]], data_dir: Path
    ) -> list[Path]:
        """Write the rows of a split of :attr:`hub` as the files that the corpus's reader expects.

        Raises:
            DataError: a row is malformed.
        """
