"""Demo corpora of natural language inference, in the layouts of SNLI and MultiNLI.

A premise is a conjunction of clauses about different families of things; hypotheses restate some of
them, edited and in any order. A clause says that a quantity of a class does something, or does not.
Labels follow from a table of natural logic: classes and actions are trees of words, siblings
exclude each other, modifiers restrict, opposite modifiers exclude each other. Every class that a
pair names has members, so that *every* implies *some*. A model must align words: the label depends
on which adjective, verb or number belongs to which noun.

References:
    MacCartney and Manning (2009), An extended model of natural logic: the quantifier decides
    whether replacing a word by a wider or by a narrower one preserves truth.
"""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import chain, product
from pathlib import Path
from random import Random

from repro.data.corpora.inference import LABELS, MULTINLI, SNLI, SentencePairs
from repro.data.files import write_if_changed

_TREES = {
    "animal": ("dog poodle beagle", "horse pony stallion"),
    "human": ("adult father mother", "kid boy girl"),
    "vehicle": ("car taxi limousine", "boat canoe yacht"),
    "move": ("advance race creep", "turn swerve spin"),
    "halt": ("wait", "stall"),
}
"""Families of classes, then of actions: the two parts of each, with their parts."""
_FAMILIES = ("animal", "human", "vehicle")
_ADJECTIVES = (("small", "big"), ("red", "blue"))
_ADVERBS = (("slowly", "quickly"), ("quietly", "loudly"))

# Meaning of a word beside that of the premise: equal (=), wider (>), narrower (<), disjoint (|).
_LOGIC = {
    "every": (
        "every = =; every < =; every = >; every < >; some = =; no = |; no < |; not_every = |",
        "not_every = =; no = =; no < >; every = |; some < |; some not = =; not_every < >",
        "every > =; every = <; not_every > =; some | =; not_every = <; two = =; some = <; no = <",
    ),
    "no": (
        "no = =; no < =; no = <; not_every = =; not_every < <; not_every > =; every not = =",
        "some = =; some < =; some = <; two < =; every = =; every > =; some < <; two = =",
        "no > =; no = >; every = >; some = |; some > =; not_every = >; not_every | =; some > >",
    ),
    "some": (
        "some = =; some > =; some = >; some > >; not_every = |; not_every > |",
        "no = =; no > =; no = >; every = |; every not = =; no > >; every > |; every = |",
        "every = =; some = <; some < =; two = =; not_every = =; not_every > =; no = <; some | =",
    ),
    "not_every": (
        "not_every = =; not_every > =; not_every = <; not_every > <; some not = =",
        "every = =; every > =; every = <; every > <; every = =; every > =",
        "no = =; some = =; some > =; not_every < =; not_every = >; some = <; no < =; every | =",
    ),
    "two": (
        "two = =; two > =; two = >; some = >; some > =; two > >; not_every > |; not_every = |",
        "no = =; no > =; no = >; every = |; every > |; every not = =; no > >; every = |",
        "three = =; two < =; two = <; every = =; not_every = =; no = <; some < =; not_every > =",
    ),
    "three": (
        "three = =; two > =; two = >; some = >; three > =; three > >; not_every = |; two = =",
        "no = =; no > =; no = >; every = |; every > |; every not = =; no > >; every = |",
        "two < =; three < =; three = <; every = =; not_every = =; no = <; some < =; not_every > =",
    ),
    "most": (
        "most = =; most = >; some = =; some > =; some > >; not_every = |; not_every > |",
        "no = =; most = |; no = >; every = |; no > =; every > |; most not = =; every = |",
        "most > =; most = <; every = =; most < =; some < =; not_every > =; not_every = =; no = <",
    ),
}
"""By the quantifier of a premise: what it entails, contradicts, and leaves open."""
_ORDER = ("entailment", "contradiction", "neutral")
_PLURAL = ("most", "two", "three")
CLAUSES = {SNLI.name: (1, 2), MULTINLI.name: (2, 3)}
"""Minimum and maximum number of clauses of a premise; a hypothesis has one, sometimes two."""
PREMISES = {"train": 3000, "dev": 200, "test": 200, "dev_matched": 400}
"""Number of premises of each part; each premise has one hypothesis of every label."""

Phrase = tuple[str, str]
"""Noun or verb, and its adjective or adverb, which may be empty."""


