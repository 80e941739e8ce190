"""Declaration of a corpus: what it consists of, how large it is, and how to get it."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

Sizes = Mapping[str, int | range]
"""Number of examples of a split, or the numbers that are accepted."""
HUB_STEMS = {"train": "train", "dev": "validation", "test": "test"}
"""Names that splits mostly have on the Hub."""


@dataclass(frozen=True)
class Download:
    """A file on the web.

    Attributes:
        url: its address.
        checksum: ``sha256:…`` or ``md5:…`` as its publisher states it, or ``git:…`` with git's id
            of the file; without one, later downloads must give what the first one gave.
        path: below the data folder, where a single file is placed; ``None`` for a tar or zip
            file, which is unpacked into the folder of the corpus.
    """

    url: str
    checksum: str | None = None
    path: str | None = None


@dataclass(frozen=True)
class HubFiles:
    """Parquet files of the Hugging Face Hub; no code of a repository is ever run.

    Attributes:
        repository: owner and name.
        files: pattern of the files of each split.
        revision: branch or commit; which commit it was is written into the receipt.
        sizes: number of examples of each split that is checked.
        first: number of examples that are taken of a split, where the Hub joined two.
    """

    repository: str
    files: Mapping[str, str]
    revision: str = "main"
    sizes: Sizes = field(default_factory=dict)
    first: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """A corpus that a task reads.

    Attributes:
        name: what ``repro data fetch`` takes, and ``data.corpus`` where a task has several.
        title: the corpus in words.
        tasks: tasks that read it.
        licence: licence of the data, or that none is stated.
        citation: the publication to cite.
        folder: below the data folder.
        sizes: number of examples of each split that is checked.
        downloads: files that ``repro data fetch`` downloads.
        members: patterns of the names of files that are taken from archives.
        hub: a copy on the Hugging Face Hub, fetched as ``<name>@hub``; of a :class:`HubCorpus`.
        obtain: how to get a corpus that cannot be fetched.
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

    @property
    def archive_folder(self) -> str:
        """Folder below the data folder into which archives are unpacked."""
        return self.folder

    @property
    def how_to_get(self) -> str:
        """The command that fetches the corpus, or what the user has to do."""
        names = [self.name] if self.downloads else []
        names += [f"{self.name}@hub"] if self.hub else []
        ways = [f"run `repro data fetch {name}`" for name in names]
        return " or ".join([*ways, *([self.obtain] if self.obtain else [])])


@dataclass(frozen=True, kw_only=True)
class HubCorpus(Corpus, ABC):
    """A corpus that can be written from a copy on the Hub."""

    @abstractmethod
    def write_hub_split(
        self, split: str, rows: Iterable[Mapping[str, object]], data_dir: Path
    ) -> list[Path]:
        """Write the rows of a split of :attr:`hub` as files that the reader finds.

        Raises:
            DataError: a row is malformed.
        """
