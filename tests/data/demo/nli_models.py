"""Oracle for the inference pairs: reads the sentences and asks whether a model makes them true.

Nothing of the generator is used, neither its lexicon nor its rules. A model says how many
individuals there are of every kind; a kind is a consistent choice among the words that a pair
uses of one family. Each clause, and the denial of each clause, is a linear inequality in these
counts, so an integer program decides whether a model exists.
"""

from itertools import product
from typing import NamedTuple

import numpy as np
from scipy.optimize import LinearConstraint, milp

BELOW = {
    "dog": "animal", "horse": "animal", "poodle": "dog", "beagle": "dog", "pony": "horse",
    "stallion": "horse", "adult": "human", "kid": "human", "father": "adult", "mother": "adult",
    "boy": "kid", "girl": "kid", "car": "vehicle", "boat": "vehicle", "taxi": "car",
    "limousine": "car", "canoe": "boat", "yacht": "boat", "advance": "move", "turn": "move",
    "race": "advance", "creep": "advance", "swerve": "turn", "spin": "turn", "wait": "halt",
    "stall": "halt",
}  # fmt: skip
"""Word to the next wider one; two words, neither below the other, exclude each other."""

EXCLUSIVE = [("small", "big"), ("red", "blue"), ("slowly", "quickly"), ("quietly", "loudly")]
NOUN_ROOTS, VERB_ROOTS = {"animal", "human", "vehicle"}, {"move", "halt"}
ADJECTIVES = {"small", "big", "red", "blue"}
ADVERBS = {"slowly", "quickly", "quietly", "loudly"}


class Statement(NamedTuple):
    """``quantifier`` of the things with all of ``subject`` have all of ``action``, or not."""

    quantifier: str
    subject: frozenset[str]
    action: frozenset[str]
    negated: bool


def is_below(word: str, wider: str) -> bool:
    return word == wider or (word in BELOW and is_below(BELOW[word], wider))


def root(word: str) -> str:
    return root(BELOW[word]) if word in BELOW else word


def lemma(word: str) -> str:
    known = {*BELOW, *NOUN_ROOTS, *VERB_ROOTS, *ADJECTIVES, *ADVERBS}
    return word if word in known else word.removesuffix("s")


def read(sentence: str) -> list[Statement]:
    """The clauses of a sentence."""
    text = sentence.lower().removesuffix(".")
    return [read_clause(clause.split()) for clause in text.split(" and ")]


def read_clause(words: list[str]) -> Statement:
    quantifier = " ".join(words[: 2 if words[0] == "not" else 1])
    rest = [lemma(word) for word in words[len(quantifier.split()) :]]
    subject = frozenset(w for w in rest if w in ADJECTIVES or root(w) in NOUN_ROOTS)
    action = frozenset(w for w in rest if w in ADVERBS or root(w) in VERB_ROOTS)
    assert {*rest} - subject - action <= {"do", "doe", "not"}, words
    return Statement(quantifier, subject, action, "not" in rest)


def label(premise: str, hypothesis: str) -> str:
    """Entailment where no model falsifies, contradiction where none satisfies, else neutral."""
    given, wanted = read(premise), read(hypothesis)
    kinds = Kinds([*given, *wanted])
    facts = [kinds.inequality(statement) for statement in given]
    claims = [kinds.inequality(statement) for statement in wanted]
    assert kinds.satisfiable(facts), premise
    if not kinds.satisfiable(facts + claims):
        return "contradiction"
    if any(kinds.satisfiable([*facts, (-row, 1 - least)]) for row, least in claims):
        return "neutral"
    return "entailment"


def consistent(kind: frozenset[str], words: set[str]) -> bool:
    """Return whether the lexicon allows a thing with exactly these of the used words."""
    closed = all(w in kind for narrow in kind for w in words if is_below(narrow, w))
    clash = any(
        a != b and not is_below(a, b) and not is_below(b, a)
        for roots in (NOUN_ROOTS, VERB_ROOTS)
        for a, b in product([w for w in kind if root(w) in roots], repeat=2)
    )
    return closed and not clash and not any({*pair} <= kind for pair in EXCLUSIVE)


class Kinds:
    """The kinds of things that a pair can tell apart."""

    def __init__(self, statements: list[Statement]) -> None:
        self.kinds: list[frozenset[str]] = []
        families = {family(s): set() for s in statements}
        for statement in statements:
            families[family(statement)] |= statement.subject | statement.action
        for name, words in families.items():
            for chosen in product([False, True], repeat=len(words)):
                kind = frozenset(w for w, yes in zip(sorted(words), chosen, strict=True) if yes)
                if consistent(kind, words):
                    self.kinds.append(kind | {f"of {name}"})
        self.presupposed = [self.members(s.subject | {f"of {family(s)}"}) for s in statements]

    def members(self, words: frozenset[str]) -> np.ndarray:
        """Mark the kinds that have all of the words by one."""
        return np.array([words <= kind for kind in self.kinds], dtype=float)

    def inequality(self, statement: Statement) -> tuple[np.ndarray, int]:
        """Integers ``(row, least)``: true in the models whose counts have ``row @ x >= least``."""
        subject = self.members(statement.subject | {f"of {family(statement)}"})
        has = subject * self.members(statement.action)
        yes, no = (subject - has, has) if statement.negated else (has, subject - has)
        return {
            "every": (-no, 0),
            "not every": (no, 1),
            "no": (-yes, 0),
            "some": (yes, 1),
            "most": (yes - no, 1),
            "two": (yes, 2),
            "three": (yes, 3),
        }[statement.quantifier]

    def satisfiable(self, inequalities: list[tuple[np.ndarray, int]]) -> bool:
        """Return whether counts meet all facts, with members in every subject of the pair."""
        rows = [row for row, _ in inequalities] + self.presupposed
        least = [bound for _, bound in inequalities] + [1] * len(self.presupposed)
        constraint = LinearConstraint(np.stack(rows), lb=np.array(least, dtype=float))
        size = len(self.kinds)
        found = milp(np.zeros(size), integrality=np.ones(size), constraints=constraint)
        assert found.status in (0, 2), found.message
        return bool(found.status == 0)


def family(statement: Statement) -> str:
    (name,) = {root(word) for word in statement.subject} & NOUN_ROOTS
    return name