@cache
def _related(
    roots: tuple[str, ...], opposites: tuple[tuple[str, str], ...]
) -> list[dict[str, list[Phrase]]]:
    """List the phrases equal to, wider and narrower than and disjoint from each phrase below roots.

    Phrases that lack one of them are left out.
    """
    paths: dict[str, tuple[str, ...]] = {root: (root,) for root in roots}
    for root in roots:
        for line in _TREES[root]:
            middle, *leaves = line.split()
            paths[middle] = (root, middle)
            paths |= {leaf: (root, middle, leaf) for leaf in leaves}
    phrases = [*product(paths, ("", *chain(*opposites)))]

    def relation(one: Phrase, other: Phrase) -> str:
        path, path_2 = paths[one[0]], paths[other[0]]
        modifier, modifier_2 = one[1], other[1]
        above, below = path[: len(path_2)] == path_2, path_2[: len(path)] == path
        if not (above or below) or {(modifier, modifier_2), (modifier_2, modifier)} & {*opposites}:
            return "|"
        if above and modifier_2 in ("", modifier):
            return "=" if one == other else ">"
        return "<" if below and modifier in ("", modifier_2) else "overlapping"

    found = []
    for one in phrases:
        related: dict[str, list[Phrase]] = {}
        for other in phrases:
            related.setdefault(relation(one, other), []).append(other)
        if {*related} >= {*"=><|"}:
            found.append(related)
    return found


def _clause(quantifier: str, noun: Phrase, verb: Phrase, negated: bool = False) -> str:
    """Write quantifier, adjective, noun, negation, verb and adverb."""
    plural = quantifier in _PLURAL
    negation = ("do not" if plural else "does not") if negated else ""
    things, does = noun[0] + "s" * plural, verb[0] + "s" * (not plural and not negated)
    words = (quantifier.replace("_", " "), noun[1], things, negation, does, verb[1])
    return " ".join(filter(None, words))


def write_demo_nli(
    data_dir: Path,
    seed: int = 2017,
    premises: Mapping[str, int] = PREMISES,
    sources: Sequence[SentencePairs] = (SNLI, MULTINLI),
) -> None:
    """Write the corpora ``sources`` below ``data_dir``, the folder that the readers take.

    Each is a pure function of ``seed`` and of the number of ``premises`` of each part.
    """
    for source in sources:
        for part, records in demo_records(source, seed, premises).items():
            text = "".join(json.dumps(record) + "\n" for record in records)
            write_if_changed(data_dir / source.folder / source.files[part], text.encode())


def demo_records(
    source: SentencePairs, seed: int, premises: Mapping[str, int] = PREMISES
) -> dict[str, list[dict[str, str]]]:
    """Draw the records of every part, with the keys of the archives; no pair is in two parts.

    A premise has one hypothesis of each label, so that neither the premise nor the frequency of a
    label is informative. The arguments are those of :func:`write_demo_nli`.
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
            if not pairs & seen:
                records += group
                seen |= pairs
        parts[part] = records
    return parts


def _group(random: Random, clauses: tuple[int, int], name: str) -> list[dict[str, str]]:
    """Draw a premise and a hypothesis of each label, all with as many clauses."""
    said = []
    for family in random.sample(_FAMILIES, random.randint(*clauses)):
        nouns = random.choice(_related((family,), _ADJECTIVES))
        verbs = random.choice(_related(("move", "halt"), _ADVERBS))
        said.append((random.choice([*_LOGIC]), nouns, verbs))
    count = 2 if len(said) > 1 and random.random() < 0.25 else 1
    premise = [_clause(quantifier, noun["="][0], verb["="][0]) for quantifier, noun, verb in said]
    records = []
    for label in LABELS:
        # One clause decides: the others are entailed, or, beside a contradiction, may be open.
        others = ["entailment", "neutral"] if label == "contradiction" else ["entailment"]
        labels = [label, *(random.choice(others) for _ in range(count - 1))]
        hypothesis = []
        for (quantifier, nouns, verbs), one in zip(random.sample(said, count), labels, strict=True):
            rows = _LOGIC[quantifier][_ORDER.index(one)].split("; ")
            *words, to_noun, to_verb = random.choice(rows).split()
            noun, verb = random.choice(nouns[to_noun]), random.choice(verbs[to_verb])
            hypothesis.append(_clause(words[0], noun, verb, negated="not" in words))
        random.shuffle(hypothesis)
        texts = _texts("sentence1", premise) | _texts("sentence2", hypothesis)
        records.append(
            {"gold_label": label, **texts, "pairID": f"{name}{label[0]}", "genre": "demo"}
        )
    return records


def _texts(key: str, clauses: Sequence[str]) -> dict[str, str]:
    """Return a sentence under ``key``, and its right-branching binary parse."""
    leaves = " and ".join(clauses).capitalize().split()
    parse = "".join(f"( {leaf} " for leaf in leaves) + "." + " )" * len(leaves)
    return {key: " ".join(leaves) + ".", f"{key}_binary_parse": parse}
