"""Treebanks of Universal Dependencies whose sizes are known.

Any other treebank can be read as well: ``data.release`` and ``data.treebank`` name its folder.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from repro.data.corpora.corpus import Corpus, Download
from repro.data.corpora.inflection import packaged_checksums

_TREEBANKS = (
    ("1.4", "UD_Chinese", (3_997, 500, 500), "CC BY-NC-SA 4.0", ""),
    ("1.4", "UD_Japanese", (8_277, 918, 299), "CC BY-NC-SA 3.0 US", ""),
    ("2.0", "UD_Chinese", (3_997, 500, 500), "CC BY-NC-SA 4.0", "UD_Chinese-GSD"),
    ("2.0", "UD_English", (12_543, 2_002, 2_077), "CC BY-SA 4.0", "UD_English-EWT"),
    ("2.0", "UD_Japanese", (7_164, 511, 557), "CC BY-NC-SA 3.0 US", "UD_Japanese-GSD"),
    ("2.0", "UD_Romanian", (8_043, 752, 729), "CC BY-SA 4.0", "UD_Romanian-RRT"),
    ("2.0", "UD_Vietnamese", (1_400, 800, 800), "CC BY-SA 4.0", "UD_Vietnamese-VTB"),
    ("2.2", "UD_English-EWT", (12_543, 2_002, 2_077), "CC BY-SA 4.0", ""),
)
"""Release, treebank, numbers of training, validation and test sentences, licence, and the current
name of the repository of release 2.0."""


@dataclass(frozen=True, kw_only=True)
class TreebankFiles(Corpus):
    """Declaration of a treebank, selected by the settings ``release`` and ``treebank``."""

    release: str
    treebank: str


def _treebanks() -> Iterator[TreebankFiles]:
    """Declare treebanks; those of release 2.0 are fetched by tags of their repositories.

    Training and validation data have the tag ``r2.0``; test data, published after the shared task,
    have the tag ``r2.0-test``.
    """
    checksums = packaged_checksums("ud2.0.git")
    for release, treebank, sizes, licence, repository in _TREEBANKS:
        folder = f"ud-treebanks-v{release}/{treebank}"
        files = [path for path in checksums if path.startswith(f"{folder}/")]
        yield TreebankFiles(
            name=f"ud{release}-{treebank.removeprefix('UD_').lower()}",
            title=f"Universal Dependencies {release}, {treebank}",
            tasks=("parsing",),
            licence=licence,
            citation="Nivre et al. (2017), Universal Dependencies 2.0, hdl.handle.net/11234/1-1983"
            if release == "2.0"
            else f"Universal Dependencies {release}",
            folder=folder,
            sizes=dict(zip(("train", "dev", "test"), sizes, strict=True)),
            downloads=tuple(
                Download(
                    f"https://raw.githubusercontent.com/UniversalDependencies/{repository}/"
                    f"{'r2.0-test' if '-ud-test.' in path else 'r2.0'}/{path.rsplit('/', 1)[1]}",
                    f"git:{checksums[path]}",
                    path,
                )
                for path in files
            ),
            obtain="" if files else f"unpack release {release} of universaldependencies.org",
            reads=tuple(f"*-ud-{split}.conllu" for split in ("train", "dev", "test")),
            release=release,
            treebank=treebank,
        )


CORPORA = tuple(_treebanks())
