"""Memory of the preparation of a parallel corpus, and the processor seconds of its stages.

Each corpus is prepared in a process of its own, whose memory is read from ``/proc`` all the while.
``python -m benchmarks.corpus_memory`` generates corpora of two sizes over the same words; with
``--data-dir`` and ``--corpus`` it prepares one that is there.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from unittest.mock import patch

import numpy as np

from repro.config.schema.text_pairs import EncodingSettings, TextSettings
from repro.data import preparation
from repro.data.alignment import train_two_way, write_links
from repro.data.corpora import declared
from repro.data.corpora.translation import ParallelTexts
from repro.data.parallel import ParallelCorpus, ParallelText, fingerprint, read_pairs
from repro.data.preparation import PreparedCorpus
from repro.data.stages import cached_stage
from repro.data.translation import open_corpus

WORDS = 30_000
LONGEST = 20
_PIECE = 10_000
_MEGABYTE = 1 << 20


@dataclass
class Usage:
    """Time and memory used by a preparation.

    Attributes:
        pairs: number of training pairs.
        text: size of the training files in bytes.
        start: resident bytes before the preparation.
        resident: peak of resident bytes, mapped files included.
        anonymous: peak of anonymous bytes, which are not backed by a file.
        seconds: CPU time of each stage.
    """

    pairs: int = 0
    text: int = 0
    start: int = 0
    resident: int = 0
    anonymous: int = 0
    seconds: dict[str, float] = field(default_factory=dict)


def main(arguments: Sequence[str] | None = None) -> int:
    """Prepare each corpus in a process of its own and print a table."""
    given = _parser().parse_args(arguments)
    if given.child:
        print(json.dumps(asdict(_measured(given, given.pairs[0]))))
        return 0
    print(_TITLE)
    for pairs in given.pairs if given.corpus is None else (0,):
        command = [sys.executable, "-m", "benchmarks.corpus_memory", "--child"]
        options = [f"--pairs={pairs}", f"--merges={given.merges}", f"--source={given.source}"]
        options += [f"--target={given.target}", *(["--links"] if given.links else [])]
        if given.corpus is not None:
            options += [f"--corpus={given.corpus}", f"--data-dir={given.data_dir}"]
        found = subprocess.run([*command, *options], check=True, stdout=subprocess.PIPE, text=True)
        print(_row(Usage(**json.loads(found.stdout))), flush=True)
    return 0


_TITLE = (
    "| pairs | text | memory before | peak resident | peak anonymous | processor seconds |\n"
    "| ---: | ---: | ---: | ---: | ---: | --- |"
)


def _row(usage: Usage) -> str:
    sizes = (usage.text, usage.start, usage.resident, usage.anonymous)
    cells = " | ".join(f"{size / _MEGABYTE:,.0f} MB" for size in sizes)
    seconds = ", ".join(f"{name} {value:.1f}" for name, value in usage.seconds.items())
    return f"| {usage.pairs:,} | {cells} | {seconds} |"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, nargs="+", default=[200_000, 2_000_000])
    parser.add_argument("--merges", type=int, default=8_000)
    parser.add_argument("--links", action="store_true", help="also align the words")
    parser.add_argument("--corpus", help="a corpus below the data folder")
    parser.add_argument("--data-dir", type=Path, default=Path("data"))
    parser.add_argument("--source", default="de")
    parser.add_argument("--target", default="en")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    return parser


def _measured(given: argparse.Namespace, pairs: int) -> Usage:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        if given.corpus is None:
            corpus = generate(place / "corpus", pairs)
        else:
            corpus = open_corpus(
                declared(ParallelTexts, "data.corpus", given.corpus),
                given.data_dir,
                given.source,
                given.target,
            )
        usage = Usage(text=sum(path.stat().st_size for path in corpus.splits["train"]))
        with _watched(usage), patch.object(preparation, "cached_stage", _timed(usage)):
            text = TextSettings(merges=given.merges)
            prepared = preparation.prepare(corpus, text, EncodingSettings(), place / "cache")
            if given.links:
                began = time.process_time()
                _align(prepared, place / "links.arrow")
                usage.seconds["links"] = time.process_time() - began
        usage.pairs = sum(1 for _ in read_pairs(corpus.splits["train"]))
    return usage


def _align(prepared: PreparedCorpus, path: Path) -> None:
    def words() -> Iterator[tuple[list[str], list[str]]]:
        for pair in prepared.splits["train"]:
            yield [str(n) for n in pair.source], [str(n) for n in pair.target]

    write_links(path, train_two_way(words()).stream(words()))


def _timed(usage: Usage) -> Callable[..., Path]:
    """Wrap :func:`cached_stage` to record the CPU time of each stage."""

    def build(
        root: Path, name: str, identity: Mapping[str, object], fill: Callable[[Path], None]
    ) -> Path:
        began = time.process_time()
        folder = cached_stage(root, name, identity, fill)
        usage.seconds[name] = time.process_time() - began
        return folder

    return build


@contextmanager
def _watched(usage: Usage) -> Iterator[None]:
    """Record the peak memory while the block runs, sampled five times per second."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.2):
            resident, anonymous = _memory()
            usage.resident = max(usage.resident, resident)
            usage.anonymous = max(usage.anonymous, anonymous)

    usage.start = _memory()[0]
    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


def _memory() -> tuple[int, int]:
    """Return the resident bytes of this process, and how many of them are anonymous."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return tuple(1024 * int(status[key].split()[0]) for key in ("VmRSS", "RssAnon"))


def generate(folder: Path, pairs: int, seed: int = 2018) -> ParallelCorpus:
    """Write a corpus of random sentences over words whose frequencies follow Zipf's law."""
    folder.mkdir(parents=True)
    splits = {"train": pairs, "dev": 100, "test": 100}
    generator = np.random.default_rng(seed)
    languages = tuple(_words(generator) for _ in range(2))
    texts = {}
    for split, count in splits.items():
        texts[split] = ParallelText(folder / f"{split}.source", folder / f"{split}.target")
        for path, words in zip(texts[split], languages, strict=True):
            _write_sentences(path, words, count, generator)
    return ParallelCorpus("generated", "source", "target", texts, True, fingerprint(texts))


def _words(generator: np.random.Generator) -> list[str]:
    syllables = [onset + vowel for onset in "bdfgklmnprstvz" for vowel in "aeiou"]
    words: dict[str, None] = {}
    while len(words) < WORDS:
        chosen = generator.integers(len(syllables), size=generator.integers(1, 6))
        words["".join(syllables[k] for k in chosen)] = None
    return list(words)


def _write_sentences(
    path: Path, words: Sequence[str], count: int, generator: np.random.Generator
) -> None:
    shares = np.cumsum(1 / np.arange(1, len(words) + 1))
    with path.open("w", encoding="utf-8") as stream:
        for start in range(0, count, _PIECE):
            lengths = generator.integers(4, LONGEST + 1, size=min(_PIECE, count - start))
            drawn = np.searchsorted(shares, generator.uniform(0, shares[-1], lengths.sum()))
            for chosen in np.split(drawn, np.cumsum(lengths)[:-1]):
                stream.write(" ".join(words[k] for k in chosen) + "\n")


if __name__ == "__main__":
    sys.exit(main())
