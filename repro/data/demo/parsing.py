"""Demo treebanks of dependency parsing, in the layout of Universal Dependencies.

A small dependency grammar has agreement, partly free word order and ambiguous attachment.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from repro.data.files import write_if_changed
from repro.errors import DataError

SYLLABLE = ("bdfgklnprstv", "aeiou")
GENDERS = ("a", "o")
NUMBERS = ("", "ri")
OBJECT_CASE = "m"
EXTRAPOSED = 0.2
FRONTED_OBJECT = 0.2


@dataclass(frozen=True)
class Lexicon:
    """Words of a language, in each list the most frequent first.

    Attributes:
        verbs: verbs, each with its preference from 0 to 1 for governing an adpositional phrase.
        adpositions: adpositions, each with the preference of its phrase for a noun as the head.
    """

    nouns: tuple[str, ...]
    names: tuple[str, ...]
    verbs: dict[str, float]
    adjectives: tuple[str, ...]
    adverbs: tuple[str, ...]
    adpositions: dict[str, float]
    conjunction: str
    complementizer: str


@dataclass(eq=False)
class Node:
    """Word with its dependents before and after it; an empty ``lemma`` stands for the form."""

    form: str
    upos: str
    deprel: str
    lemma: str = ""
    before: list["Node"] = field(default_factory=list)
    after: list["Node"] = field(default_factory=list)

    def linear(self) -> Iterator["Node"]:
        """Yield the words of the phrase from left to right."""
        for node in self.before:
            yield from node.linear()
        yield self
        for node in self.after:
            yield from node.linear()


def build_lexicon(random: Random) -> Lexicon:
    """Draw the words of a language, all distinct."""
    taken: set[str] = set()

    def invent(count: int, syllables: int) -> tuple[str, ...]:
        words: list[str] = []
        while len(words) < count:
            word = "".join(random.choice(kind) for _ in range(syllables) for kind in SYLLABLE)
            if word not in taken:
                taken.add(word)
                words.append(word)
        return tuple(words)

    adpositions, verbs = invent(5, 1), invent(20, 2)
    return Lexicon(
        nouns=invent(40, 2),
        names=tuple(name.capitalize() for name in invent(10, 3)),
        adjectives=invent(15, 2),
        adverbs=invent(6, 3),
        adpositions=dict(zip(adpositions, (0.95, 0.75, 0.5, 0.25, 0.05), strict=True)),
        conjunction=invent(1, 1)[0],
        complementizer=invent(1, 1)[0],
        verbs={verb: random.choice((0.1, 0.5, 0.9)) for verb in verbs},
    )


class Grammar:
    """Grammar that draws sentences at random.

    If ``head_final``, verbs, adpositions and nouns with adjectives follow their dependents; else
    they precede them.
    """

    def __init__(self, lexicon: Lexicon, random: Random, head_final: bool) -> None:
        self.lexicon, self.random, self.head_final = lexicon, random, head_final

    def sentence(self) -> list[Node]:
        """Draw a sentence and return its words in order, with a full stop below the main verb."""
        verb = self._clause("root")
        words = list(verb.linear())
        phrases = [node for node in words if node.deprel == "nmod"]
        if phrases and self._chance(EXTRAPOSED):
            # Extrapose a phrase that modifies a noun to the end, so that its arc crosses others.
            moved = list(phrases[0].linear())
            words = [node for node in words if node not in moved] + moved
        stop = Node(".", "PUNCT", "punct")
        verb.after.append(stop)
        return [*words, stop]

    def _clause(self, deprel: str) -> Node:
        lemma = self._frequent(self.lexicon.verbs)
        subject, plural = self._noun_phrase("nsubj")
        verb = Node(lemma + NUMBERS[plural], "VERB", deprel, lemma)
        complements = []
        if self._chance(0.8):
            if deprel == "root" and self._chance(0.15):
                clause = self._clause("ccomp")
                mark = Node(self.lexicon.complementizer, "SCONJ", "mark")
                complements = [self._marked(clause, mark)]
            else:
                complements = [self._noun_phrase("obj")[0]]
        if self._chance(0.3):
            complements.append(Node(self._frequent(self.lexicon.adverbs), "ADV", "advmod"))
        # Objects may come first: their case distinguishes them from subjects.
        has_object = bool(complements) and complements[0].deprel == "obj"
        front = complements[:1] if has_object and self._chance(FRONTED_OBJECT) else []
        rest = complements[len(front) :]
        verb.before = [*front, subject, *(reversed(rest) if self.head_final else [])]
        verb.after = [] if self.head_final else rest
        if not self._chance(0.6):
            return verb
        # An adpositional phrase next to the object; either the verb or the noun is its head.
        objects = [node for node in complements if node.upos == "NOUN"]
        adposition = self._frequent(self.lexicon.adpositions)
        phrase, _ = self._noun_phrase("obl")
        self._marked(phrase, Node(adposition, "ADP", "case"))
        noun_share, verb_share = self.lexicon.adpositions[adposition], self.lexicon.verbs[lemma]
        of_noun = noun_share * (1 - verb_share)
        of_verb = (1 - noun_share) * verb_share
        head = verb
        if objects and self.random.random() * (of_noun + of_verb) < of_noun:
            head, phrase.deprel = objects[0], "nmod"
        # The position does not reveal the head.
        if not self.head_final:
            head.after.append(phrase)
        elif head is verb:
            verb.before.insert(verb.before.index(subject) + 1, phrase)
        else:
            head.before.insert(0, phrase)
        return verb

    def _noun_phrase(self, deprel: str) -> tuple[Node, int]:
        """Draw a noun phrase; return its noun and whether that is plural."""
        if self._chance(0.15):
            return Node(self._frequent(self.lexicon.names), "PROPN", deprel), 0
        plural = int(self._chance(0.4))
        lemma = self._frequent(self.lexicon.nouns)
        ending = GENDERS[self.lexicon.nouns.index(lemma) % 2] + NUMBERS[plural]
        case = OBJECT_CASE if deprel == "obj" else ""
        noun = Node(lemma + ending + case, "NOUN", deprel, lemma)
        side = noun.before if self.head_final else noun.after
        if self._chance(0.35):
            adjective = self._frequent(self.lexicon.adjectives)
            side.append(Node(adjective + ending, "ADJ", "amod", adjective))
        if plural and self._chance(0.3):
            noun.before.insert(0, Node(str(self.random.randint(2, 30)), "NUM", "nummod"))
        if self._chance(0.12):
            name = self._frequent(self.lexicon.names)
            conjunction = Node(self.lexicon.conjunction, "CCONJ", "cc")
            noun.after.append(Node(name, "PROPN", "conj", before=[conjunction]))
        return noun, plural

    def _marked(self, phrase: Node, mark: Node) -> Node:
        """Add a mark at the outer edge of a phrase, on the side of heads; return the phrase."""
        if self.head_final:
            phrase.after.append(mark)
        else:
            phrase.before.insert(0, mark)
        return phrase

    def _chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def _frequent(self, words: Iterable[str]) -> str:
        """Draw a word; the first ones are more likely, as in Zipf's law."""
        choices = tuple(words)
        weights = [1 / (rank + 2) for rank in range(len(choices))]
        return self.random.choices(choices, weights)[0]


