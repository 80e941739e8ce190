"""Parallel corpora from the Parquet files of the Hugging Face Hub, written as plain text.

The Hub's texts are those of the archives, made ready by others: training pairs without a side are
left out there, and no pair is cleaned. What is fetched lies where
:func:`~repro.data.translation.open_corpus` looks for plain files.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from repro.data.errors import DataError
from repro.data.fetch import FetchReport, Progress
from repro.data.hub import parquet_rows
from repro.data.parallel import ParallelText, about, check_sizes, write_lines
from repro.data.receipts import receipt_of, write_receipt

_PARQUET = "refs/convert/parquet"
"""The branch on which the Hub keeps Parquet files of a repository that has none itself."""


@dataclass(frozen=True)
class HubCorpus:
    """A parallel corpus of the Hub.

    Attributes:
        name: what ``repro data fetch`` takes.
        repository: owner and name.
        revision: branch; which commit it was is written into the receipt.
        files: pattern of the files of each split.
        folder: below the data folder, where the texts are written.
        languages: the other language and English.
        sizes: numbers of pairs that are checked.
        first: only so many pairs of a split are taken, where the Hub joined two test sets.
    """

    name: str
    repository: str
    revision: str
    files: Mapping[str, str]
    folder: str
    languages: tuple[str, str]
    sizes: Mapping[str, int | range]
    first: Mapping[str, int]

    @property
    def receipt(self) -> str:
        """Path of the receipt below the data folder."""
        return f"{self.name}.fetched.json"


def _wmt(name: str, train: int, dev: int, test: int, first: int | None = None) -> HubCorpus:
    year, other = name.removeprefix("wmt").split("_")
    stems = {"train": "train", "dev": "validation", "test": "test"}
    return HubCorpus(
        f"{name}@hub",
        f"wmt/wmt{year}",
        "main",
        {split: f"{other}-en/{stem}-*.parquet" for split, stem in stems.items()},
        f"{name}_en",
        (other, "en"),
        {"train": about(train), "dev": dev, "test": test},
        {} if first is None else {"test": first},
    )


HUB_CORPORA: Mapping[str, HubCorpus] = {
    corpus.name: corpus
    for corpus in (
        _wmt("wmt16_ro", 610_320, 1_999, 1_999),
        _wmt("wmt16_de", 4_548_885, 2_169, 2_999),
        _wmt("wmt16_fi", 2_073_394, 1_370, 3_000, first=3_000),
        _wmt("wmt17_lv", 3_567_528, 2_003, 2_001),
        _wmt("wmt17_tr", 205_756, 3_000, 3_007),
        HubCorpus(
            "iwslt2017@hub",
            "IWSLT/iwslt2017",
            _PARQUET,
            {
                "train": "iwslt2017-de-en/train/*.parquet",
                "dev": "iwslt2017-de-en/validation/*.parquet",
                "test": "iwslt2017-de-en/test/*.parquet",
            },
            "iwslt2017",
            ("de", "en"),
            {"train": 206_112, "dev": 888, "test": 8_079},
            {},
        ),
    )
}
"""Corpora of the Hub by name. Numbers of pairs: the data cards of the Hub, 2022; the test set of
``fi-en`` there is newstest2016 and newstestB2016 one after the other, of which the first is taken.
"""


def fetch_from_hub(
    corpus: HubCorpus, data_dir: Path, progress: Progress, folder: Path | None = None
) -> FetchReport:
    """Write a corpus of the Hub as plain text, one pair at a time.

    Args:
        corpus: what to fetch.
        data_dir: folder below which the texts are placed.
        progress: called after each split with the number done, the number of all, and its name.
        folder: a copy of the repository; ``None`` takes the Hub's, which needs a network.

    Raises:
        DataError: files are missing or malformed, or a split has another number of pairs.
    """
    commit = corpus.revision if folder is not None else _commit(corpus)
    base = f"hf://datasets/{corpus.repository}@{commit}" if folder is None else str(folder)
    texts = {}
    for done, (split, pattern) in enumerate(corpus.files.items(), start=1):
        stem = Path(data_dir) / corpus.folder / split
        texts[split] = ParallelText(*(Path(f"{stem}.{one}") for one in corpus.languages))
        pairs = islice(_pairs(corpus, f"{base}/{pattern}"), corpus.first.get(split))
        write_lines(pairs, texts[split])
        progress(done, len(corpus.files), f"{corpus.repository} {split}")
    check_sizes(texts, corpus.sizes)
    paths = [path for text in texts.values() for path in text]
    origins = {f"https://huggingface.co/datasets/{corpus.repository}": commit}
    write_receipt(Path(data_dir) / corpus.receipt, receipt_of(origins, Path(data_dir), paths))
    return FetchReport(len(paths), 0)


def _commit(corpus: HubCorpus) -> str:
    """The commit that the revision stands for now."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    try:
        info = HfApi().dataset_info(corpus.repository, revision=corpus.revision)
    except (OSError, HfHubHTTPError) as error:
        raise DataError(f"cannot ask the Hub for {corpus.repository}: {error}") from error
    return str(info.sha)


def _pairs(corpus: HubCorpus, pattern: str) -> Iterator[tuple[str, str]]:
    """Pairs of rows ``{"translation": {language: text}}``; line breaks become spaces."""
    for number, row in enumerate(parquet_rows(pattern, streaming=True)):
        texts = row.get("translation")
        sides = [texts.get(one) for one in corpus.languages] if isinstance(texts, dict) else []
        if not sides or not all(isinstance(side, str) for side in sides):
            raise DataError(
                f"{pattern}, row {number}: expected texts in {' and '.join(corpus.languages)} "
                "under 'translation'"
            )
        first, second = (" ".join(str(side).splitlines()).strip() for side in sides)
        if first and second:
            yield first, second
