"""Natural language inference: SNLI 1.0 and MultiNLI 1.0 in the layout of their archives.

Files ``snli_1.0/snli_1.0_{train,dev,test}.jsonl`` and
``multinli_1.0/multinli_1.0_{train,dev_matched}.jsonl``: one JSON object per line with the keys
``gold_label``, ``sentence1``, ``sentence2``, ``pairID`` and, in the originals, the parses
``sentence1_binary_parse`` and ``sentence2_binary_parse``. A pair with the gold label ``-`` has no
label and is left out.

References:
    Bowman et al. (2015), A large annotated corpus for learning natural language inference.
    Williams et al. (2018), A broad-coverage challenge corpus for sentence understanding.
"""

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from repro.checksums import sha256_of_file
from repro.config.schema.nli import NliReading
from repro.data.corpora.inference import LABELS, UNLABELLED, SentencePairs
from repro.data.files import LineT, each_line, numbered_lines, parse_json_object, sha256_of
from repro.errors import DataError

LONGEST = 1000
"""Limit that only a malformed line exceeds: the longest sentences have a few hundred words."""
_WORDS = re.compile(
    r"""
      \w+?(?=n['’]t\b)          # the verb before n't: do|n't
    | n['’]t\b                  # the negation
    | ['’](?:s|m|d|re|ve|ll)\b  # a clitic: it|'s
    | \d+(?:[.,:]\d+)+          # 3.5, 1,000, 10:30
    | \w+(?:-\w+)*              # a word, hyphens inside it
    | [^\w\s]                   # any other mark by itself
    """,
    re.VERBOSE | re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class NliExample:
    """Labelled pair of sentences.

    Attributes:
        pair_id: identifier of the pair in the corpus.
        premise: words of the premise; empty where the corpus has an empty sentence.
        hypothesis: words of the hypothesis, likewise.
        label: index into the labels of the corpus.
    """

    pair_id: str
    premise: tuple[str, ...]
    hypothesis: tuple[str, ...]
    label: int


@dataclass(frozen=True)
class NliCorpus:
    """The labeled pairs of a corpus, each part in the order of its file.

    Attributes:
        labels: names that the labels of the examples index.
    """

    train: list[NliExample]
    dev: list[NliExample]
    test: list[NliExample]
    labels: tuple[str, ...]


def load_nli(source: SentencePairs, data_dir: Path, reading: NliReading) -> NliCorpus:
    """Read SNLI or MultiNLI, whose matched validation set is split into validation and test.

    Args:
        source: declaration of the corpus: its files and their sizes.
        data_dir: folder that holds the folder of the corpus, or that folder itself.
        reading: how to tokenize and whether to check sizes, which are those before the split.

    Raises:
        DataError: a file is missing, malformed or not of the expected size, or a ``pairID`` is
            repeated in the part that is split.

    References:
        Niculae et al. (2018), §5.2, footnote 3.
    """
    parts = {}
    for part, path in archive_files(source, data_dir).items():
        parts[part] = read_file(path, reading)
        check_size(source, part, len(parts[part]), reading)
    if source.halved is not None:
        parts["dev"], parts["test"] = halves(parts.pop(source.halved))
    parts["train"] = _short_enough(source.name, parts["train"], reading)
    return NliCorpus(labels=LABELS, **parts)


def pair_files(folder: Path) -> dict[str, Path]:
    """Find the files of user-supplied pairs: ``{train,dev,test}.jsonl`` or ``.tsv``.

    Raises:
        DataError: a split has no file, or two.
    """
    paths = {}
    for split in ("train", "dev", "test"):
        found = [folder / f"{split}{end}" for end in (".jsonl", ".tsv")]
        there = [path for path in found if path.is_file()]
        if len(there) != 1:
            raise DataError(
                f"data.folder: {folder} has {len(there)} of {found[0].name} and {found[1].name}; "
                "expected one of them"
            )
        paths[split] = there[0]
    return paths


def load_pairs(folder: Path, reading: NliReading) -> NliCorpus:
    """Read user-supplied sentence pairs, with any labels.

    A JSONL file has one object per line; a TSV file starts with a line of column names. Keys and
    columns are ``premise``, ``hypothesis``, ``label`` and, optionally, ``id``, or those of the SNLI
    archive. The labels are those of the training data, sorted; pairs labeled ``-`` are left out.

    Training pairs longer than ``reading.max_words`` are left out, too.

    Raises:
        DataError: a file is missing, a line is malformed or has a label that no training pair has;
            names the file and the line.
    """
    paths = pair_files(folder)
    records = {split: _own_records(path) for split, path in paths.items()}
    labels = tuple(sorted({one["gold_label"] for _, one in records["train"]} - {UNLABELLED}))
    if len(labels) < 2:
        found = ", ".join(labels) or "none"
        raise DataError(f"{paths['train']}: expected at least two labels, found {found}")
    parts = {
        split: _labeled(records[split], path, partial(_example, reading, labels))
        for split, path in paths.items()
    }
    parts["train"] = _short_enough(folder.name, parts["train"], reading)
    return NliCorpus(labels=labels, **parts)


_KEYS = {
    "sentence1": ("premise", "sentence1"),
    "sentence2": ("hypothesis", "sentence2"),
    "gold_label": ("label", "gold_label"),
    "pairID": ("id", "pairID"),
}
"""Keys of the archives, each with the names accepted in user-supplied files, preferred first."""
_PARSES = ("sentence1_binary_parse", "sentence2_binary_parse")


def _own_records(path: Path) -> list[tuple[int, dict[str, str]]]:
    """Read the numbered rows of a JSONL or TSV file and give them the keys of the archives."""
    lines = numbered_lines(path)
    names = next(lines, (1, ""))[1].split("\t") if path.suffix == ".tsv" else None
    records, lines_of = [], dict[str, int]()
    for number, line in lines:
        try:
            record = _own_record(line, names, {"pairID": f"{path.stem}-{number}"})
            if (first := lines_of.setdefault(record["pairID"], number)) != number:
                raise ValueError(
                    f"the id {record['pairID']!r} is repeated; line {first} has it as well"
                )
            records.append((number, record))
        except ValueError as error:
            raise DataError(f"{path}:{number}: {error}") from None
    if not records:
        raise DataError(f"{path} is empty: expected sentence pairs")
    return records


def _own_record(
    line: str, names: Sequence[str] | None, defaults: Mapping[str, str], further: Sequence[str] = ()
) -> dict[str, str]:
    """Parse a JSON object, or cells with these names, and give it the keys of the archives.

    ``further`` keys, those of an archive, are kept as they are; archives have empty sentences.
    """
    if names is None:
        row = parse_json_object(line)
    else:
        cells = line.split("\t")
        if len(cells) != len(names):
            raise ValueError(f"expected {len(names)} columns, found {len(cells)}")
        row = dict(zip(names, cells, strict=True))
    record = {}
    for key, choices in _KEYS.items():
        value = next((row[name] for name in choices if name in row), defaults.get(key))
        if key == "gold_label" and type(value) is int:
            value = str(value)
        if not isinstance(value, str) or not (value.strip() or further):
            wanted = " or ".join(map(repr, choices))
            raise ValueError(f"expected a text under {wanted}")
        record[key] = value
    return record | {key: row[key] for key in further if key in row}


def read_unlabeled(
    lines: Iterable[tuple[int, str]],
    path: Path,
    reading: NliReading,
    parsed: bool,
    check: Callable[[Sequence[str]], None],
) -> Iterator[NliExample]:
    """Yield pairs whose label, if there is one, is ignored.

    The lines are JSON objects if the first one begins with a brace, else cells: premise and
    hypothesis, or those that a first line names.

    Args:
        lines: lines with their numbers, as of the files of :func:`load_pairs` or of an archive.
        path: the file, for messages.
        reading: how to tokenize.
        parsed: whether the corpus provides parses: pairs without them are split by
            :func:`punctuation_words`, not at spaces.
        check: raises ValueError if a sentence has too many words.

    Raises:
        DataError: a malformed line; names the file and the line.
    """
    names: Sequence[str] | None = None
    defaults = {"pairID": "input", "gold_label": UNLABELLED}
    further, plain = (
        (_PARSES, replace(reading, tokenization="punctuation")) if parsed else ((), reading)
    )
    for place, (number, line) in enumerate(lines):
        try:
            if place == 0 and not line.lstrip().startswith("{"):
                found = line.split("\t")
                named = all({*found} & {*_KEYS[key]} for key in ("sentence1", "sentence2"))
                names = found if named else ("premise", "hypothesis")
                if named:
                    continue
            record = _own_record(line, names, defaults, further)
            chosen = reading if _PARSES[0] in record else plain
            premise, hypothesis = (_words(record, f"sentence{n}", chosen) for n in (1, 2))
            check(premise)
            check(hypothesis)
        except ValueError as error:
            raise DataError(f"{path}:{number}: {error}") from None
        yield NliExample(record["pairID"], premise, hypothesis, label=0)


def fingerprint(paths: Mapping[str, Path]) -> str:
    """Compute a SHA-256 over the names and the SHA-256 of the files of a corpus."""
    lines = (f"{path.name} {sha256_of_file(path)}\n" for path in sorted(paths.values()))
    return sha256_of("".join(lines).encode())


def halves(examples: list[NliExample]) -> tuple[list[NliExample], list[NliExample]]:
    """Split examples into halves by the hash of their ``pair_id``.

    The first half holds the pairs with the smaller SHA-256 in hexadecimal digits, and one pair more
    if the number is odd. Both keep the order of ``examples``.

    Raises:
        DataError: two pairs have the same ``pair_id``.
    """
    counts = Counter(example.pair_id for example in examples)
    if len(counts) < len(examples):
        twice = [name for name, count in counts.items() if count > 1]
        raise DataError(f"cannot split by pairID, duplicates: {twice[:5]}")
    order = sorted(counts, key=lambda name: sha256_of(name.encode()))
    first = set(order[: (len(order) + 1) // 2])
    chosen = [example for example in examples if example.pair_id in first]
    return chosen, [example for example in examples if example.pair_id not in first]


def read_file(path: Path, reading: NliReading) -> list[NliExample]:
    """Read the labeled pairs of one file.

    Raises:
        DataError: the file is malformed or without labeled pairs; names file and line.
    """
    return _labeled(
        numbered_lines(path), path, lambda line: _example(reading, LABELS, parse_json_object(line))
    )


def _labeled(
    rows: Iterable[tuple[int, LineT]], path: Path, parse: Callable[[LineT], NliExample | None]
) -> list[NliExample]:
    examples = [example for example in each_line(rows, path, parse) if example is not None]
    if not examples:
        raise DataError(f"{path} holds no labeled pair")
    return examples


def _example(
    reading: NliReading, labels: Sequence[str], record: Mapping[str, object]
) -> NliExample | None:
    """Read a record with the keys of the archives; return ``None`` if it has no label."""
    label = _text(record, "gold_label")
    if label == UNLABELLED:
        return None
    if label not in labels:
        raise ValueError(f"expected the label {', '.join(labels)} or '-', found {label!r}")
    name = _text(record, "pairID")
    premise, hypothesis = (_words(record, f"sentence{n}", reading) for n in (1, 2))
    for side, words in (("premise", premise), ("hypothesis", hypothesis)):
        if reading.max_words is None and len(words) > LONGEST:
            raise ValueError(
                f"the {side} has {len(words):,} words, more than {LONGEST:,}: an unclosed "
                f"quotation? correct the line, or set data.max_words={LONGEST}, to leave longer "
                "training pairs out"
            )
    return NliExample(name, premise, hypothesis, labels.index(label))


def check_size(source: SentencePairs, part: str, found: int, reading: NliReading) -> None:
    """Compare the number of labeled pairs of a part with the published one.

    Raises:
        DataError: the numbers differ and ``reading.check_size`` is set.
    """
    if reading.check_size and found != source.sizes[part]:
        raise DataError(
            f"{source.name} {part}: {found} labeled pairs, the published corpus has "
            f"{source.sizes[part]}; to use a part of it, set data.check_size=false"
        )


def _short_enough(name: str, examples: list[NliExample], reading: NliReading) -> list[NliExample]:
    limit = reading.max_words
    if limit is None:
        return examples
    kept = [e for e in examples if max(len(e.premise), len(e.hypothesis)) <= limit]
    if not kept:
        raise DataError(
            f"{name}: data.max_words={limit} leaves none of {len(examples):,} training pairs"
        )
    return kept


def archive_files(source: SentencePairs, data_dir: Path) -> dict[str, Path]:
    """Find the files of SNLI or MultiNLI; see :func:`load_nli`.

    Raises:
        DataError: a file is missing.
    """
    inside = (data_dir / source.folder, data_dir)
    folder = next((place for place in inside if (place / source.files["train"]).is_file()), None)
    if folder is None:
        raise DataError(
            f"no {source.folder}/{source.files['train']} in {data_dir}; {source.how_to_get}, or "
            f"set data_dir to the folder that holds {source.folder}"
        )
    paths = {part: folder / name for part, name in source.files.items()}
    if missing := [str(path) for path in paths.values() if not path.is_file()]:
        raise DataError(f"the corpus is incomplete, missing: {', '.join(missing)}")
    return paths


def punctuation_words(sentence: str) -> list[str]:
    """Split raw text into words, clitics and punctuation marks.

    ``n't`` and the clitics ``'s 'm 'd 're 've 'll`` are words; numbers keep inner points, commas
    and colons, words their inner hyphens; every other mark is a token. Joining the result by
    spaces and splitting again gives the same tokens.
    """
    return _WORDS.findall(sentence)


def _words(record: Mapping[str, object], key: str, reading: NliReading) -> tuple[str, ...]:
    if reading.tokenization == "punctuation":
        words = punctuation_words(_text(record, key))
    elif f"{key}_binary_parse" in record:
        # The leaves of a binary parse such as "( ( A dog ) ( runs . ) )", in their order.
        parse = _text(record, f"{key}_binary_parse").split()
        words = [piece for piece in parse if piece not in ("(", ")")]
    else:
        words = _text(record, key).split()
    return tuple(sys.intern(word.lower() if reading.lowercase else word) for word in words)


def _text(record: Mapping[str, object], key: str) -> str:
    value = record.get(key)
    if not isinstance(value, str):
        raise ValueError(f"expected a text under {key!r}, found {type(value).__name__}")
    return value
