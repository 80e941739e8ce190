"""Parallel corpora of translation.

Addresses at wit3.fbk.eu and opus.nlpl.eu/download.php are avoided: they no longer work. Sources:
IWSLT 2014 as prepared by Ranzato et al. (2016), *Sequence level training with recurrent neural
networks*, with the 153,326 training pairs of Malaviya et al. (2018), §5; IWSLT 2017 as in Peters
et al. (2019), §4.2; WMT as in Niculae & Blondel (2017), C.3.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path

from repro.data.corpora.corpus import HUB_STEMS, Download, HubCorpus, HubFiles, Sizes
from repro.data.markup import column, segments, transcript_lines
from repro.data.parallel import ParallelText, about, stream_lines, write_lines
from repro.errors import DataError

Read = Callable[[Path], Iterator[str]]


@dataclass(frozen=True)
class Part:
    """Pair of aligned files.

    Attributes:
        names: patterns of the names of the file in the other language and of the English file.
        reads: readers of the lines of both files.
    """

    names: tuple[str, str]
    reads: tuple[Read, Read] = (stream_lines, stream_lines)


@dataclass(frozen=True)
class Selection:
    """Filter of training pairs by numbers of Moses tokens, and choice of validation pairs.

    Attributes:
        longest: maximum number of tokens per side.
        ratio: maximum ratio of the tokens of the longer side to those of the shorter one.
        every: every ``every``-th remaining pair is held out as validation data.
    """

    longest: int
    ratio: float
    every: int


@dataclass(frozen=True)
class Recipe:
    """Rules by which the files of a campaign become splits.

    Files are found by name anywhere below the folder, so that archives may be unpacked as they are.

    Attributes:
        folder: folder of the files, relative to the data folder.
        parts: parts of each split.
        sizes: expected number of pairs of each split that is checked.
        selection: filter of training pairs; ``None`` keeps all pairs with words on both sides.
    """

    folder: str
    parts: Mapping[str, tuple[Part, ...]]
    sizes: Sizes = field(default_factory=dict)
    selection: Selection | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Distinct file name patterns of all parts."""
        parts = (part for split in self.parts.values() for part in split)
        return tuple(dict.fromkeys(name for part in parts for name in part.names))


@dataclass(frozen=True, kw_only=True)
class ParallelTexts(HubCorpus):
    """Parallel corpus with a file ``<stem>.<language>`` for each split and language.

    Attributes:
        languages: available languages; with a recipe, English comes second.
        stems: stem of each split: ``train``, ``dev``, ``test`` and further test sets.
        tokenised: whether the files are tokenized.
        recipe: how to assemble the corpus from the files of a campaign if plain files are missing.
        unpack_into: folder of archives, if it is not that of the recipe or the corpus.
        short_pairs: number of training pairs with at most 50 subwords per side after 32,000 joint
            merges, according to the released logs of Malaviya et al. (2018).
    """

    tasks: tuple[str, ...] = ("nmt",)
    languages: tuple[str, ...]
    stems: Mapping[str, str] = field(
        default_factory=lambda: {split: split for split in ("train", "dev", "test")}
    )
    tokenised: bool = False
    recipe: Recipe | None = None
    unpack_into: str | None = None
    short_pairs: int | None = None

    @property
    def expected(self) -> list[str]:
        """Plain files of all splits and languages."""
        stems, languages = self.stems.values(), self.languages
        return [f"{self.folder}/{stem}.{one}" for stem in stems for one in languages]

    @property
    def archive_folder(self) -> str:
        """Folder below the data folder into which archives are unpacked."""
        return self.unpack_into or (self.recipe.folder if self.recipe else self.folder)

    def write_hub_split(
        self, split: str, rows: Iterable[Mapping[str, object]], data_dir: Path
    ) -> list[Path]:
        """Write rows ``{"translation": {language: text}}``; line breaks become spaces."""
        assert self.hub is not None
        languages, origin = self.languages[:2], f"{self.hub.repository} {split}"
        stem = data_dir / self.folder / self.stems[split]
        text = ParallelText(*(Path(f"{stem}.{one}") for one in languages))

        def pairs() -> Iterator[tuple[str, str]]:
            for number, row in enumerate(rows):
                texts = row.get("translation")
                sides = [texts.get(one) for one in languages] if isinstance(texts, dict) else [None]
                if not all(isinstance(side, str) for side in sides):
                    raise DataError(
                        f"{origin}, row {number}: expected texts in {' and '.join(languages)} "
                        "under 'translation'"
                    )
                first, second = (" ".join(str(side).splitlines()).strip() for side in sides)
                if first and second:
                    yield first, second

        write_lines(islice(pairs(), self.hub.first.get(split)), text)
        return list(text)


