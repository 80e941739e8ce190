"""The demo treebanks of dependency parsing, in the layout of Universal Dependencies.

A small dependency grammar has phrases with agreement, free-ish order and ambiguous attachment.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from repro.data.errors import DataError
from repro.data.files import write_if_changed

GENDERS = ("a", "o")
NUMBERS = ("", "ri")
OBJECT_CASE = "m"
EXTRAPOSED = 0.2
FRONTED_OBJECT = 0.2


@dataclass(frozen=True)
class Lexicon:
    """The words of a language; the first of each list are the most frequent.

    Attributes:
        noun_share: for each adposition, how readily its phrase belongs to a noun.
        verb_share: for each verb, how readily it takes such a phrase for itself.
    """

    nouns: tuple[str, ...]
    names: tuple[str, ...]
    verbs: tuple[str, ...]
    adjectives: tuple[str, ...]
    adverbs: tuple[str, ...]
    adpositions: tuple[str, ...]
    conjunction: str
    complementizer: str
    noun_share: dict[str, float]
    verb_share: dict[str, float]


@dataclass(eq=False)
class Node:
    """A word with its dependents, in their order before and after it."""

    form: str
    lemma: str
    upos: str
    deprel: str
    before: list["Node"] = field(default_factory=list)
    after: list["Node"] = field(default_factory=list)

    def linear(self) -> Iterator["Node"]:
        """The words of the phrase from left to right."""
        for node in self.before:
            yield from node.linear()
        yield self
        for node in self.after:
            yield from node.linear()


def build_lexicon(random: Random) -> Lexicon:
    """Invent the words of a language; no two are equal."""
    taken: set[str] = set()

    def syllable() -> str:
        return random.choice("bdfgklnprstv") + random.choice("aeiou")

    def invent(count: int, syllables: int) -> tuple[str, ...]:
        words: list[str] = []
        while len(words) < count:
            word = "".join(syllable() for _ in range(syllables))
            if word not in taken:
                taken.add(word)
                words.append(word)
        return tuple(words)

    adpositions, verbs = invent(5, 1), invent(20, 2)
    shares = [0.95, 0.75, 0.5, 0.25, 0.05]
    return Lexicon(
        nouns=invent(40, 2),
        names=tuple(name.capitalize() for name in invent(10, 3)),
        verbs=verbs,
        adjectives=invent(15, 2),
        adverbs=invent(6, 3),
        adpositions=adpositions,
        conjunction=invent(1, 1)[0],
        complementizer=invent(1, 1)[0],
        noun_share=dict(zip(adpositions, shares, strict=True)),
        verb_share={verb: random.choice((0.1, 0.5, 0.9)) for verb in verbs},
    )


class Grammar:
    """Draws sentences.

    Args:
        lexicon: lexicon of the language.
        random: every choice comes from it.
        head_final: whether heads follow their dependents (verbs, adpositions, nouns with
            adjectives) or before them.
    """

    def __init__(self, lexicon: Lexicon, random: Random, head_final: bool) -> None:
        self.lexicon, self.random, self.head_final = lexicon, random, head_final

    def sentence(self) -> list[Node]:
        """The words of one sentence in their order, with a full stop below the main verb."""
        verb = self._clause("root", depth=0)
        words = list(verb.linear())
        phrases = [node for node in words if node.deprel == "nmod"]
        if phrases and self._chance(EXTRAPOSED):
            # A phrase of a noun moves behind everything else: its arc then crosses others.
            moved = list(phrases[0].linear())
            words = [node for node in words if node not in moved] + moved
        stop = Node(".", ".", "PUNCT", "punct")
        verb.after.append(stop)
        return [*words, stop]

    def _clause(self, deprel: str, depth: int) -> Node:
        lemma = self._frequent(self.lexicon.verbs)
        subject, plural = self._noun_phrase("nsubj")
        verb = Node(lemma + NUMBERS[plural], lemma, "VERB", deprel)
        complements = []
        if self._chance(0.8):
            if depth == 0 and self._chance(0.15):
                marker = self.lexicon.complementizer
                clause = self._clause("ccomp", depth + 1)
                complements = [self._marked(clause, Node(marker, marker, "SCONJ", "mark"))]
            else:
                complements = [self._noun_phrase("obj")[0]]
        if self._chance(0.3):
            adverb = self._frequent(self.lexicon.adverbs)
            complements.append(Node(adverb, adverb, "ADV", "advmod"))
        # Objects may come first: their case tells them from subjects.
        has_object = bool(complements) and complements[0].deprel == "obj"
        front = complements[:1] if has_object and self._chance(FRONTED_OBJECT) else []
        rest = complements[len(front) :]
        verb.before = [*front, subject, *(reversed(rest) if self.head_final else [])]
        verb.after = [] if self.head_final else rest
        if not self._chance(0.6):
            return verb
        # An adpositional phrase next to the object, for which verb and noun compete.
        objects = [node for node in complements if node.upos == "NOUN"]
        adposition = self._frequent(self.lexicon.adpositions)
        phrase, _ = self._noun_phrase("obl")
        self._marked(phrase, Node(adposition, adposition, "ADP", "case"))
        noun_share = self.lexicon.noun_share[adposition]
        verb_share = self.lexicon.verb_share[verb.lemma]
        of_noun = noun_share * (1 - verb_share)
        of_verb = (1 - noun_share) * verb_share
        head = verb
        if objects and self.random.random() * (of_noun + of_verb) < of_noun:
            head, phrase.deprel = objects[0], "nmod"
        # The position is the same whichever the head is.
        if not self.head_final:
            head.after.append(phrase)
        elif head.upos == "VERB":
            place = next(n for n, node in enumerate(head.before) if node.deprel == "nsubj")
            head.before.insert(place + 1, phrase)
        else:
            head.before.insert(0, phrase)
        return verb

    def _noun_phrase(self, deprel: str) -> tuple[Node, int]:
        """A noun with what agrees with it, and whether it is plural."""
        if self._chance(0.15):
            name = self._frequent(self.lexicon.names)
            return Node(name, name, "PROPN", deprel), 0
        plural = int(self._chance(0.4))
        lemma = self._frequent(self.lexicon.nouns)
        ending = GENDERS[self.lexicon.nouns.index(lemma) % 2] + NUMBERS[plural]
        case = OBJECT_CASE if deprel == "obj" else ""
        noun = Node(lemma + ending + case, lemma, "NOUN", deprel)
        side = noun.before if self.head_final else noun.after
        if self._chance(0.35):
            adjective = self._frequent(self.lexicon.adjectives)
            side.append(Node(adjective + ending, adjective, "ADJ", "amod"))
        if plural and self._chance(0.3):
            count = str(self.random.randint(2, 30))
            noun.before.insert(0, Node(count, count, "NUM", "nummod"))
        if self._chance(0.12):
            name, link = self._frequent(self.lexicon.names), self.lexicon.conjunction
            conjunction = Node(link, link, "CCONJ", "cc")
            noun.after.append(Node(name, name, "PROPN", "conj", before=[conjunction]))
        return noun, plural

    def _marked(self, phrase: Node, mark: Node) -> Node:
        """The phrase with a mark at its outer edge, on the side of heads."""
        if self.head_final:
            phrase.after.append(mark)
        else:
            phrase.before.insert(0, mark)
        return phrase

    def _chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def _frequent(self, words: tuple[str, ...]) -> str:
        """A word; the first ones are drawn more often, as in Zipf's law."""
        weights = [1 / (rank + 2) for rank in range(len(words))]
        return self.random.choices(words, weights)[0]


