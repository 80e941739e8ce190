"""Demo corpora of natural language inference, in the layouts of SNLI and MultiNLI.

A premise is a conjunction of clauses about different families of things; hypotheses restate some of
them, edited and in any order. A clause says that a quantity of a class does something, or does not.
Labels follow from natural logic: classes and actions are trees of words, siblings exclude each
other, modifiers restrict, opposite modifiers exclude each other. Every class that a pair names has
members, so that *every* implies *some*. A model must align words: the label depends on which
adjective, verb or number belongs to which noun.

References:
    MacCartney and Manning (2009), An extended model of natural logic: the quantifier decides
    whether replacing a word by a wider or by a narrower one preserves truth.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Literal, NamedTuple

from repro.data.corpora.inference import LABELS, MULTINLI, SNLI, SentencePairs
from repro.data.files import write_if_changed

Pairs = Sequence[tuple[str, str]]
Quantity = Literal["every", "most", "half", 1, 2, 3]

NARROWER: Mapping[str, tuple[str, ...]] = {
    "animal": ("dog", "horse"),
    "dog": ("poodle", "beagle"),
    "horse": ("pony", "stallion"),
    "human": ("adult", "kid"),
    "adult": ("father", "mother"),
    "kid": ("boy", "girl"),
    "vehicle": ("car", "boat"),
    "car": ("taxi", "limousine"),
    "boat": ("canoe", "yacht"),
    "move": ("advance", "turn"),
    "advance": ("race", "creep"),
    "turn": ("swerve", "spin"),
    "halt": ("wait", "stall"),
}
"""Classes, then actions, each with its direct subclasses."""
FAMILIES, MOTIONS = ("animal", "human", "vehicle"), ("move", "halt")
"""Roots of the classes and of the actions."""
OPPOSITE_ADJECTIVES = (("small", "big"), ("red", "blue"))
OPPOSITE_ADVERBS = (("slowly", "quickly"), ("quietly", "loudly"))
OPPOSITES = {
    word: other
    for pair in (*OPPOSITE_ADJECTIVES, *OPPOSITE_ADVERBS)
    for word, other in (pair, pair[::-1])
}
PARENTS = {child: parent for parent, children in NARROWER.items() for child in children}


@cache
def ancestry(word: str) -> tuple[str, ...]:
    """Return the word and its ancestors up to the root."""
    return (word, *ancestry(PARENTS[word])) if word in PARENTS else (word,)


@dataclass(frozen=True)
class Concept:
    """Class or action, restricted by all of its modifiers."""

    head: str
    modifiers: frozenset[str]

    @property
    def ordered_modifiers(self) -> list[str]:
        """Modifiers in the order of a sentence."""
        return [word for word in OPPOSITES if word in self.modifiers]

    def within(self, other: "Concept") -> bool:
        """Return whether the lexicon implies that this is a subset of ``other``."""
        return other.head in ancestry(self.head) and other.modifiers <= self.modifiers

    def excludes(self, other: "Concept") -> bool:
        """Return whether the lexicon implies that this and ``other`` are disjoint."""
        nested = other.head in ancestry(self.head) or self.head in ancestry(other.head)
        return not nested or any(OPPOSITES[word] in other.modifiers for word in self.modifiers)


class Fact(NamedTuple):
    """Claim that a quantity of ``restrictor`` is in ``scope`` or, if not ``positive``, is not.

    A number means at least that many, ``"most"`` more than half, ``"half"`` at least half.
    """

    quantity: Quantity
    restrictor: Concept
    scope: Concept
    positive: bool


QUANTIFIERS: Mapping[str, tuple[Quantity, bool]] = {
    "every": ("every", True),
    "no": ("every", False),
    "some": (1, True),
    "not every": (1, False),
    "most": ("most", True),
    "two": (2, True),
    "three": (3, True),
}
"""Quantity of each quantifier, and whether the scope keeps its sign."""
PLURAL = ("most", "two", "three")
NEGATIVE = ("no", "not every")


@dataclass(frozen=True)
class Clause:
    """Clause of a sentence; ``negated`` refers to its verb."""

    quantifier: str
    restrictor: Concept
    scope: Concept
    negated: bool

    @property
    def fact(self) -> Fact:
        """Logical content: *no* and *not every* become a negated scope."""
        quantity, keeps = QUANTIFIERS[self.quantifier]
        return Fact(quantity, self.restrictor, self.scope, keeps != self.negated)

    @property
    def text(self) -> str:
        """Text of the clause: quantifier, adjectives, noun, negation, verb, adverbs."""
        plural = self.quantifier in PLURAL
        noun = self.restrictor.head + ("s" if plural else "")
        verb = self.scope.head + ("" if plural or self.negated else "s")
        negation = ["do" if plural else "does", "not"] if self.negated else []
        adjectives, adverbs = self.restrictor.ordered_modifiers, self.scope.ordered_modifiers
        return " ".join((self.quantifier, *adjectives, noun, *negation, verb, *adverbs))

    @property
    def family(self) -> str:
        """Root of the class of the restrictor."""
        return ancestry(self.restrictor.head)[-1]


def entails(premise: Fact, hypothesis: Fact) -> bool:
    """Return whether ``premise`` entails ``hypothesis``.

    Truth is preserved by a wider scope under every quantity, by a narrower class under *every*, by
    a wider class under numbers, and by neither under *most*.
    """
    if premise.positive and hypothesis.positive:
        implied = premise.scope.within(hypothesis.scope)
    elif premise.positive:
        implied = premise.scope.excludes(hypothesis.scope)
    else:
        implied = not hypothesis.positive and hypothesis.scope.within(premise.scope)
    if not implied:
        return False
    narrower = hypothesis.restrictor.within(premise.restrictor)
    wider = premise.restrictor.within(hypothesis.restrictor)
    have, want = premise.quantity, hypothesis.quantity
    if have == "every":
        return wider or narrower if want == 1 else narrower and not isinstance(want, int)
    if isinstance(want, int):
        return wider and want <= (have if isinstance(have, int) else 1)
    return have == "most" and want in ("most", "half") and narrower and wider


def pair_label(premise: Sequence[Clause], hypothesis: Sequence[Clause]) -> str:
    """Return the label of two conjunctions with at most one clause about each family.

    Families are disjoint, so each clause of the hypothesis depends on at most one clause of the
    premise. One contradicted clause makes a contradiction; entailment needs all clauses entailed.
    """
    said = {clause.family: clause.fact for clause in premise}
    # The quantity of the weakest negated clause that refutes each quantity. *At least two* is false
    # if there are fewer; among single clauses only *none at all* says so.
    quantities: dict[Quantity, Quantity] = {"every": 1, "most": "half"}
    labels = set()
    for clause in hypothesis:
        fact = clause.fact
        quantity = quantities.get(fact.quantity, "every")
        refuted = fact._replace(quantity=quantity, positive=not fact.positive)
        if clause.family in said and entails(said[clause.family], fact):
            labels.add("entailment")
        elif clause.family in said and entails(said[clause.family], refuted):
            labels.add("contradiction")
        else:
            labels.add("neutral")
    if "contradiction" in labels:
        return "contradiction"
    return "entailment" if labels == {"entailment"} else "neutral"


def _draw_clause(random: Random, family: str) -> Clause:
    quantifier = random.choice(tuple(QUANTIFIERS))
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
    """Return the word and all of its descendants."""
    return [word, *(below for child in NARROWER.get(word, ()) for below in _descendants(child))]


def _neighbours(word: str) -> list[str]:
    """Return the ancestors, the descendants and the siblings of a word."""
    siblings = [w for w in NARROWER.get(PARENTS.get(word, ""), ()) if w != word]
    return [*ancestry(word)[1:], *_descendants(word)[1:], *siblings]


NOUNS = {family: _descendants(family) for family in FAMILIES}
VERBS = [word for root in MOTIONS for word in _descendants(root)]
NEIGHBOURS = {word: _neighbours(word) for words in (*NOUNS.values(), VERBS) for word in words}

CLAUSES = {SNLI.name: (1, 2), MULTINLI.name: (2, 3)}
"""Minimum and maximum number of clauses of a premise; a hypothesis has one, sometimes two."""

PREMISES = {"train": 3000, "dev": 200, "test": 200, "dev_matched": 400}
"""Number of premises of each part; each premise has one hypothesis of every label."""


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
        premises: number of premises of each part.
        sources: the corpora to write, each a pure function of ``seed`` and ``premises``.
    """
    for source in sources:
        for part, records in demo_records(source, seed, premises).items():
            text = "".join(json.dumps(record) + "\n" for record in records)
            write_if_changed(Path(data_dir) / source.folder / source.files[part], text.encode())


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
            if len(group) == len(LABELS) and not pairs & seen:
                records += group
                seen |= pairs
        parts[part] = records
    return parts


