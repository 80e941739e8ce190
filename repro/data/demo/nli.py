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
from repro.data.demo.nli_logic import (
    FAMILIES,
    MOTIONS,
    NARROWER,
    OPPOSITE_ADJECTIVES,
    OPPOSITE_ADVERBS,
    OPPOSITES,
    PARENTS,
    QUANTIFIERS,
    Clause,
    Concept,
    ancestry,
    pair_label,
)
from repro.data.files import write_if_changed

Pairs = Sequence[tuple[str, str]]
PLURAL = ("most", "two", "three")
NEGATIVE = ("no", "not every")
QUANTIFIER_WORDS = tuple(QUANTIFIERS)


def words_of(clauses: Sequence[Clause]) -> list[str]:
    """The sentence as words, lower-cased, without the full stop."""
    return " and ".join(" ".join(clause_words(clause)) for clause in clauses).split()


def clause_words(clause: Clause) -> list[str]:
    """Quantifier, adjectives, noun, negation, verb, adverbs."""
    plural = clause.quantifier in PLURAL
    restrictor, scope = clause.restrictor, clause.scope
    negation = ["do" if plural else "does", "not"] if clause.negated else []
    verb = scope.head if plural or clause.negated else scope.head + "s"
    return [
        *clause.quantifier.split(),
        *_ordered(restrictor.modifiers, OPPOSITE_ADJECTIVES),
        restrictor.head + ("s" if plural else ""),
        *negation,
        verb,
        *_ordered(scope.modifiers, OPPOSITE_ADVERBS),
    ]


def _ordered(modifiers: frozenset[str], pairs: Pairs) -> list[str]:
    return [word for pair in pairs for word in pair if word in modifiers]


def _draw_clause(random: Random, family: str) -> Clause:
    quantifier = random.choice(QUANTIFIER_WORDS)
    negated = quantifier not in NEGATIVE and random.random() < 0.2
    restrictor = Concept(random.choice(NOUNS[family]), _draw_modifiers(random, OPPOSITE_ADJECTIVES))
    scope = Concept(random.choice(VERBS), _draw_modifiers(random, OPPOSITE_ADVERBS))
    return Clause(quantifier, restrictor, scope, negated)


def _draw_modifiers(random: Random, pairs: Pairs) -> frozenset[str]:
    return frozenset([random.choice(random.choice(pairs))] if random.random() < 0.5 else [])


def _edit_concept(random: Random, concept: Concept, pairs: Pairs) -> Concept:
    head, modifiers = concept.head, concept.modifiers
    if random.random() < 0.5:
        head = random.choice(NEIGHBOURS[head])
    if random.random() < 0.4:
        # Add a modifier, drop it, or turn it into its opposite.
        if not modifiers:
            modifiers = frozenset([random.choice(random.choice(pairs))])
        elif random.random() < 0.6:
            modifiers = frozenset()
        else:
            modifiers = frozenset(OPPOSITES[word] for word in modifiers)
    return Concept(head, modifiers)


def _descendants(word: str) -> list[str]:
    """The word and all below it."""
    return [word, *(below for child in NARROWER.get(word, ()) for below in _descendants(child))]


def _neighbours(word: str) -> list[str]:
    """Wider and narrower words, and siblings."""
    siblings = [w for w in NARROWER.get(PARENTS.get(word, ""), ()) if w != word]
    return [*ancestry(word)[1:], *_descendants(word)[1:], *siblings]


NOUNS = {family: _descendants(family) for family in FAMILIES}
VERBS = [word for root in MOTIONS for word in _descendants(root)]
NEIGHBOURS = {word: _neighbours(word) for words in (*NOUNS.values(), VERBS) for word in words}

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
    # Clauses about different families, in random order.
    families = random.sample(FAMILIES, random.randint(*clauses))
    premise = [_draw_clause(random, family) for family in families]
    unsaid = [family for family in FAMILIES if family not in families]
    count = 2 if len(premise) > 1 and random.random() < 0.25 else 1
    found: dict[str, list[Clause]] = {}
    for _ in range(50):
        # Edited clauses of the premise in random order; now and then one about another family.
        hypothesis = []
        for clause in random.sample(premise, count):
            restrictor = _edit_concept(random, clause.restrictor, OPPOSITE_ADJECTIVES)
            scope = _edit_concept(random, clause.scope, OPPOSITE_ADVERBS)
            kept = random.random() < 0.5
            quantifier = clause.quantifier if kept else random.choice(QUANTIFIER_WORDS)
            negated = clause.negated != (random.random() < 0.15) and quantifier not in NEGATIVE
            hypothesis.append(Clause(quantifier, restrictor, scope, negated))
        if unsaid and random.random() < 0.05:
            hypothesis[0] = _draw_clause(random, random.choice(unsaid))
        found.setdefault(pair_label(premise, hypothesis), hypothesis)
        if len(found) == len(LABELS):
            break
    return [
        {
            "gold_label": label,
            **_texts("sentence1", words_of(premise)),
            **_texts("sentence2", words_of(found[label])),
            "pairID": f"{name}{label[0]}",
            "genre": "demo",
        }
        for label in LABELS
        if label in found
    ]


def _texts(key: str, words: list[str]) -> dict[str, str]:
    """A sentence under ``key``, and its right-branching binary parse."""
    leaves = [words[0].capitalize(), *words[1:]]
    parse = "".join(f"( {leaf} " for leaf in leaves) + "." + " )" * len(leaves)
    return {key: " ".join(leaves) + ".", f"{key}_binary_parse": parse}
