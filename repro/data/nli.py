"""Natural language inference: SNLI 1.0 and MultiNLI 1.0 in the layout of their archives.

Files ``snli_1.0/snli_1.0_{train,dev,test}.jsonl`` and
``multinli_1.0/multinli_1.0_{train,dev_matched}.jsonl``: one JSON object a line with the keys
``gold_label``, ``sentence1``, ``sentence2``, ``pairID`` and, in the originals, the parses
``sentence1_binary_parse`` and ``sentence2_binary_parse``. A pair with the gold label ``-`` has no
label and is left out.

References:
    Bowman et al. (2015), A large annotated corpus for learning natural language inference.
    Williams et al. (2018), A broad-coverage challenge corpus for sentence understanding.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

from repro.checksums import sha256_of_file
from repro.data.errors import DataError
from repro.data.files import decoded_lines, parse_json_object, sha256_of
from repro.data.nli_tokens import parse_words, punctuation_words

LABELS = ("entailment", "neutral", "contradiction")
UNLABELLED = "-"
LONGEST = 1000
"""No sentence has more words, unless its line is broken: the longest have a few hundred."""
Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class NliExample:
    """One labelled pair.

    Attributes:
        pair_id: the corpus's name of the pair.
        premise: its words; empty where the corpus has an empty sentence.
        hypothesis: its words, likewise.
        label: index into :data:`LABELS`.
    """

    pair_id: str
    premise: tuple[str, ...]
    hypothesis: tuple[str, ...]
    label: int


@dataclass(frozen=True)
class NliReading:
    """How a corpus is read.

    Attributes:
        tokenization: ``"provided"`` takes the leaves of the binary parse, or, where a line has
            none, what stands between spaces; ``"punctuation"`` splits the sentence by
            :func:`~repro.data.nli_tokens.punctuation_words`.
        lowercase: whether words are lower-cased.
        expected: ``"official"`` demands as many labelled pairs as the published corpus has;
            ``"any"`` takes a subset as well.
        max_words: training pairs with a longer sentence are left out; ``None`` keeps all, and
            refuses a sentence of more than :data:`LONGEST` words.
    """

    tokenization: Literal["provided", "punctuation"] = "provided"
    lowercase: bool = False
    expected: Literal["official", "any"] = "official"
    max_words: int | None = None


@dataclass(frozen=True)
class NliSource:
    """Where a corpus lies below the data folder, and how many labelled pairs it has.

    Attributes:
        name: of the corpus.
        folder: of the archive.
        files: name of the file of each part.
        sizes: labelled pairs of each part.
        address: of the archive on the web.
    """

    name: str
    folder: str
    files: Mapping[str, str]
    sizes: Mapping[str, int]
    address: str


SNLI = NliSource(
    "snli",
    "snli_1.0",
    {part: f"snli_1.0_{part}.jsonl" for part in ("train", "dev", "test")},
    {"train": 549_367, "dev": 9_842, "test": 9_824},
    "https://nlp.stanford.edu/projects/snli/snli_1.0.zip",
)
MULTINLI = NliSource(
    "multinli",
    "multinli_1.0",
    {part: f"multinli_1.0_{part}.jsonl" for part in ("train", "dev_matched")},
    {"train": 392_702, "dev_matched": 9_815},
    "https://cims.nyu.edu/~sbowman/multinli/multinli_1.0.zip",
)


@dataclass(frozen=True)
class NliCorpus:
    """The labelled pairs of a corpus, each part in the order of its file.

    Attributes:
        name: of the corpus.
        fingerprint: SHA-256 over the names and the SHA-256 of every file that was read.
    """

    name: str
    train: list[NliExample]
    dev: list[NliExample]
    test: list[NliExample]
    fingerprint: str


def load_snli(data_dir: Path, reading: NliReading) -> NliCorpus:
    """Read SNLI 1.0.

    Args:
        data_dir: folder that holds ``snli_1.0``, or that folder itself.
        reading: words and sizes.

    Raises:
        DataError: a file missing or malformed, or not of the expected size.
    """
    parts = _read_parts(SNLI, Path(data_dir), reading)
    return NliCorpus(SNLI.name, **parts, fingerprint=nli_fingerprint(SNLI, data_dir))


def load_multinli(data_dir: Path, reading: NliReading) -> NliCorpus:
    """Read MultiNLI 1.0; its matched validation set becomes validation and test, by halves.

    Args:
        data_dir: folder that holds ``multinli_1.0``, or that folder itself.
        reading: words and sizes, the latter before the split.

    Raises:
        DataError: a file missing or malformed, not of the expected size, or a ``pairID`` that
            stands twice in the matched validation set.

    References:
        Niculae et al. (2018), §5.2, footnote 3.
    """
    parts = _read_parts(MULTINLI, Path(data_dir), reading)
    dev, test = halves(parts["dev_matched"])
    fingerprint = nli_fingerprint(MULTINLI, data_dir)
    return NliCorpus(MULTINLI.name, parts["train"], dev, test, fingerprint)


def nli_fingerprint(source: NliSource, data_dir: Path) -> str:
    """SHA-256 over the names and the SHA-256 of a corpus's files, which are not parsed.

    Raises:
        DataError: a file is missing.
    """
    paths = sorted(_paths(source, Path(data_dir)).values())
    return sha256_of("".join(f"{path.name} {sha256_of_file(path)}\n" for path in paths).encode())


def halves(examples: list[NliExample]) -> tuple[list[NliExample], list[NliExample]]:
    """Two halves; the first has one more pair where the number is odd.

    The first holds the pairs whose ``pair_id`` has the smaller SHA-256 in hexadecimal digits.
    Both keep the order of ``examples``.

    Raises:
        DataError: two pairs have the same ``pair_id``.
    """
    counts = Counter(example.pair_id for example in examples)
    if len(counts) < len(examples):
        twice = [name for name, count in counts.items() if count > 1]
        raise DataError(f"cannot split by pairID, these stand more than once: {twice[:5]}")
    order = sorted(counts, key=lambda name: sha256_of(name.encode()))
    first = set(order[: (len(order) + 1) // 2])
    chosen = [example for example in examples if example.pair_id in first]
    return chosen, [example for example in examples if example.pair_id not in first]


def read_file(path: Path, reading: NliReading) -> list[NliExample]:
    """Read the labelled pairs of one file.

    Raises:
        DataError: the file is missing, malformed or without labelled pairs; names file and line.
    """
    if not path.is_file():
        raise DataError(f"{path} is missing: the corpus is incomplete")
    with path.open("rb") as stream:
        lines = (line for _, line in decoded_lines(stream, path))
        return labelled(lines, parse_json_object, reading, str(path))


def labelled(
    rows: Iterable[Row],
    record_of: Callable[[Row], Mapping[str, object]],
    reading: NliReading,
    origin: str,
) -> list[NliExample]:
    """Turn rows into examples; pairs without a label are left out.

    Args:
        rows: one a pair.
        record_of: gives a row the keys of the archives; raises ``ValueError`` where it cannot.
        reading: how words are made.
        origin: where the rows come from, for messages.

    Raises:
        DataError: a malformed row, named by its number from one, or no labelled pair at all.
    """
    examples = []
    for number, row in enumerate(rows, start=1):
        try:
            record = record_of(row)
            if _text(record, "gold_label") != UNLABELLED:
                examples.append(_example(record, reading))
        except ValueError as error:
            raise DataError(f"{origin}:{number}: {error}") from None
    if not examples:
        raise DataError(f"{origin} holds no labelled pair")
    return examples


def check_size(source: NliSource, part: str, found: int, reading: NliReading) -> None:
    """Compare the number of labelled pairs of a part with the published one, if that is wanted.

    Raises:
        DataError: another number where ``reading.expected`` is ``"official"``.
    """
    if reading.expected == "official" and found != source.sizes[part]:
        raise DataError(
            f"{source.name} {part}: {found} labelled pairs, the published corpus has "
            f"{source.sizes[part]}; to use a part of it, set data.expected=any"
        )


def accepted(
    source: NliSource, part: str, examples: list[NliExample], reading: NliReading
) -> list[NliExample]:
    """The pairs of a part that are used: all, but for too long ones in the training data.

    Raises:
        DataError: the part has not the expected size, or no pair is short enough.
    """
    check_size(source, part, len(examples), reading)
    limit = reading.max_words
    if part != "train" or limit is None:
        return examples
    kept = [e for e in examples if max(len(e.premise), len(e.hypothesis)) <= limit]
    if not kept:
        raise DataError(
            f"{source.name}: data.max_words={limit} leaves none of {len(examples):,} training pairs"
        )
    return kept


def _read_parts(
    source: NliSource, data_dir: Path, reading: NliReading
) -> dict[str, list[NliExample]]:
    parts = {}
    for part, path in _paths(source, data_dir).items():
        parts[part] = accepted(source, part, read_file(path, reading), reading)
    return parts


def _paths(source: NliSource, data_dir: Path) -> dict[str, Path]:
    inside = (data_dir / source.folder, data_dir)
    folder = next((place for place in inside if (place / source.files["train"]).is_file()), None)
    if folder is None:
        raise DataError(
            f"no {source.folder}/{source.files['train']} in {data_dir}; unpack {source.address} "
            f"there, or set data_dir to the folder that holds {source.folder}"
        )
    paths = {part: folder / name for part, name in source.files.items()}
    if missing := [str(path) for path in paths.values() if not path.is_file()]:
        raise DataError(f"the corpus is incomplete, missing: {', '.join(missing)}")
    return paths


def _example(record: Mapping[str, object], reading: NliReading) -> NliExample:
    label = _text(record, "gold_label")
    if label not in LABELS:
        raise ValueError(f"gold_label: expected {', '.join(LABELS)} or '-', found {label!r}")
    return NliExample(
        _text(record, "pairID"),
        _words(record, "sentence1", reading),
        _words(record, "sentence2", reading),
        LABELS.index(label),
    )


def _words(record: Mapping[str, object], key: str, reading: NliReading) -> tuple[str, ...]:
    if reading.tokenization == "punctuation":
        words = punctuation_words(_text(record, key))
    elif f"{key}_binary_parse" in record:
        words = parse_words(_text(record, f"{key}_binary_parse"))
    else:
        words = _text(record, key).split()
    if reading.max_words is None and len(words) > LONGEST:
        raise ValueError(
            f"{key} has {len(words):,} words, more than {LONGEST:,}: a broken quotation? mend the "
            f"line, or set data.max_words={LONGEST}, which leaves longer training pairs out"
        )
    return tuple(sys.intern(word.lower() if reading.lowercase else word) for word in words)


def _text(record: Mapping[str, object], key: str) -> str:
    value = record.get(key)
    if not isinstance(value, str):
        raise ValueError(f"expected a text under {key!r}, found {type(value).__name__}")
    return value
