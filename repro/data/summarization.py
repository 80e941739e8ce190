"""Article–title pairs of Gigaword and the summaries of DUC, in the layout ``sumdata``.

Unknown words appear as ``<unk>`` in some files and as ``UNK`` in others; both are read as the
vocabulary's symbol.
"""

from pathlib import Path

from repro.data.corpora.summarization import DUC, GIGAWORD
from repro.data.files import require_files
from repro.data.parallel import (
    ParallelCorpus,
    ParallelText,
    check_size,
    digests_of,
    read_pairs,
)
from repro.errors import DataError

_REFERENCE_NAMES = tuple(f"task1_ref{number}.txt" for number in range(4))
_UNKNOWN = ("UNK",)


def open_summaries(
    data_dir: Path, *, check_sizes: bool = True, generated: bool = False
) -> ParallelCorpus:
    """Find the corpus below ``data_dir/sumdata``, including the DUC test sets that are present.

    Args:
        data_dir: folder that contains ``sumdata``.
        check_sizes: require the numbers of training and validation pairs of Gigaword; test sets are
            always checked.
        generated: accept any sizes, for a generated corpus in the layout of Gigaword.

    Raises:
        DataError: a file is missing, a size is wrong, or a line of a reference is malformed.
    """
    folder = data_dir / GIGAWORD.folder
    if not folder.is_dir():
        raise DataError(f"{folder} is missing; {GIGAWORD.how_to_get}")
    place, giga = folder / "train", folder / "Giga"
    valid, *trains = (
        ParallelText(place / f"{split}.article{end}", place / f"{split}.title{end}")
        for split, end in (("valid", ".filter.txt"), ("train", ".txt"), ("train", ".filter.txt"))
    )
    # The training files have either of two names.
    train = next((text for text in trains if text.source.is_file()), None)
    if train is None:
        raise DataError(
            f"{place} has neither train.article.txt nor train.article.filter.txt; "
            f"{GIGAWORD.how_to_get}"
        )
    test = ParallelText(giga / "input.txt", giga / "task1_ref0.txt")
    splits = {"train": train, "dev": valid, "test": test}
    require_files(giga, ["input.txt", "task1_ref0.txt"], f"; {GIGAWORD.how_to_get}")
    sizes, references = dict(GIGAWORD.sizes), {}
    for corpus in DUC:
        (split,) = corpus.sizes
        place = folder / Path(corpus.folder).name
        if place.is_dir():
            require_files(place, ["input.txt", *_REFERENCE_NAMES], f"; {corpus.how_to_get}")
            files = tuple(place / file for file in _REFERENCE_NAMES)
            splits[split] = ParallelText(place / "input.txt", files[0])
            references[split], sizes[split] = files[1:], corpus.sizes[split]
    # For the fingerprint, each additional reference counts as a split.
    further = {
        f"{split}/{number}": ParallelText(splits[split].source, path)
        for split, paths in references.items()
        for number, path in enumerate(paths, start=1)
    }
    digest, checksums = digests_of(splits | further)
    for split, size in {}.items() if generated else sizes.items():
        reducible = split in ("train", "dev")
        if check_sizes or not reducible:
            check_size(splits[split].source, size, reducible)
    for text in further.values():
        for _ in read_pairs(text):  # training never reads them: report errors now
            pass
    unknown = () if generated else _UNKNOWN
    return ParallelCorpus(
        "gigaword", "article", "title", splits, True, digest, references, unknown, checksums
    )