HEAD_FINAL = {"UD_Demo-Initial": False, "UD_Demo-Final": True}
SIZES = {"train": 300, "dev": 80, "test": 80}


def write_demo_treebank(data_dir: Path, release: str, treebank: str, seed: int = 2018) -> None:
    """Write one synthetic treebank under ``data_dir/ud-treebanks-v<release>/<treebank>``.

    Args:
        data_dir: folder that the reader takes as its ``data_dir``.
        release: part of the folder's name.
        treebank: ``"UD_Demo-Initial"`` (heads precede their dependents) or ``"UD_Demo-Final"``.
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
    """Return the text of every split; no sentence occurs twice."""
    random = Random(f"{seed} {treebank}")
    grammar = Grammar(build_lexicon(random), random, HEAD_FINAL[treebank])
    seen: set[str] = set()
    texts = {}
    for split, size in SIZES.items():
        blocks: list[str] = []
        while len(blocks) < size:
            words = grammar.sentence()
            text = " ".join(node.form for node in words)
            if text in seen:
                continue
            seen.add(text)
            heads = {  # by child; the word below the root is in no list of children
                id(child): place
                for place, node in enumerate(words, start=1)
                for child in (*node.before, *node.after)
            }
            lines = [f"# sent_id = {split}-{len(blocks) + 1}", f"# text = {text}"]
            for place, node in enumerate(words, start=1):
                word = (place, node.form, node.lemma or node.form, node.upos, "_", "_")
                arc = (heads.get(id(node), 0), node.deprel, "_", "_")
                lines.append("\t".join(map(str, (*word, *arc))))
            blocks.append("\n".join(lines) + "\n\n")
        texts[split] = "".join(blocks)
    return texts
