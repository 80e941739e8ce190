"""Article–title pairs of Gigaword and the summaries of DUC, in the layout ``sumdata``.

Both are made from text that the Linguistic Data Consortium and NIST license; a user brings them:

- Gigaword pairs: https://github.com/harvardnlp/sent-summary (derived from LDC2012T21);
- DUC 2003 and 2004: agreements of https://duc.nist.gov/data.html, then the cleaning of
  Rush et al. (2015) to one input and four references on a line each.

The texts write an unknown word as ``<unk>`` or as ``UNK``, and not the same in all files; both are
read as the vocabulary's symbol.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from repro.data.errors import DataError
from repro.data.parallel import ParallelCorpus, ParallelText, check_sizes, fingerprint, read_pairs

SIZES: Mapping[str, int] = {"train": 3_803_957, "dev": 189_651, "test": 1_951}
"""Pairs of Gigaword: training, validation, and the test set of Rush et al. (2015)."""
_DUC = {"test_duc2003": ("DUC2003", 624), "test_duc2004": ("DUC2004", 500)}
_REFERENCE_NAMES = tuple(f"task1_ref{number}.txt" for number in range(4))
_UNKNOWN = ("UNK",)
_OBTAIN_GIGAWORD = (
    "expected the Gigaword article–title pairs there, as made by "
    "https://github.com/harvardnlp/sent-summary; they need a licence of the LDC (LDC2012T21)"
)
_OBTAIN_DUC = (
    "expected one article on each line of input.txt and its summaries in task1_ref0.txt to "
    "task1_ref3.txt; sign the agreements of https://duc.nist.gov/data.html, then clean the texts "
    "as https://github.com/facebookarchive/NAMAS does, or remove the folder to go without"
)
_TRAIN_NAMES = ("train.{}.txt", "train.{}.filter.txt")


def open_summaries(
    data_dir: Path, *, subset: bool = False, generated: bool = False
) -> ParallelCorpus:
    """Find the corpus below ``data_dir/sumdata``; DUC test sets are taken where they are.

    Args:
        data_dir: folder that holds ``sumdata``.
        subset: accept another number of training and validation pairs than Gigaword has.
        generated: accept any sizes; the corpus is not Gigaword but has its layout.

    Raises:
        DataError: a file is missing, a size is wrong, or a line of a reference is malformed.
    """
    folder = Path(data_dir) / "sumdata"
    if not folder.is_dir():
        raise DataError(f"{folder} is missing: {_OBTAIN_GIGAWORD}")
    splits = {
        "train": _training(folder),
        "dev": ParallelText(
            folder / "train" / "valid.article.filter.txt",
            folder / "train" / "valid.title.filter.txt",
        ),
        "test": ParallelText(folder / "Giga" / "input.txt", folder / "Giga" / "task1_ref0.txt"),
    }
    _require(folder / "Giga", ["input.txt", "task1_ref0.txt"], _OBTAIN_GIGAWORD)
    references, sizes = {}, {"test": SIZES["test"]} if subset else dict(SIZES)
    for split, (name, size) in _DUC.items():
        if (folder / name).is_dir():
            _require(folder / name, ["input.txt", *_REFERENCE_NAMES], _OBTAIN_DUC)
            files = tuple(folder / name / file for file in _REFERENCE_NAMES)
            splits[split] = ParallelText(folder / name / "input.txt", files[0])
            references[split], sizes[split] = files[1:], size
    digest = fingerprint(splits | _as_splits(splits, references))
    check_sizes(splits, {} if generated else sizes, reducible=("train", "dev"))
    for text in _as_splits(splits, references).values():
        for _ in read_pairs(text):  # training never reads them: errors would come after it
            pass
    unknown = () if generated else _UNKNOWN
    return ParallelCorpus("gigaword", "article", "title", splits, True, digest, references, unknown)


def _require(folder: Path, names: Sequence[str], obtain: str) -> None:
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        raise DataError(f"{folder} has no {', '.join(missing)}: {obtain}")


def _training(folder: Path) -> ParallelText:
    """The training files, under either of the names that they go by."""
    for name in _TRAIN_NAMES:
        text = ParallelText(*(folder / "train" / name.format(s) for s in ("article", "title")))
        if text.source.is_file():
            return text
    raise DataError(
        f"{folder / 'train'} has neither train.article.txt nor train.article.filter.txt: "
        f"{_OBTAIN_GIGAWORD}"
    )


def _as_splits(
    splits: Mapping[str, ParallelText], references: Mapping[str, tuple[Path, ...]]
) -> dict[str, ParallelText]:
    """Further references as splits of their own, for the fingerprint."""
    return {
        f"{split}/{number}": ParallelText(splits[split].source, path)
        for split, paths in references.items()
        for number, path in enumerate(paths, start=1)
    }
