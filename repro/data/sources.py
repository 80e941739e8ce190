"""Corpora that can be fetched: their address, licence and the checksum of every file."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import PurePosixPath

from repro.data.errors import DataError

_MANIFEST_LINE = re.compile(r"([0-9a-f]{64}|[0-9a-f]{40}) [ *](\S.*)")
_SAFE_PART = re.compile(r"[A-Za-z0-9_+-][A-Za-z0-9._+-]*")
SIGMORPHON_COMMIT = "490e2e0693241f708670d9d1c56803b754fab7cd"
UD_RELEASE = "ud-treebanks-v2.0"
UD_REPOSITORIES = {
    "UD_Chinese": ("UD_Chinese-GSD", "CC BY-NC-SA 4.0"),
    "UD_English": ("UD_English-EWT", "CC BY-SA 4.0"),
    "UD_Japanese": ("UD_Japanese-GSD", "CC BY-NC-SA 3.0 US"),
    "UD_Romanian": ("UD_Romanian-RRT", "CC BY-SA 4.0"),
    "UD_Vietnamese": ("UD_Vietnamese-VTB", "CC BY-SA 4.0"),
}
"""Treebanks of release 2.0: the repository that has them now, and the licence."""


@dataclass(frozen=True)
class CorpusSource:
    """A corpus on the web, pinned to one version.

    Attributes:
        name: what ``repro data fetch`` takes.
        title: the corpus in words.
        base_url: address of the folder that ``root`` mirrors.
        root: first folder of every path; paths below it are those below ``base_url``.
        licence: licence of the data, or that none is stated.
        citation: the publication to cite.
        size: bytes of all files together, None where they are not known before they are fetched.
        files: path below the data folder to SHA-256, or to git's id of the file (40 digits).
        moved: path to the address below ``base_url`` of each file that does not lie where ``root``
            would have it.
    """

    name: str
    title: str
    base_url: str
    root: str
    licence: str
    citation: str
    size: int | None
    files: Mapping[str, str]
    moved: Mapping[str, str] = field(default_factory=dict)

    def address(self, path: str) -> str:
        """Where a file lies below ``base_url``."""
        return self.moved.get(path, path.removeprefix(self.root + "/"))


@cache
def corpus_sources() -> Mapping[str, CorpusSource]:
    """Every corpus that can be fetched, by name."""
    sigmorphon = CorpusSource(
        name="sigmorphon2018",
        title="CoNLL–SIGMORPHON 2018 task 1, morphological inflection, 103 languages",
        base_url=f"https://raw.githubusercontent.com/sigmorphon/conll2018/{SIGMORPHON_COMMIT}",
        root="conll2018",
        licence="none stated; derived from Wiktionary, so fetched and never redistributed here",
        citation="Cotterell et al. (2018), The CoNLL–SIGMORPHON 2018 Shared Task",
        size=38_755_281,
        files=_packaged_manifest("sigmorphon2018.sha256", "conll2018"),
    )
    return {source.name: source for source in (sigmorphon, *_treebanks())}


def _treebanks() -> Iterator[CorpusSource]:
    """Treebanks of Universal Dependencies 2.0, by the tags of their repositories.

    Training and development data have the tag ``r2.0``; the test data, which came out after the
    shared task, ``r2.0-test``. Git's id of each file stands in the manifest.
    """
    every = _packaged_manifest("ud2.0.git", UD_RELEASE)
    for treebank, (repository, licence) in UD_REPOSITORIES.items():
        folder = f"{UD_RELEASE}/{treebank}/"
        files = {path: known for path, known in every.items() if path.startswith(folder)}
        names = {path: path.removeprefix(folder) for path in files}
        yield CorpusSource(
            name=f"ud2.0-{treebank.removeprefix('UD_').lower()}",
            title=f"Universal Dependencies 2.0, {treebank}",
            base_url=f"https://raw.githubusercontent.com/UniversalDependencies/{repository}",
            root=UD_RELEASE,
            licence=licence,
            citation="Nivre et al. (2017), Universal Dependencies 2.0, hdl.handle.net/11234/1-1983",
            size=None,
            files=files,
            moved={
                path: f"{'r2.0-test' if '-ud-test.' in name else 'r2.0'}/{name}"
                for path, name in names.items()
            },
        )


def read_manifest(text: str, root: str, origin: str) -> dict[str, str]:
    """Read checksums in the format of ``sha256sum``, or git's ids of files in the same format.

    Args:
        text: lines of 64 or 40 hexadecimal digits, two spaces and a path.
        root: the folder that every path begins with.
        origin: name of the manifest for messages.

    Returns:
        Path to checksum; every path is relative and stays below ``root``.

    Raises:
        DataError: a malformed line, an unsafe path, or a path that stands twice.
    """
    files: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        match = _MANIFEST_LINE.fullmatch(line)
        if match is None:
            raise DataError(f"{origin}:{number}: expected a checksum, two spaces and a path")
        checksum, path = match.groups()
        if not is_safe_path(path, root):
            raise DataError(f"{origin}:{number}: {path!r} is not a plain path below {root}/")
        if path in files:
            raise DataError(f"{origin}:{number}: {path} stands twice")
        files[path] = checksum
    return files


def is_plain_path(path: str) -> bool:
    """Whether ``path`` is relative and made of plain names, never ``..``."""
    return all(_SAFE_PART.fullmatch(part) for part in path.split("/"))


def is_safe_path(path: str, root: str) -> bool:
    """Whether a plain path is below ``root``."""
    return is_plain_path(path) and "/" in path and PurePosixPath(path).is_relative_to(root)


def _packaged_manifest(name: str, root: str) -> dict[str, str]:
    resource = resources.files("repro.data") / "checksums" / name
    return read_manifest(resource.read_text(encoding="utf-8"), root, resource.name)
