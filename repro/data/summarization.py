"""Article–title pairs of Gigaword and the summaries of DUC, in the layout ``sumdata``.

Both are made from text that the Linguistic Data Consortium and NIST license; a user brings them:

- Gigaword pairs: https://github.com/harvardnlp/sent-summary (derived from LDC2012T21);
- DUC 2003 and 2004: agreements of https://duc.nist.gov/data.html, then the cleaning of
  Rush et al. (2015) to one input and four references on a line each.
"""

from collections.abc import Mapping
from pathlib import Path

from repro.data.errors import DataError
from repro.data.parallel import ParallelCorpus, ParallelText, check_sizes, fingerprint

SIZES: Mapping[str, int] = {"train": 3_803_957, "dev": 189_651, "test": 1_951}
"""Pairs of Gigaword: training, validation, and the test set of Rush et al. (2015)."""
_DUC = {"test_duc2003": ("DUC2003", 624), "test_duc2004": ("DUC2004", 500)}
_REFERENCES = 4
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
        DataError: a file is missing, or a size is wrong.
    """
    folder = Path(data_dir) / "sumdata"
    if not folder.is_dir():
        raise DataError(
            f"{folder} is missing: expected the Gigaword article–title pairs there, as made by "
            "https://github.com/harvardnlp/sent-summary; they need a licence of the LDC"
        )
    splits = {
        "train": _training(folder),
        "dev": ParallelText(
            folder / "train" / "valid.article.filter.txt",
            folder / "train" / "valid.title.filter.txt",
        ),
        "test": ParallelText(folder / "Giga" / "input.txt", folder / "Giga" / "task1_ref0.txt"),
    }
    references, sizes = {}, {"test": SIZES["test"]} if subset else dict(SIZES)
    for split, (name, size) in _DUC.items():
        if (folder / name).is_dir():
            files = tuple(folder / name / f"task1_ref{k}.txt" for k in range(_REFERENCES))
            splits[split] = ParallelText(folder / name / "input.txt", files[0])
            references[split], sizes[split] = files[1:], size
    digest = fingerprint(splits | _as_splits(splits, references))
    check_sizes(splits, {} if generated else sizes)
    return ParallelCorpus("gigaword", "article", "title", splits, True, digest, references)


def _training(folder: Path) -> ParallelText:
    """The training files, under either of the names that they go by."""
    for name in _TRAIN_NAMES:
        text = ParallelText(*(folder / "train" / name.format(s) for s in ("article", "title")))
        if text.source.is_file():
            return text
    raise DataError(
        f"{folder / 'train'} has neither train.article.txt nor train.article.filter.txt"
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
