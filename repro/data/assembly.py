"""Corpora put together from the files of their archives, once, as plain text in a cached stage."""

from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path

from repro.checksums import sha256_of_file
from repro.data.errors import DataError
from repro.data.parallel import ParallelText, in_step, read_pairs, write_lines
from repro.data.recipes import Part, Recipe, Selection
from repro.data.segmentation import moses_tokeniser
from repro.data.stages import cached_stage

_VERSION = 1
"""Raised when a recipe, or what is made of it, changes."""

Files = Mapping[str, Path]


def assemble(name: str, recipe: Recipe, data_dir: Path, cache: Path) -> dict[str, ParallelText]:
    """The splits of a corpus as plain text, other language first.

    Args:
        name: of the recipe.
        recipe: what to make of which files.
        data_dir: folder that holds the recipe's folder.
        cache: where stages are kept.

    Raises:
        DataError: a file is missing, stands twice, or is malformed.
    """
    files = locate(recipe, data_dir)
    checksums = {file: sha256_of_file(path) for file, path in sorted(files.items())}
    identity = {"recipe": name, "version": _VERSION, "files": checksums}
    folder = cached_stage(cache, "assembled", identity, partial(_write, recipe, files))
    splits = [*recipe.parts, *(["dev"] if recipe.selection else [])]
    return {split: _text(folder, split, recipe.other) for split in splits}


def locate(recipe: Recipe, data_dir: Path) -> dict[str, Path]:
    """Where each file of a recipe lies.

    Raises:
        DataError: a file is missing, or two have its name; names all that are missing.
    """
    folder = Path(data_dir) / recipe.folder
    there = sorted(path for path in folder.rglob("*") if path.is_file())
    found = {name: [p for p in there if fnmatchcase(p.name, name)] for name in recipe.names}
    missing = [name for name, paths in found.items() if not paths]
    if missing:
        raise DataError(f"below {folder} there is no {', '.join(missing)}")
    for name, paths in found.items():
        if len(paths) > 1 and len(set(map(sha256_of_file, paths))) > 1:
            raise DataError(f"{paths[0]} and {paths[1]} differ, and both could be {name}")
    return {name: paths[0] for name, paths in found.items()}


def _text(folder: Path, split: str, other: str) -> ParallelText:
    return ParallelText(folder / f"{split}.{other}", folder / f"{split}.en")


def _write(recipe: Recipe, files: Files, folder: Path) -> None:
    for split, parts in recipe.parts.items():
        pairs, text = _pairs(parts, files), _text(folder, split, recipe.other)
        if split == "train" and recipe.selection:
            _write_selected(pairs, recipe.selection, recipe.other, folder)
        else:
            write_lines(pairs, text)


def _pairs(parts: tuple[Part, ...], files: Files) -> Iterator[tuple[str, str]]:
    """Pairs of all parts, one after the other, without those that lack a side."""
    for part in parts:
        text = ParallelText(*(files[name] for name in part.names))
        lines = [read(path) for read, path in zip(part.reads, text, strict=True)]
        for first, second in in_step(lines[0], lines[1], text):
            pair = first.strip(), second.strip()
            if all(pair):
                yield pair


def _write_selected(
    pairs: Iterator[tuple[str, str]], selection: Selection, other: str, folder: Path
) -> None:
    """Write the pairs that fit, then part them into training and validation data."""
    fitting = ParallelText(folder / "fitting.source", folder / "fitting.target")
    fits = _length_filter(selection, other)
    write_lines((pair for pair in pairs if fits(pair)), fitting)
    for split, held_out in (("train", False), ("dev", True)):
        numbered = enumerate(read_pairs(fitting), start=1)
        chosen = (pair for n, pair in numbered if (n % selection.every == 0) == held_out)
        write_lines(chosen, _text(folder, split, other))
    for path in fitting:
        path.unlink()


def _length_filter(selection: Selection, other: str) -> Callable[[tuple[str, str]], bool]:
    tokenisers = moses_tokeniser(other), moses_tokeniser("en")

    def fits(pair: tuple[str, str]) -> bool:
        lengths = [len(t(side).split()) for t, side in zip(tokenisers, pair, strict=True)]
        short, long = sorted(lengths)
        return long <= selection.longest and long <= selection.ratio * short

    return fits
