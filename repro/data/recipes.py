"""Corpora as campaigns publish them: which files make which split, and which pairs are taken.

Files are found by name anywhere below the corpus's folder, so that an archive may be unpacked as
it is.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from repro.data.markup import (
    first_column,
    second_column,
    segments,
    transcript_lines,
    transcript_lines_with_headings,
)
from repro.data.parallel import about, stream_lines

Read = Callable[[Path], Iterator[str]]


@dataclass(frozen=True)
class Part:
    """Two aligned files.

    Attributes:
        names: of the file of the other language and of the English one; ``*`` stands for anything.
        reads: how the lines of each are read.
    """

    names: tuple[str, str]
    reads: tuple[Read, Read] = (stream_lines, stream_lines)


@dataclass(frozen=True)
class Selection:
    """Training pairs that are kept, by their Moses tokens, and validation pairs among them.

    Attributes:
        longest: most tokens of a side.
        ratio: the longer side has at most this many times the tokens of the shorter one.
        every: each pair with a number that this divides is validation data, not training data.
    """

    longest: int
    ratio: float
    every: int


@dataclass(frozen=True)
class Recipe:
    """How the original files of a corpus become splits.

    Attributes:
        folder: below the data folder; the files lie anywhere below it.
        other: the language that is not English.
        parts: of each split.
        sizes: numbers of pairs that are checked.
        selection: of training pairs; ``None`` keeps all that have words on both sides.
    """

    folder: str
    other: str
    parts: Mapping[str, tuple[Part, ...]]
    sizes: Mapping[str, int | range] = field(default_factory=dict)
    selection: Selection | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all files, each once."""
        parts = (part for split in self.parts.values() for part in split)
        return tuple(dict.fromkeys(name for part in parts for name in part.names))


def _part(pattern: str, other: str, read: Read = stream_lines) -> Part:
    return Part((pattern.format(other), pattern.format("en")), (read, read))


def _news(name: str, other: str) -> Part:
    """A test set of WMT since 2014, in the direction to English."""
    stem = f"{name}-{other}en"
    return Part((f"{stem}-src.{other}.sgm", f"{stem}-ref.en.sgm"), (segments, segments))


def _old_news(year: int, other: str) -> Part:
    """A test set of WMT up to 2013, which has one file for each language."""
    return _part(f"newstest{year}-src.{{}}.sgm", other, segments)


def _talks(year: int, *sets: str) -> tuple[Part, ...]:
    return tuple(_part(f"IWSLT{year}.{one}.de-en.{{}}.xml", "de", segments) for one in sets)


def _wmt(
    year: int, other: str, train: tuple[str | Part, ...], news: tuple[str, str], *sizes: int
) -> Recipe:
    """A corpus of WMT.

    Args:
        year: its last two digits.
        other: the language that is not English.
        train: patterns of files, or parts.
        news: names of the validation and of the test set.
        sizes: of training, which may differ by a hundredth, of validation and of test data.
    """
    parts = tuple(_part(one, other) if isinstance(one, str) else one for one in train)
    splits = {"train": parts, "dev": (_news(news[0], other),), "test": (_news(news[1], other),)}
    counts: dict[str, int | range] = {"train": about(sizes[0]), "dev": sizes[1], "test": sizes[2]}
    return Recipe(f"wmt{year}", other, splits, counts)


def _benchmark(other: str, *further: Part) -> Recipe:
    """Plain files of the NMT-Benchmark project with test sets of WMT beside them."""
    plain = {split: (_part(f"{split}.{{}}", other),) for split in ("train", "dev", "test")}
    return Recipe(f"benchmark_{other}_en", other, plain | {"test_plus": further})


_TITLES = Part(("titles.fi-en", "titles.fi-en"), (first_column, second_column))
_LATVIAN = (
    *("europarl-v8.lv-en.{}", "rapid2016.en-lv.{}", "leta.{}", "dcep.{}"),
    "farewell.{}",
)
_GERMAN = ("europarl-v7.de-en.{}", "commoncrawl.de-en.{}", "news-commentary-v11.de-en.{}")

RECIPES: Mapping[str, Recipe] = {
    "iwslt2014": Recipe(
        "iwslt2014",
        "de",
        {
            "train": (_part("train.tags.de-en.{}", "de", transcript_lines_with_headings),),
            "test": (
                *_talks(14, "TED.dev2010", "TEDX.dev2012"),
                *_talks(14, "TED.tst2010", "TED.tst2011", "TED.tst2012"),
            ),
        },
        {"train": about(153_326), "dev": about(6_969), "test": 6_750},
        Selection(longest=50, ratio=1.5, every=23),
    ),
    "iwslt2017": Recipe(
        "iwslt2017",
        "de",
        {
            "train": (_part("train.tags.de-en.{}", "de", transcript_lines),),
            "dev": _talks(17, "TED.dev2010"),
            "test": _talks(17, *(f"TED.tst{year}" for year in range(2010, 2016))),
        },
        {"train": 206_112, "dev": 888, "test": 8_079},
    ),
    "wmt16_ro": _wmt(
        16, "ro", ("europarl-v8.ro-en.{}", "SETIMES*.en-ro.{}"), ("newsdev2016", "newstest2016"),
        612_422, 1_999, 1_999,
    ),
    "wmt16_de": _wmt(
        16, "de", _GERMAN, ("newstest2015", "newstest2016"), 4_548_885, 2_169, 2_999
    ),
    "wmt16_fi": _wmt(
        16, "fi", ("europarl-v8.fi-en.{}", _TITLES), ("newstest2015", "newstest2016"),
        2_073_394, 1_370, 3_000,
    ),
    "wmt17_lv": _wmt(
        17, "lv", _LATVIAN, ("newsdev2017", "newstest2017"), 4_511_715, 2_003, 2_001
    ),
    "wmt17_tr": _wmt(
        17, "tr", ("SETIMES*.en-tr.{}",), ("newsdev2016", "newstest2017"), 205_756, 1_001, 3_007
    ),
    "benchmark_fr": _benchmark(
        "fr", *(_old_news(year, "fr") for year in range(2009, 2014)), _news("newstest2014", "fr")
    ),
    "benchmark_it": _benchmark("it", _old_news(2009, "it")),
}  # fmt: skip
"""Corpora that are put together from the files that were published, by name.

Sources: IWSLT 2014 as Ranzato et al. (2016), *Sequence level training with recurrent neural
networks*, prepared it, whose 153,326 training pairs Malaviya et al. (2018), §5, have; IWSLT 2017
as Peters et al. (2019), §4.2; WMT as Niculae & Blondel (2017), C.3, name it.
"""