def _part(pattern: str, other: str, read: Read = stream_lines) -> Part:
    return Part((pattern.format(other), pattern.format("en")), (read, read))


def _news(name: str, other: str) -> Part:
    """Return a test set of WMT since 2014, for translation into English."""
    stem = f"{name}-{other}en"
    return Part((f"{stem}-src.{other}.sgm", f"{stem}-ref.en.sgm"), (segments, segments))


def _talks(year: int, *sets: str) -> tuple[Part, ...]:
    return tuple(_part(f"IWSLT{year}.{one}.de-en.{{}}.xml", "de", segments) for one in sets)


_TED = "CC BY-NC-ND 4.0"
_STATMT = "https://data.statmt.org"
_WMT16 = f"{_STATMT}/wmt16/translation-task"
_WMT17 = f"{_STATMT}/wmt17/translation-task"
_SETIMES = "https://object.pouta.csc.fi/OPUS-SETIMES/v2/moses"
_EUROPARL8 = Download(f"{_WMT16}/training-parallel-ep-v8.tgz")
_TITLES15 = Download("https://www.statmt.org/wmt15/wiki-titles.tgz")
_DEV16 = Download(f"{_WMT16}/dev.tgz", "md5:4a3dc2760bb077f4308cce96b06e6af6")
_TEST16 = Download(f"{_WMT16}/test.tgz", "md5:3d809cd0c2c86adb2c67034d15c4e446")
_DEV17 = Download(f"{_WMT17}/dev.tgz", "md5:9b1aa63c1cf49dccdd20b962fe313989")
_TEST17 = Download(f"{_WMT17}/test.tgz", "md5:86a1724c276004aa25455ae2a04cef26")
_TEST15 = Download("https://statmt.org/wmt15/test.tgz", "md5:67e3beca15e69fe3d36de149da0a96df")


def _sizes(train: int, dev: int, test: int) -> Sizes:
    """Return sizes of the splits; the number of training pairs may differ by 1 %."""
    return {"train": about(train), "dev": dev, "test": test}


def _wmt(
    year: int,
    other: str,
    *,
    train: tuple[str | Part, ...],
    news: tuple[str, str],
    sizes: Sizes,
    downloads: tuple[Download, ...],
    hub_sizes: Sizes | None = None,
    short_pairs: int | None = None,
) -> ParallelTexts:
    """Declare a corpus of English and another language of WMT 20``year``.

    Training data are parts or file name patterns; ``news`` names the validation and the test set.
    If the sizes of the copy on the Hub differ, they are those of its data cards of 2022.
    """
    parts = tuple(_part(one, other) if isinstance(one, str) else one for one in train)
    dev, test = ((_news(name, other),) for name in news)
    recipe = Recipe(f"wmt{year}", {"train": parts, "dev": dev, "test": test}, sizes)
    return ParallelTexts(
        name=f"wmt{year}_{other}",
        title=f"WMT 20{year}, {other} and English",
        licence="none stated for the whole; for research",
        citation=f"Bojar et al. (20{year}), Findings of the conference on machine translation",
        folder=f"wmt{year}_{other}_en",
        languages=(other, "en"),
        recipe=recipe,
        downloads=downloads,
        members=recipe.names,
        hub=HubFiles(
            f"wmt/wmt{year}",
            {split: f"{other}-en/{stem}-*.parquet" for split, stem in HUB_STEMS.items()},
            sizes=hub_sizes or sizes,
            first={"test": 3_000} if other == "fi" else {},
        ),
        short_pairs=short_pairs,
    )


