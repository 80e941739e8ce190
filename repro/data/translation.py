"""Parallel corpora of translation: where their splits lie and how many pairs each has."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from repro.data.assembly import assemble, locate
from repro.data.errors import DataError
from repro.data.parallel import ParallelCorpus, ParallelText, check_sizes, fingerprint
from repro.data.recipes import RECIPES, Recipe


@dataclass(frozen=True)
class Layout:
    """A corpus on disk: one file for each split and language, named ``<stem>.<language>``.

    Attributes:
        folder: below the data folder.
        stems: split to stem; splits are ``train``, ``dev``, ``test`` and further test sets.
        languages: those that there are.
        sizes: number of pairs of each split that has a fixed one.
        tokenised: whether words are parted from signs already.
    """

    folder: str
    stems: Mapping[str, str]
    languages: tuple[str, ...]
    sizes: Mapping[str, int] = field(default_factory=dict)
    tokenised: bool = False


_PLAIN = {"train": "train", "dev": "dev", "test": "test"}


def _of_english(name: str, other: str, *tests: str) -> Layout:
    """A corpus that a user puts together: plain text, one folder for each pair of languages."""
    stems = _PLAIN | {test: test for test in tests}
    return Layout(f"{name}_{other}_en", stems, (other, "en"))


LAYOUTS: Mapping[str, Layout] = {
    "iwslt2014": Layout("iwslt2014", _PLAIN, ("de", "en"), {"train": 153_326}),
    "iwslt2017": Layout("iwslt2017", _PLAIN, ("de", "en"), {"train": 206_112}),
    **{f"wmt16_{other}": _of_english("wmt16", other) for other in ("de", "fi", "ro")},
    **{f"wmt17_{other}": _of_english("wmt17", other) for other in ("lv", "tr")},
    **{f"benchmark_{other}": _of_english("benchmark", other) for other in ("nl", "sv")},
    "benchmark_fr": _of_english("benchmark", "fr", "test_plus"),
    "benchmark_it": _of_english("benchmark", "it", "test_plus"),
    "multi30k": Layout(
        "multi30k",
        {
            "train": "train",
            "dev": "val",
            "test": "test_2016_flickr",
            "test_2017": "test_2017_flickr",
        },
        ("de", "en", "fr"),
        {"train": 29_000, "dev": 1_014, "test": 1_000, "test_2017": 1_000},
    ),
    "tatoeba": Layout("tatoeba", {"train": "train", "dev": "val", "test": "test"}, ("de", "en")),
    "small_parallel_enja": Layout(
        "small_parallel_enja",
        {"train": "train", "dev": "dev", "test": "test"},
        ("ja", "en"),
        {"train": 50_000, "dev": 500, "test": 500},
        tokenised=True,
    ),
    "kftt": Layout(
        "kftt-data-1.0/data/tok",
        {"train": "kyoto-train.cln", "dev": "kyoto-dev", "test": "kyoto-test"},
        ("ja", "en"),
        {"train": 329_882, "dev": 1_166, "test": 1_160},
        tokenised=True,
    ),
    "demo_translation": Layout(
        "", {"train": "train", "dev": "val", "test": "test"}, ("orun", "vesti"), tokenised=True
    ),
}
"""Corpora that can be read, by name."""


SHORT_PAIRS: Mapping[str, int] = {"iwslt2014": 150_801, "wmt16_ro": 560_767}
"""Training pairs with at most 50 subwords a side after 32,000 joint merges, by corpus.

The released logs of Malaviya et al. (2018) print both numbers, and their §5 the second.
"""

_OBTAIN: Mapping[str, str] = {
    "multi30k": "task 1, raw, of https://github.com/multi30k/dataset",
    "tatoeba": "sentence pairs of https://tatoeba.org, split by yourself",
    "small_parallel_enja": "https://github.com/odashi/small_parallel_enja",
    "kftt": "repro data fetch kftt",
    "iwslt2014": "repro data fetch iwslt2014",
    "iwslt2017": "repro data fetch iwslt2017, or iwslt2017@hub",
    **{
        name: f"repro data fetch {name}, or {name}@hub"
        for name in LAYOUTS
        if name.startswith("wmt")
    },
    **{
        name: "the NMT-Benchmark project, http://scorer.nmt-benchmark.net, published the texts; "
        "ask it for them, no copy is known; the news tests are those of https://www.statmt.org"
        for name in LAYOUTS
        if name.startswith("benchmark")
    },
}
"""Where each corpus comes from, or the command that fetches it."""


def open_corpus(
    data_dir: Path,
    name: str,
    source: str,
    target: str,
    *,
    subset: bool = False,
    cache: Path | None = None,
) -> ParallelCorpus:
    """Find a corpus and check its sizes.

    Plain files are taken as they are. Without them, a corpus in :data:`RECIPES` is put together
    from the files of its archives, once.

    Args:
        data_dir: folder that holds the corpus's folder.
        name: key in :data:`LAYOUTS`.
        source: language to translate from.
        target: language to translate into.
        subset: accept another number of pairs than the corpus has.
        cache: where a corpus that was put together is kept; ``data_dir/assembled`` by default.

    Raises:
        DataError: no such corpus or language, a file is missing or malformed, or a size is wrong.
    """
    if name not in LAYOUTS:
        known = ", ".join(sorted(LAYOUTS))
        raise DataError(f"data.corpus={name}: no such translation corpus; choose from: {known}")
    layout, folder = LAYOUTS[name], Path(data_dir)
    _check_languages(name, layout, source, target)
    splits = _plain(layout, folder, source, target)
    sizes: Mapping[str, int | range] = layout.sizes
    absent = [path for text in splits.values() for path in text if not path.is_file()]
    if absent:
        recipe = _published(name, absent[0], folder)
        splits = _assembled(name, recipe, source, folder, cache or folder / "assembled")
        sizes = recipe.sizes
    digest = fingerprint(splits)
    if not subset:
        check_sizes(splits, sizes, reducible=splits)
    return ParallelCorpus(name, source, target, splits, layout.tokenised, digest)


def _assembled(
    name: str, recipe: Recipe, source: str, data_dir: Path, cache: Path
) -> dict[str, ParallelText]:
    splits = assemble(name, recipe, data_dir, cache)
    turn = -1 if source == "en" else 1
    return {split: ParallelText(*text[::turn]) for split, text in splits.items()}


def _plain(layout: Layout, data_dir: Path, source: str, target: str) -> dict[str, ParallelText]:
    folder = data_dir / layout.folder
    return {
        split: ParallelText(folder / f"{stem}.{source}", folder / f"{stem}.{target}")
        for split, stem in layout.stems.items()
    }


def _published(name: str, absent: Path, data_dir: Path) -> Recipe:
    """The recipe of a corpus whose plain files are not there, and whose published files are."""
    obtain = f"; to obtain it: {_OBTAIN[name]}" if name in _OBTAIN else ""
    if name not in RECIPES:
        raise DataError(f"{absent} is missing{obtain}")
    try:
        locate(RECIPES[name], data_dir)
    except DataError as error:
        raise DataError(f"{absent} is missing, and {error}{obtain}") from None
    return RECIPES[name]


def _check_languages(name: str, layout: Layout, source: str, target: str) -> None:
    known = ", ".join(layout.languages)
    for key, language in (("data.source", source), ("data.target", target)):
        if language not in layout.languages:
            raise DataError(f"{key}={language}: {name} has no such language; choose from: {known}")
    if source == target:
        raise DataError(f"data.source and data.target are both {source}; choose two of: {known}")