HEAD_FINAL = {"UD_Demo-Initial": False, "UD_Demo-Final": True}
SIZES = {"train": 300, "dev": 80, "test": 80}


def write_demo_treebank(data_dir: Path, release: str, treebank: str, seed: int = 2018) -> None:
    """Write one synthetic treebank under ``data_dir/ud-treebanks-v<release>/<treebank>``.

    Args:
        data_dir: folder that the reader takes as its ``data_dir``.
        release: part of the folder's name.
        treebank: ``"UD_Demo-Initial"`` (heads precede their dependents) or
            ``"UD_Demo-Final"`` (behind them).
        seed: the treebank is a pure function of it and of the name.

    Raises:
        DataError: there is no such synthetic treebank.
    """
    if treebank not in HEAD_FINAL:
        raise DataError(
            f"data.treebank={treebank}: no such demo treebank; choose from: {', '.join(HEAD_FINAL)}"
        )
    folder = Path(data_dir) / f"ud-treebanks-v{release}" / treebank
    code = treebank.removeprefix("UD_").replace("-", "_").lower()
    for split, text in demo_texts(treebank, seed).items():
        write_if_changed(folder / f"{code}-ud-{split}.conllu", text.encode())


def demo_texts(treebank: str, seed: int) -> dict[str, str]:
    """The text of every split; no sentence occurs twice."""
    random = Random(f"{seed} {treebank}")
    grammar = Grammar(build_lexicon(random), random, HEAD_FINAL[treebank])
    seen: set[str] = set()
    texts = {}
    for split, size in SIZES.items():
        blocks: list[str] = []
        while len(blocks) < size:
            words = grammar.sentence()
            text = " ".join(node.form for node in words)
            if text not in seen:
                seen.add(text)
                heads = {  # by child; the word below the root is no child
                    id(child): place
                    for place, node in enumerate(words, start=1)
                    for child in (*node.before, *node.after)
                }
                lines = [f"# sent_id = {split}-{len(blocks) + 1}", f"# text = {text}"]
                for place, node in enumerate(words, start=1):
                    word, head = f"{place}\t{node.form}\t{node.lemma}", heads.get(id(node), 0)
                    lines.append(f"{word}\t{node.upos}\t_\t_\t{head}\t{node.deprel}\t_\t_")
                blocks.append("\n".join(lines) + "\n\n")
        texts[split] = "".join(blocks)
    return texts
