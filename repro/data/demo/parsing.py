"""Demo treebanks of dependency parsing, in the layout of Universal Dependencies.

A small dependency grammar has agreement, partly free word order and ambiguous attachment.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from random import Random

from repro.data.demo.grammar import distinct_rows, invented
from repro.data.files import write_if_changed
from repro.errors import DataError

GENDERS = ("a", "o")
NUMBERS = ("", "ri")
OBJECT_CASE = "m"
WORDS = {"NOUN": 40, "PROPN": 10, "VERB": 20, "ADJ": 15, "ADV": 6, "ADP": 5, "CCONJ": 1, "SCONJ": 1}
"""Number of words of each part of speech."""


@dataclass(eq=False)
class Node:
    """Word with its dependents before and after it; its form is a lemma with an ending."""

    lemma: str
    upos: str
    deprel: str
    ending: str = ""
    before: list["Node"] = field(default_factory=list)
    after: list["Node"] = field(default_factory=list)

    def linear(self) -> Iterator["Node"]:
        """Yield the words of the phrase from left to right."""
        for node in self.before:
            yield from node.linear()
        yield self
        for node in self.after:
            yield from node.linear()


class Grammar:
    """Grammar that draws sentences at random.

    If ``head_final``, verbs, adpositions and nouns with adjectives follow their dependents; else
    they precede them.
    """

    def __init__(self, random: Random, head_final: bool) -> None:
        self.random, self.head_final = random, head_final
        new = invented(random, (*"bdfgklnprstv",), "aeiou", set())
        self.words = {upos: [*islice(new, count)] for upos, count in WORDS.items()}
        # How much the phrase of an adposition prefers a noun, and a verb governs phrases.
        self.of_noun = dict(zip(self.words["ADP"], (0.95, 0.75, 0.5, 0.25, 0.05), strict=True))
        self.of_verb = {verb: random.choice((0.1, 0.5, 0.9)) for verb in self.words["VERB"]}

    def sentence(self) -> list[Node]:
        """Draw a sentence and return its words in order, with a full stop below the main verb."""
        verb = self._clause("root")
        words = list(verb.linear())
        phrases = [node for node in words if node.deprel == "nmod"]
        if phrases and self._chance(0.2):
            # Extrapose a phrase that modifies a noun to the end, so that its arc crosses others.
            moved = list(phrases[0].linear())
            words = [node for node in words if node not in moved] + moved
        stop = Node(".", "PUNCT", "punct")
        verb.after.append(stop)
        return [*words, stop]

    def _clause(self, deprel: str) -> Node:
        subject = self._noun_phrase("nsubj")
        verb = self._word("VERB", deprel, subject.ending[1:])
        complements = []
        if deprel == "root" and self._chance(0.12):
            complements = [self._marked(self._clause("ccomp"), self._word("SCONJ", "mark"))]
        elif self._chance(0.8):
            complements = [self._noun_phrase("obj")]
        objects = [node for node in complements if node.deprel == "obj"]
        if self._chance(0.3):
            complements.append(self._word("ADV", "advmod"))
        # Objects may come first: their case distinguishes them from subjects.
        front = objects if self._chance(0.2) else []
        rest = complements[len(front) :]
        verb.before = [*front, subject, *(reversed(rest) if self.head_final else [])]
        verb.after = [] if self.head_final else rest
        if self._chance(0.6):
            self._attach_phrase(verb, subject, [one for one in objects if one.upos == "NOUN"])
        return verb

    def _attach_phrase(self, verb: Node, subject: Node, objects: list[Node]) -> None:
        """Put an adpositional phrase next to the object; either the verb or the noun is its head.

        Its position does not reveal the head.
        """
        adposition = self._word("ADP", "case")
        phrase = self._marked(self._noun_phrase("obl"), adposition)
        noun_share, verb_share = self.of_noun[adposition.lemma], self.of_verb[verb.lemma]
        of_noun, of_verb = noun_share * (1 - verb_share), (1 - noun_share) * verb_share
        head = verb
        if objects and self._chance(of_noun / (of_noun + of_verb)):
            head, phrase.deprel = objects[0], "nmod"
        if not self.head_final:
            head.after.append(phrase)
        elif head is verb:
            verb.before.insert(verb.before.index(subject) + 1, phrase)
        else:
            head.before.insert(0, phrase)

    def _noun_phrase(self, deprel: str) -> Node:
        """Draw a name, or a noun with an ending for gender, number and, of objects, case."""
        if self._chance(0.15):
            return self._word("PROPN", deprel)
        noun, plural = self._word("NOUN", deprel), self._chance(0.4)
        agreement = GENDERS[self.words["NOUN"].index(noun.lemma) % 2] + NUMBERS[plural]
        noun.ending = agreement + OBJECT_CASE * (deprel == "obj")
        if self._chance(0.35):
            side = noun.before if self.head_final else noun.after
            side.append(self._word("ADJ", "amod", agreement))
        if plural and self._chance(0.3):
            noun.before.insert(0, Node(str(self.random.randint(2, 30)), "NUM", "nummod"))
        if self._chance(0.12):
            name = self._word("PROPN", "conj")
            name.before = [self._word("CCONJ", "cc")]
            noun.after.append(name)
        return noun

    def _marked(self, phrase: Node, mark: Node) -> Node:
        """Add a mark at the outer edge of a phrase, on the side of heads; return the phrase."""
        phrase.after.append(mark) if self.head_final else phrase.before.insert(0, mark)
        return phrase

    def _chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def _word(self, upos: str, deprel: str, ending: str = "") -> Node:
        """Draw a word; the first ones are more likely, as in Zipf's law."""
        choices = self.words[upos]
        weights = [1 / (rank + 2) for rank in range(len(choices))]
        return Node(self.random.choices(choices, weights)[0], upos, deprel, ending)


