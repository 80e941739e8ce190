"""Parallel corpora of translation: plain files, or files of a campaign, assembled once."""

from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path

from repro.checksums import sha256_of_file
from repro.data.corpora.translation import ParallelTexts, Part, Recipe, Selection
from repro.data.parallel import (
    ParallelCorpus,
    ParallelText,
    check_size,
    digests_of,
    in_step,
    read_pairs,
    write_lines,
)
from repro.data.segmentation import moses_tokenizer
from repro.data.stages import cached_stage
from repro.errors import DataError

_VERSION = 1
"""Version of assembled corpora, incremented when a recipe or its output changes."""


def open_corpus(
    corpus: ParallelTexts,
    data_dir: Path,
    source: str,
    target: str,
    *,
    check_sizes: bool = True,
    cache: Path | None = None,
) -> ParallelCorpus:
    """Find a corpus and check its sizes.

    Plain files are used as they are. Without them, a corpus with a recipe is assembled once from
    the files of its archives, into ``cache``, by default ``data_dir/assembled``. ``check_sizes``
    requires the published numbers of pairs.

    Raises:
        DataError: no such language, a file is missing or malformed, or a size is wrong.
    """
    known = ", ".join(corpus.languages)
    for key, language in (("data.source", source), ("data.target", target)):
        if language not in corpus.languages:
            raise DataError(
                f"{key}={language}: {corpus.name} has no such language; choose from: {known}"
            )
    if source == target:
        raise DataError(f"data.source and data.target are both {source}; choose two of: {known}")
    folder, stems, sizes = data_dir / corpus.folder, corpus.stems, corpus.sizes
    plain = (folder / f"{s}.{one}" for s in stems.values() for one in (source, target))
    absent = [path for path in plain if not path.is_file()]
    if absent:
        recipe = corpus.recipe
        if recipe is None:
            raise DataError(f"{absent[0]} is missing; to get {corpus.name}: {corpus.how_to_get}")
        cache = cache or data_dir / "assembled"
        folder, sizes = _assembled(corpus, recipe, data_dir, cache, absent[0]), recipe.sizes
        stems = {split: split for split in (*recipe.parts, *(["dev"] if recipe.selection else []))}
    splits = {
        split: ParallelText(folder / f"{stem}.{source}", folder / f"{stem}.{target}")
        for split, stem in stems.items()
    }
    digest, checksums = digests_of(splits)
    for split, size in sizes.items() if check_sizes else ():
        check_size(splits[split].source, size)
    return ParallelCorpus(
        corpus.name, source, target, splits, corpus.tokenised, digest, checksums=checksums
    )


def _assembled(
    corpus: ParallelTexts, recipe: Recipe, data_dir: Path, cache: Path, absent: Path
) -> Path:
    """Assemble the splits from files below the folder of the recipe; return their folder."""
    folder = data_dir / recipe.folder
    there = sorted(path for path in folder.rglob("*") if path.is_file())
    found = {name: [p for p in there if fnmatchcase(p.name, name)] for name in recipe.names}
    missing = ", ".join(name for name, paths in found.items() if not paths)
    if missing:
        raise DataError(
            f"{absent} is missing, and below {folder} there is no {missing}; "
            f"to get {corpus.name}: {corpus.how_to_get}"
        )
    checksums = {}
    for name, paths in sorted(found.items()):
        checksums[name], *others = {sha256_of_file(path) for path in paths}
        if others:
            raise DataError(f"{paths[0]} and {paths[1]} differ, and both could be {name}")
    identity = {"recipe": corpus.name, "version": _VERSION, "files": checksums}
    files = {name: paths[0] for name, paths in found.items()}
    write = partial(_write, recipe, corpus.languages[0], files)
    sources = {path: checksums[name] for name, path in files.items()}
    return cached_stage(cache, "assembled", identity, write, sources)


def _write(recipe: Recipe, other: str, files: Mapping[str, Path], folder: Path) -> None:
    """Write all splits, the pairs of their parts in order, without pairs that lack a side.

    A selection filters the training pairs and splits them into training and validation data.
    """

    def pairs(parts: tuple[Part, ...]) -> Iterator[tuple[str, str]]:
        for part in parts:
            text = ParallelText(*(files[name] for name in part.names))
            lines = [read(path) for read, path in zip(part.reads, text, strict=True)]
            for first, second in in_step(lines[0], lines[1], text):
                pair = first.strip(), second.strip()
                if all(pair):
                    yield pair

    def plain(split: str) -> ParallelText:
        return ParallelText(folder / f"{split}.{other}", folder / f"{split}.en")

    selection = recipe.selection
    for split, parts in recipe.parts.items():
        if split != "train" or selection is None:
            write_lines(pairs(parts), plain(split))
            continue
        fitting = plain("fitting")
        write_lines(filter(length_filter(selection, other), pairs(parts)), fitting)
        for part, held_out in (("train", False), ("dev", True)):
            numbered = enumerate(read_pairs(fitting), start=1)
            chosen = (pair for n, pair in numbered if (n % selection.every == 0) == held_out)
            write_lines(chosen, plain(part))
        for path in fitting:
            path.unlink()


def length_filter(selection: Selection, other: str) -> Callable[[tuple[str, str]], bool]:
    """Return a predicate that checks the numbers of tokens of a pair."""
    tokenizers = moses_tokenizer(other), moses_tokenizer("en")

    def fits(pair: tuple[str, str]) -> bool:
        lengths = [len(t(side).split()) for t, side in zip(tokenizers, pair, strict=True)]
        short, long = sorted(lengths)
        return long <= selection.longest and long <= selection.ratio * short

    return fits
