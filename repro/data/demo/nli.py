"""The demo corpora of natural language inference, in the layouts of SNLI and MultiNLI.

Premises join clauses about different families of things; hypotheses restate some of them, edited
and in any order. Labels follow from natural logic (:mod:`repro.data.demo.nli_logic`), so that
words must be aligned: which adjective, verb or number belongs to which noun decides the label.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random

from repro.data.corpora.inference import LABELS, MULTINLI, SNLI, SentencePairs
from repro.data.demo.nli_grammar import draw_hypothesis, draw_premise, words_of
from repro.data.demo.nli_logic import Clause, pair_label
from repro.data.files import write_if_changed

CLAUSES = {SNLI.name: (1, 2), MULTINLI.name: (2, 3)}
"""Fewest and most clauses of a premise; a hypothesis has one, or now and then two."""

PREMISES = {"train": 3000, "dev": 200, "test": 200, "dev_matched": 400}
"""Premises of each part; each has one hypothesis of every label."""


def write_demo_nli(
    data_dir: Path,
    seed: int = 2017,
    premises: Mapping[str, int] = PREMISES,
    sources: Sequence[SentencePairs] = (SNLI, MULTINLI),
) -> None:
    """Write ``snli_1.0`` and ``multinli_1.0`` below ``data_dir``.

    Every file is written atomically; one that is there with the right bytes is left alone.

    Args:
        data_dir: folder that the readers take as their ``data_dir``.
        seed: seed of all draws.
        premises: how many each part has; the files are a pure function of both.
        sources: the corpora that are written.
    """
    for source in sources:
        for part, records in demo_records(source, seed, premises).items():
            text = "".join(json.dumps(record) + "\n" for record in records)
            write_if_changed(Path(data_dir) / source.folder / source.files[part], text.encode())


def demo_records(
    source: SentencePairs, seed: int, premises: Mapping[str, int] = PREMISES
) -> dict[str, list[dict[str, str]]]:
    """Records of every part, with the keys of the archives; no pair is in two of them.

    A premise has one hypothesis of each label, so that neither it nor the number of pairs of a
    label tells anything.

    Args:
        source: the corpus whose layout is taken.
        seed: seed of all draws.
        premises: how many each part has.
    """
    random = Random(f"{seed} {source.name}")
    seen: set[tuple[str, str]] = set()
    parts = {}
    for part in source.files:
        records: list[dict[str, str]] = []
        while len(records) < len(LABELS) * premises[part]:
            name = f"{part}-{len(records) // len(LABELS)}"
            group = _group(random, CLAUSES[source.name], name)
            pairs = {(record["sentence1"], record["sentence2"]) for record in group}
            if len(group) == len(LABELS) and not pairs & seen:
                records += group
                seen |= pairs
        parts[part] = records
    return parts


def _group(random: Random, clauses: tuple[int, int], name: str) -> list[dict[str, str]]:
    """A premise with a hypothesis of each label, or of fewer where fifty draws do not give all.

    The hypotheses have equally many clauses, so that their length tells little.
    """
    premise = draw_premise(random, random.randint(*clauses))
    count = 2 if len(premise) > 1 and random.random() < 0.25 else 1
    found: dict[str, list[Clause]] = {}
    for _ in range(50):
        hypothesis = draw_hypothesis(random, premise, count)
        found.setdefault(pair_label(premise, hypothesis), hypothesis)
        if len(found) == len(LABELS):
            break
    said = words_of(premise)
    return [
        _record(label, said, words_of(found[label]), f"{name}{label[0]}")
        for label in LABELS
        if label in found
    ]


def _record(label: str, premise: list[str], hypothesis: list[str], name: str) -> dict[str, str]:
    return {
        "gold_label": label,
        "sentence1": _sentence(premise),
        "sentence1_binary_parse": _parse(premise),
        "sentence2": _sentence(hypothesis),
        "sentence2_binary_parse": _parse(hypothesis),
        "pairID": name,
        "genre": "demo",
    }


def _sentence(words: list[str]) -> str:
    return " ".join([words[0].capitalize(), *words[1:]]) + "."


def _parse(words: list[str]) -> str:
    """A right-branching binary parse."""
    leaves = [words[0].capitalize(), *words[1:], "."]
    opened = "".join(f"( {leaf} " for leaf in leaves[:-1])
    return opened + leaves[-1] + " )" * (len(leaves) - 1)
