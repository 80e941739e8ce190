"""The invented inference pairs: random clauses, edited clauses, and their wording."""

from collections.abc import Mapping, Sequence
from random import Random

from repro.data.demo.nli_logic import (
    ACTIONS,
    CLASSES,
    FAMILIES,
    OPPOSITE_ADJECTIVES,
    OPPOSITE_ADVERBS,
    OPPOSITES,
    PARENTS,
    QUANTIFIERS,
    Clause,
    Concept,
    Tree,
    ancestry,
)

Pairs = Sequence[tuple[str, str]]
PLURAL = ("most", "two", "three")
NEGATIVE = ("no", "not every")
QUANTIFIER_WORDS = tuple(QUANTIFIERS)


def draw_premise(random: Random, clauses: int) -> list[Clause]:
    """Clauses about different families, in random order."""
    return [_draw_clause(random, family) for family in random.sample(FAMILIES, clauses)]


def draw_hypothesis(random: Random, premise: Sequence[Clause], clauses: int) -> list[Clause]:
    """Edited clauses of the premise in random order; now and then one about another family."""
    chosen = [_edit(random, clause) for clause in random.sample(list(premise), clauses)]
    unsaid = [family for family in FAMILIES if family not in {c.family for c in premise}]
    if unsaid and random.random() < 0.05:
        chosen[0] = _draw_clause(random, random.choice(unsaid))
    return chosen


def words_of(clauses: Sequence[Clause]) -> list[str]:
    """The sentence as words, lower-cased, without the full stop."""
    words = clause_words(clauses[0])
    for clause in clauses[1:]:
        words += ["and", *clause_words(clause)]
    return words


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


def _edit(random: Random, clause: Clause) -> Clause:
    """Change a clause in up to four places."""
    restrictor = _edit_concept(random, clause.restrictor, NOUN_NEIGHBOURS, OPPOSITE_ADJECTIVES)
    scope = _edit_concept(random, clause.scope, VERB_NEIGHBOURS, OPPOSITE_ADVERBS)
    kept = random.random() < 0.5
    quantifier = clause.quantifier if kept else random.choice(QUANTIFIER_WORDS)
    negated = clause.negated != (random.random() < 0.15)
    return Clause(quantifier, restrictor, scope, negated and quantifier not in NEGATIVE)


def _edit_concept(
    random: Random, concept: Concept, neighbours: Mapping[str, Sequence[str]], pairs: Pairs
) -> Concept:
    head, modifiers = concept.head, concept.modifiers
    if random.random() < 0.5:
        head = random.choice(neighbours[head])
    if random.random() < 0.4:
        modifiers = _edit_modifiers(random, modifiers, pairs)
    return Concept(head, modifiers)


def _edit_modifiers(random: Random, modifiers: frozenset[str], pairs: Pairs) -> frozenset[str]:
    """Add, drop or turn into its opposite."""
    if not modifiers:
        return frozenset([random.choice(random.choice(pairs))])
    if random.random() < 0.6:
        return frozenset()
    return frozenset(OPPOSITES[word] for word in modifiers)


def _descendants(tree: Tree, word: str) -> list[str]:
    """The word and all below it."""
    return [word, *(below for child in tree.get(word, ()) for below in _descendants(tree, child))]


def _neighbours(tree: Tree, word: str) -> list[str]:
    """Wider and narrower words, and siblings."""
    siblings = [w for w in tree.get(PARENTS.get(word, ""), ()) if w != word]
    return [*ancestry(word)[1:], *_descendants(tree, word)[1:], *siblings]


NOUNS = {family: _descendants(CLASSES, family) for family in FAMILIES}
VERBS = [word for root in ("move", "halt") for word in _descendants(ACTIONS, root)]
NOUN_NEIGHBOURS = {word: _neighbours(CLASSES, word) for words in NOUNS.values() for word in words}
VERB_NEIGHBOURS = {word: _neighbours(ACTIONS, word) for word in VERBS}
