"""Treebanks of Universal Dependencies, by release and treebank.

Files ``ud-treebanks-v<release>/<treebank>/<code>-ud-{train,dev,test}.conllu``.

References:
    Nivre et al. (2016), Universal Dependencies v1; Zeman et al. (2017), CoNLL 2017 shared task.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from repro.data.conllu import UNSPECIFIED, Sentence, parse_conllu
from repro.data.errors import DataError
from repro.data.files import sha256_of

SPLITS = ("train", "dev", "test")

KNOWN_COUNTS: Mapping[tuple[str, str], tuple[int, int, int]] = {
    ("1.4", "UD_Chinese"): (3_997, 500, 500),
    ("1.4", "UD_Japanese"): (8_277, 918, 299),
    ("2.0", "UD_Chinese"): (3_997, 500, 500),
    ("2.0", "UD_English"): (12_543, 2_002, 2_077),
    ("2.0", "UD_Japanese"): (7_164, 511, 557),
    ("2.0", "UD_Romanian"): (8_043, 752, 729),
    ("2.0", "UD_Vietnamese"): (1_400, 800, 800),
    ("2.2", "UD_English-EWT"): (12_543, 2_002, 2_077),
}
"""Sentences of training, development and test data of known releases and treebanks."""


@dataclass(frozen=True)
class Treebank:
    """The sentences of one treebank.

    Attributes:
        name: folder and release, for example ``"UD_Vietnamese 2.0"``.
        fingerprint: SHA-256 over the names and the SHA-256 of every file that was read.
        files: the file of each split.
    """

    name: str
    train: list[Sentence]
    dev: list[Sentence]
    test: list[Sentence]
    fingerprint: str
    files: Mapping[str, Path]


def load_treebank(
    data_dir: Path, release: str, treebank: str, check_counts: bool = True
) -> Treebank:
    """Read training, development and test data of one treebank.

    Args:
        data_dir: folder that holds ``ud-treebanks-v<release>``.
        release: for example ``"2.0"``.
        treebank: for example ``"UD_Vietnamese"``.
        check_counts: refuse a treebank of :data:`KNOWN_COUNTS` that has other numbers of
            sentences; turn it off for a part of a treebank.

    Raises:
        DataError: a file is missing or malformed, or the numbers of sentences are wrong.
    """
    folder = Path(data_dir) / f"ud-treebanks-v{release}" / treebank
    splits: dict[str, list[Sentence]] = {}
    files = {split: _split_file(folder, split) for split in SPLITS}
    lines = [f"{release} {treebank}\n"]
    for split, path in files.items():
        content = path.read_bytes()
        lines.append(f"{path.name} {sha256_of(content)}\n")
        splits[split] = parse_conllu(content, path)
    if check_counts:
        _check_counts(release, treebank, splits, folder)
    return Treebank(
        f"{treebank} {release}",
        fingerprint=sha256_of("".join(lines).encode()),
        files=files,
        **splits,
    )


def check_tags(treebank: Treebank, column: str) -> None:
    """Refuse a treebank without tags, on which a parser would train on words alone.

    Args:
        treebank: the treebank.
        column: ``"UPOS"`` or ``"XPOS"``.

    Raises:
        DataError: every word of a split has ``_`` in this column; names the file, and the setting
            that reads the other column where that one has tags.
    """
    other = "XPOS" if column == "UPOS" else "UPOS"
    for split, path in treebank.files.items():
        sentences = getattr(treebank, split)
        if _has_values(sentences, column):
            continue
        if _has_values(sentences, other):
            raise DataError(f"{path}: {column} is _ for every word; set task.tags={other.lower()}")
        raise DataError(f"{path}: UPOS and XPOS are _ for every word; expected tags in one of them")


def _has_values(sentences: Sequence[Sentence], column: str) -> bool:
    return any(value != UNSPECIFIED for each in sentences for value in each.column(column))


def _split_file(folder: Path, split: str) -> Path:
    found = sorted(folder.glob(f"*-ud-{split}.conllu"))
    if len(found) != 1:
        here = f"{len(found)} such files" if found else "there is none"
        raise DataError(
            f"{folder}: expected one file *-ud-{split}.conllu, {here}; unpack the treebank there, "
            "or set data_dir to the folder that holds ud-treebanks-v…"
        )
    return found[0]


def _check_counts(
    release: str, treebank: str, splits: Mapping[str, list[Sentence]], folder: Path
) -> None:
    expected = KNOWN_COUNTS.get((release, treebank))
    found = tuple(len(splits[split]) for split in SPLITS)
    if expected is not None and found != expected:
        raise DataError(
            f"{folder}: expected {expected} sentences (train, dev, test), found {found}; for "
            "another edition of the treebank set data.check_counts=false"
        )
