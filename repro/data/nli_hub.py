"""SNLI and MultiNLI from the Parquet files of the Hugging Face Hub, pinned to one commit each.

The Hub's files hold the same pairs as the archives, with numbers for labels: 0, 1, 2 as in
:data:`~repro.data.nli.LABELS`, and -1 for a pair without a label.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from repro.data.files import sha256_of
from repro.data.hub import parquet_rows
from repro.data.nli import (
    LABELS,
    MULTINLI,
    SNLI,
    UNLABELLED,
    NliCorpus,
    NliExample,
    NliReading,
    NliSource,
    accepted,
    halves,
    labelled,
)


@dataclass(frozen=True)
class HubSource:
    """A data set of the Hub.

    Attributes:
        source: the corpus that it holds.
        repository: owner and name.
        revision: full commit.
        files: pattern of the Parquet files of each part of ``source``.
    """

    source: NliSource
    repository: str
    revision: str
    files: Mapping[str, str]


HUB_SNLI = HubSource(
    SNLI,
    "stanfordnlp/snli",
    "cdb5c3d5eed6ead6e5a341c8e56e669bb666725b",
    {
        "train": "plain_text/train-*.parquet",
        "dev": "plain_text/validation-*.parquet",
        "test": "plain_text/test-*.parquet",
    },
)
HUB_MULTINLI = HubSource(
    MULTINLI,
    "nyu-mll/multi_nli",
    "da70db2af9d09693783c3320c4249840212ee221",
    {"train": "data/train-*.parquet", "dev_matched": "data/validation_matched-*.parquet"},
)


def load_from_hub(hub: HubSource, reading: NliReading, folder: Path | None = None) -> NliCorpus:
    """Read a corpus from the Hub, or from a folder with the same files.

    SNLI has neither parses nor names of pairs there: its words are what stands between spaces
    unless ``reading`` asks for the punctuation rule, and a pair is named ``<part>-<number>``.

    Args:
        hub: :data:`HUB_SNLI` or :data:`HUB_MULTINLI`.
        reading: words and sizes.
        folder: a copy of the repository; ``None`` takes the Hub's, which needs a network.

    Raises:
        DataError: a part is missing or malformed, or its size is not the expected one.
    """
    base = f"hf://datasets/{hub.repository}@{hub.revision}" if folder is None else str(folder)
    parts = {}
    for part, pattern in hub.files.items():
        rows = parquet_rows(f"{base}/{pattern}")
        examples = examples_of(rows, part, reading, f"{hub.repository} {part}")
        parts[part] = accepted(hub.source, part, examples, reading)
    fingerprint = _fingerprint(parts)
    if "dev_matched" in parts:
        parts["dev"], parts["test"] = halves(parts.pop("dev_matched"))
    return NliCorpus(hub.source.name, **parts, fingerprint=fingerprint)


def examples_of(
    rows: Iterable[Mapping[str, object]], part: str, reading: NliReading, origin: str
) -> list[NliExample]:
    """Turn the Hub's rows into the examples of the archives.

    Args:
        rows: with ``premise``, ``hypothesis`` and ``label``; ``pairID``, ``premise_binary_parse``
            and ``hypothesis_binary_parse`` where the corpus has them.
        part: names the pairs where they have no ``pairID``.
        reading: how words are made.
        origin: where the rows come from, for messages.

    Raises:
        DataError: a malformed row, named by its number from one, or no labelled pair.
    """
    return labelled(enumerate(rows), partial(_record, part), reading, origin)


def _record(part: str, row: tuple[int, Mapping[str, object]]) -> dict[str, object]:
    number, values = row
    label = values.get("label")
    if not isinstance(label, int) or not -1 <= label < len(LABELS):
        raise ValueError(f"label: expected -1, 0, 1 or 2, found {label!r}")
    record = {
        "gold_label": UNLABELLED if label == -1 else LABELS[label],
        "pairID": values.get("pairID", f"{part}-{number}"),
    }
    for key, name in (("sentence1", "premise"), ("sentence2", "hypothesis")):
        record[key] = values.get(name)
        if f"{name}_binary_parse" in values:
            record[f"{key}_binary_parse"] = values[f"{name}_binary_parse"]
    return record


def _fingerprint(parts: Mapping[str, list[NliExample]]) -> str:
    lines = []
    for part, examples in sorted(parts.items()):
        content = [[e.pair_id, e.premise, e.hypothesis, e.label] for e in examples]
        lines.append(f"{part} {sha256_of(json.dumps(content).encode())}\n")
    return sha256_of("".join(lines).encode())
