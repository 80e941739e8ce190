"""Natural logic for the synthetic inference pairs: which clause follows from which.

A clause says that a quantity of a class does something, or does not. Classes and actions are
trees of words, siblings exclude each other, modifiers restrict, opposite modifiers exclude each
other. Every class that a pair names has members, so that *every* implies *some*.

References:
    MacCartney and Manning (2009), An extended model of natural logic: replacing a word by a
    wider or narrower one keeps the truth in the direction that the quantifier allows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

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
"""Classes, then actions, with what is directly below them."""
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
    """The word, its parent, and so on to the root."""
    return (word, *ancestry(PARENTS[word])) if word in PARENTS else (word,)


@dataclass(frozen=True)
class Concept:
    """Members of a class, or instances of an action, to which all modifiers apply."""

    head: str
    modifiers: frozenset[str]

    def within(self, other: "Concept") -> bool:
        """Return whether the lexicon makes this a part of ``other``."""
        return other.head in ancestry(self.head) and other.modifiers <= self.modifiers

    def excludes(self, other: "Concept") -> bool:
        """Return whether the lexicon lets nothing be both."""
        nested = other.head in ancestry(self.head) or self.head in ancestry(other.head)
        return not nested or any(OPPOSITES[word] in other.modifiers for word in self.modifiers)


@dataclass(frozen=True)
class Fact:
    """A quantity of ``restrictor`` that is, or where not ``positive`` is not, in ``scope``.

    Numbers mean at least so many, ``"most"`` more than half, ``"half"`` half or more.
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
"""Quantifier to quantity, and whether the scope keeps its sign."""


@dataclass(frozen=True)
class Clause:
    """One statement of a sentence; ``negated`` where its verb is."""

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
    def family(self) -> str:
        """The root of its class."""
        return ancestry(self.restrictor.head)[-1]


def entails(premise: Fact, hypothesis: Fact) -> bool:
    """Return whether ``hypothesis`` holds wherever ``premise`` does.

    Every quantity allows a wider scope. *Every* allows a narrower class, numbers a wider one,
    *most* neither.
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
    """Label of two conjunctions with at most one clause about each family.

    Families share no members, so each clause of the hypothesis depends on at most one clause of
    the premise. One contradicted clause contradicts all; all must follow for the whole to follow.
    """
    said = {clause.family: clause.fact for clause in premise}
    # The weakest statement about one quantity that makes another false. *At least two* is false
    # where fewer are, which no single clause says but *none at all*.
    quantities: dict[Quantity, Quantity] = {"every": 1, "most": "half"}
    labels = set()
    for clause in hypothesis:
        fact = clause.fact
        quantity = quantities.get(fact.quantity, "every")
        refuted = Fact(quantity, fact.restrictor, fact.scope, not fact.positive)
        if clause.family in said and entails(said[clause.family], fact):
            labels.add("entailment")
        elif clause.family in said and entails(said[clause.family], refuted):
            labels.add("contradiction")
        else:
            labels.add("neutral")
    if "contradiction" in labels:
        return "contradiction"
    return "entailment" if labels == {"entailment"} else "neutral"