def _benchmark(other: str, years: Iterable[int] = (), *further: Part) -> ParallelTexts:
    """Declare plain files of the NMT-Benchmark project and further test sets of WMT.

    Test sets of ``years``, up to 2013, have one file per language.
    """
    news = *(_part(f"newstest{year}-src.{{}}.sgm", other, segments) for year in years), *further
    splits = ("train", "dev", "test", *(["test_plus"] if news else []))
    plain = {split: (_part(f"{split}.{{}}", other),) for split in splits[:3]}
    return ParallelTexts(
        name=f"benchmark_{other}",
        title=f"NMT-Benchmark, {other} and English",
        licence="none stated",
        citation="http://scorer.nmt-benchmark.net",
        folder=f"benchmark_{other}_en",
        languages=(other, "en"),
        stems={split: split for split in splits},
        recipe=Recipe(f"benchmark_{other}_en", plain | {"test_plus": news}) if news else None,
        obtain="ask the NMT-Benchmark project, http://scorer.nmt-benchmark.net, for the texts: no "
        "copy is known; the news tests are those of https://www.statmt.org",
    )


_IWSLT14 = Recipe(
    "iwslt2014",
    {
        "train": (_part("train.tags.de-en.{}", "de", partial(transcript_lines, headings=True)),),
        "test": _talks(
            14, "TED.dev2010", "TEDX.dev2012", *(f"TED.tst{n}" for n in range(2010, 2013))
        ),
    },
    {"train": about(153_326), "dev": about(6_969), "test": 6_750},
    Selection(longest=50, ratio=1.5, every=23),
)
_IWSLT17 = Recipe(
    "iwslt2017",
    {
        "train": (_part("train.tags.de-en.{}", "de", transcript_lines),),
        "dev": _talks(17, "TED.dev2010"),
        "test": _talks(17, *(f"TED.tst{year}" for year in range(2010, 2016))),
    },
    {"train": 206_112, "dev": 888, "test": 8_079},
)
_TITLES = Part(
    ("titles.fi-en", "titles.fi-en"), (partial(column, index=0), partial(column, index=1))
)
_LATVIAN = ("europarl-v8.lv-en.{}", "rapid2016.en-lv.{}", "leta.{}", "dcep.{}", "farewell.{}")
_LATVIAN17 = ("training-parallel-ep-v8", "rapid2016", "leta.v1", "dcep.lv-en.v1", "books.lv-en.v1")