HEAD_FINAL = {"UD_Demo-Initial": False, "UD_Demo-Final": True}
SIZES = {"train": 300, "dev": 80, "test": 80}


def write_demo_treebank(data_dir: Path, release: str, treebank: str, seed: int = 2018) -> None:
    """Write one synthetic treebank under ``data_dir/ud-treebanks-v<release>/<treebank>``.

    ``treebank`` is ``"UD_Demo-Initial"`` (heads precede their dependents) or ``"UD_Demo-Final"``.
    The text is a pure function of ``seed`` and that name.

    Raises:
        DataError: there is no such synthetic treebank.
    """
    if treebank not in HEAD_FINAL:
        raise DataError(
            f"data.treebank={treebank}: no such demo treebank; choose from: {', '.join(HEAD_FINAL)}"
        )
    folder = data_dir / f"ud-treebanks-v{release}" / treebank
    code = treebank.removeprefix("UD_").replace("-", "_").lower()
    for split, text in demo_texts(treebank, seed).items():
        write_if_changed(folder / f"{code}-ud-{split}.conllu", text.encode())


def demo_texts(treebank: str, seed: int) -> dict[str, str]:
    """Return the text of every split; no sentence occurs twice."""
    random = Random(f"{seed} {treebank}")
    grammar = Grammar(random, HEAD_FINAL[treebank])

    def drawn(_: str) -> tuple[str, str]:
        """Return the text of a sentence and the lines of its words."""
        words = grammar.sentence()
        heads = {  # by child; the word below the root is in no list of children
            id(child): place
            for place, node in enumerate(words, start=1)
            for child in (*node.before, *node.after)
        }
        lines = (
            f"{place}\t{node.lemma}{node.ending}\t{node.lemma}\t{node.upos}\t_\t_\t"
            f"{heads.get(id(node), 0)}\t{node.deprel}\t_\t_\n"
            for place, node in enumerate(words, start=1)
        )
        return " ".join(node.lemma + node.ending for node in words), "".join(lines)

    return {
        split: "".join(
            f"# sent_id = {split}-{number}\n# text = {text}\n{lines}\n"
            for number, (text, lines) in enumerate(rows, start=1)
        )
        for split, rows in distinct_rows(SIZES, drawn).items()
    }
