"""Treebanks of Universal Dependencies, or user-supplied ones: a CoNLL-U file per split.

Files ``ud-treebanks-v<release>/<treebank>/<code>-ud-{train,dev,test}.conllu``, or
``{train,dev,test}.conllu`` in a user's folder. If a treebank has no validation data, every tenth
training sentence is held out for validation.

References:
    Nivre et al. (2016), Universal Dependencies v1; Zeman et al. (2017), CoNLL 2017 shared task.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from repro.data.corpora import declared_corpora
from repro.data.corpora.treebanks import TreebankFiles
from repro.data.dependencies.conllu import UNSPECIFIED, Sentence, parse_conllu
from repro.data.files import sha256_of
from repro.errors import DataError

SPLITS = ("train", "dev", "test")
HELD_OUT = 10
"""Without validation data, training sentences whose number this divides are held out."""


@dataclass(frozen=True)
class Treebank:
    """Sentences of a treebank.

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


def treebank_folder(data_dir: Path, release: str, treebank: str) -> Path:
    """Return the folder of a treebank of a release below ``data_dir``."""
    return data_dir / f"ud-treebanks-v{release}" / treebank


def load_treebank(folder: Path, name: str, check_size: bool = True) -> Treebank:
    """Read training, validation and test data of one treebank.

    Args:
        folder: folder of the three files, or only those of training and test data.
        name: treebank and release, for example ``"UD_Vietnamese 2.0"``; a user's own treebank has
            no release.
        check_size: if a treebank of this name is declared, require its numbers of sentences.

    Raises:
        DataError: a file is missing or malformed, or the numbers of sentences are wrong.
    """
    treebank, _, release = name.partition(" ")
    files: dict[str, Path] = {}
    for split in SPLITS:
        there = sorted(folder.glob(f"*-ud-{split}.conllu"))
        there = there or sorted(folder.glob(f"{split}.conllu"))
        if len(there) == 1:
            files[split] = there[0]
        elif there or split != "dev":
            here = f"{len(there)} such files" if there else "there is none"
            raise DataError(
                f"{folder}: expected one file *-ud-{split}.conllu or {split}.conllu, {here}; "
                "unpack the treebank there, or set data_dir to the folder that holds "
                "ud-treebanks-v…"
            )
    splits: dict[str, list[Sentence]] = {}
    lines = [f"{release} {treebank}\n" if release else f"{treebank}\n"]
    for split, path in files.items():
        content = path.read_bytes()
        lines.append(f"{path.name} {sha256_of(content)}\n")
        splits[split] = parse_conllu(content, path)
    treebanks = (one for one in declared_corpora().values() if isinstance(one, TreebankFiles))
    sizes = {f"{one.treebank} {one.release}": one.sizes for one in treebanks}.get(name)
    found = {split: len(sentences) for split, sentences in splits.items()}
    if check_size and sizes is not None and found != sizes:
        expected, counted = (
            ", ".join(f"{size} ({split})" for split, size in one.items()) for one in (sizes, found)
        )
        raise DataError(
            f"{folder}: expected {expected} sentences, found {counted}; for another edition of the "
            "treebank set data.check_size=false"
        )
    if "dev" not in files:
        numbered = list(enumerate(splits["train"], start=1))
        splits["dev"] = [sentence for n, sentence in numbered if n % HELD_OUT == 0]
        splits["train"] = [sentence for n, sentence in numbered if n % HELD_OUT]
        files["dev"] = files["train"]
        if not splits["dev"]:
            raise DataError(
                f"{files['train']} has {len(numbered)} sentences and there is no validation data; "
                f"expected at least {HELD_OUT}, each {HELD_OUT}th of which is held out"
            )
    return Treebank(name, fingerprint=sha256_of("".join(lines).encode()), files=files, **splits)


def check_tags(treebank: Treebank, column: str) -> None:
    """Check that all splits have tags in a column, ``"UPOS"`` or ``"XPOS"``, as parsers need them.

    Raises:
        DataError: every word of a split has ``_`` in the column; names the file and, if the
            other column has tags, the setting that selects it.
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