def _group(random: Random, clauses: tuple[int, int], name: str) -> list[dict[str, str]]:
    """Draw a premise and a hypothesis of each label, or of those labels that fifty draws yield.

    All hypotheses have the same number of clauses, so that their length is hardly informative.
    """
    # Clauses about different families, in random order.
    families = random.sample(FAMILIES, random.randint(*clauses))
    premise = [_draw_clause(random, family) for family in families]
    unsaid = [family for family in FAMILIES if family not in families]
    count = 2 if len(premise) > 1 and random.random() < 0.25 else 1
    found: dict[str, list[Clause]] = {}
    for _ in range(50):
        # Edited clauses of the premise in random order; sometimes one about another family.
        hypothesis = []
        for clause in random.sample(premise, count):
            restrictor = _edit_concept(random, clause.restrictor, OPPOSITE_ADJECTIVES)
            scope = _edit_concept(random, clause.scope, OPPOSITE_ADVERBS)
            kept = random.random() < 0.5
            quantifier = clause.quantifier if kept else random.choice(tuple(QUANTIFIERS))
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
            **_texts("sentence1", premise),
            **_texts("sentence2", found[label]),
            "pairID": f"{name}{label[0]}",
            "genre": "demo",
        }
        for label in LABELS
        if label in found
    ]


def _texts(key: str, clauses: Sequence[Clause]) -> dict[str, str]:
    """Return a sentence under ``key``, and its right-branching binary parse."""
    leaves = " and ".join(clause.text for clause in clauses).capitalize().split()
    parse = "".join(f"( {leaf} " for leaf in leaves) + "." + " )" * len(leaves)
    return {key: " ".join(leaves) + ".", f"{key}_binary_parse": parse}