CORPORA = (
    ParallelTexts(
        name="iwslt2014",
        title="IWSLT 2014, transcripts of TED talks, German and English",
        licence=_TED,
        citation="Cettolo et al. (2014), Report on the 11th IWSLT evaluation campaign",
        folder="iwslt2014",
        languages=("de", "en"),
        sizes={"train": 153_326},
        recipe=_IWSLT14,
        downloads=(Download("https://dl.fbaipublicfiles.com/fairseq/data/iwslt14/de-en.tgz"),),
        members=_IWSLT14.names,
        short_pairs=150_801,
    ),
    ParallelTexts(
        name="iwslt2017",
        title="IWSLT 2017, transcripts of TED talks, German and English",
        licence=_TED,
        citation="Cettolo et al. (2017), Overview of the IWSLT 2017 evaluation campaign",
        folder="iwslt2017",
        languages=("de", "en"),
        sizes={"train": 206_112},
        recipe=_IWSLT17,
        downloads=(
            Download(
                "https://raw.githubusercontent.com/hlt-mt/WIT3/master/archive/2017-01-trnted/texts/"
                "de/en/de-en.tgz",
                "sha256:ebcd53c53c8df742437e3a0fb964772e78764c3f6d4e38df0b6a2f71abc3a8b4",
            ),
        ),
        members=_IWSLT17.names,
        hub=HubFiles(
            "IWSLT/iwslt2017",
            {split: f"iwslt2017-de-en/{stem}/*.parquet" for split, stem in HUB_STEMS.items()},
            "refs/convert/parquet",
            _IWSLT17.sizes,
        ),
    ),
    ParallelTexts(
        name="kftt",
        title="Kyoto Free Translation Task, Japanese and English",
        licence="CC BY-SA 3.0",
        citation="Neubig (2011), The Kyoto Free Translation Task",
        folder="kftt-data-1.0/data/tok",
        languages=("ja", "en"),
        stems={"train": "kyoto-train.cln", "dev": "kyoto-dev", "test": "kyoto-test"},
        sizes={"train": 329_882, "dev": 1_166, "test": 1_160},
        tokenised=True,
        downloads=(Download("http://www.phontron.com/kftt/download/kftt-data-1.0.tar.gz"),),
        members=("kyoto-*.ja", "kyoto-*.en"),
        unpack_into=".",
    ),
    _wmt(
        16,
        "ro",
        train=("europarl-v8.ro-en.{}", "SETIMES*.en-ro.{}"),
        news=("newsdev2016", "newstest2016"),
        sizes=_sizes(612_422, 1_999, 1_999),
        hub_sizes=_sizes(610_320, 1_999, 1_999),
        downloads=(_EUROPARL8, Download(f"{_SETIMES}/en-ro.txt.zip"), _DEV16, _TEST16),
        short_pairs=560_767,
    ),
    _wmt(
        16,
        "de",
        train=("europarl-v7.de-en.{}", "commoncrawl.de-en.{}", "news-commentary-v11.de-en.{}"),
        news=("newstest2015", "newstest2016"),
        sizes=_sizes(4_548_885, 2_169, 2_999),
        downloads=(
            Download("https://www.statmt.org/wmt13/training-parallel-europarl-v7.tgz"),
            Download("https://www.statmt.org/wmt13/training-parallel-commoncrawl.tgz"),
            Download(f"{_WMT16}/training-parallel-nc-v11.tgz"),
            _TEST15,
            _TEST16,
        ),
    ),
    _wmt(
        16,
        "fi",
        train=("europarl-v8.fi-en.{}", _TITLES),
        news=("newstest2015", "newstest2016"),
        sizes=_sizes(2_073_394, 1_370, 3_000),
        downloads=(_EUROPARL8, _TITLES15, _TEST15, _TEST16),
    ),
    _wmt(
        17,
        "lv",
        train=_LATVIAN,
        news=("newsdev2017", "newstest2017"),
        sizes=_sizes(4_511_715, 2_003, 2_001),
        hub_sizes=_sizes(3_567_528, 2_003, 2_001),
        downloads=(*(Download(f"{_WMT17}/{name}.tgz") for name in _LATVIAN17), _DEV17, _TEST17),
    ),
    _wmt(
        17,
        "tr",
        train=("SETIMES*.en-tr.{}",),
        news=("newsdev2016", "newstest2017"),
        sizes=_sizes(205_756, 1_001, 3_007),
        hub_sizes=_sizes(205_756, 3_000, 3_007),
        downloads=(Download(f"{_SETIMES}/en-tr.txt.zip"), _DEV16, _TEST17),
    ),
    _benchmark("fr", range(2009, 2014), _news("newstest2014", "fr")),
    _benchmark("it", (2009,)),
    _benchmark("nl"),
    _benchmark("sv"),
    ParallelTexts(
        name="multi30k",
        title="Multi30k, descriptions of photographs, German, English and French",
        licence="non-commercial research, as of Flickr30k",
        citation="Elliott et al. (2016), Multi30K: multilingual English–German image descriptions",
        folder="multi30k",
        languages=("de", "en", "fr"),
        stems={
            "train": "train",
            "dev": "val",
            "test": "test_2016_flickr",
            "test_2017": "test_2017_flickr",
        },
        sizes={"train": 29_000, "dev": 1_014, "test": 1_000, "test_2017": 1_000},
        obtain="unpack data/task1/raw of https://github.com/multi30k/dataset",
    ),
    ParallelTexts(
        name="tatoeba",
        title="Tatoeba, sentences for learners, German and English",
        licence="CC BY 2.0 FR",
        citation="https://tatoeba.org",
        folder="tatoeba",
        languages=("de", "en"),
        stems={"train": "train", "dev": "val", "test": "test"},
        obtain="download sentence pairs of https://tatoeba.org and split them yourself",
    ),
    ParallelTexts(
        name="small_parallel_enja",
        title="Small parallel corpus, Japanese and English",
        licence="CC BY-SA 3.0, as of the Tanaka corpus",
        citation="https://github.com/odashi/small_parallel_enja",
        folder="small_parallel_enja",
        languages=("ja", "en"),
        sizes={"train": 50_000, "dev": 500, "test": 500},
        tokenised=True,
        obtain="clone https://github.com/odashi/small_parallel_enja",
    ),
)
