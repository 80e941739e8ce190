"""A parallel corpus of two synthetic languages, made by a synchronous grammar.

It contains on purpose what makes translation hard:

- order: the source puts the verb second and adjectives after nouns, the target puts the verb last
  and adjectives before nouns;
- fertility above one: a compound is one source word and three target words, some verbs are two
  target words that are not adjacent;
- fertility zero: the source marks objects with a word that has no counterpart;
- lists of nouns that may name the same noun again, and words that are said several times for
  emphasis: nothing but the attention tells which of them have been translated;
- lists of validation and test sentences grow longer than those of training sentences, where a
  model that has not learnt what coverage is loses its place: it drops items, or repeats them;
- words of two meanings, told apart by the noun that they follow.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random

from repro.data.corpora.translation import ParallelTexts
from repro.data.files import write_if_changed

SOURCE, TARGET = "orun", "vesti"
"""Names of the languages, which end the file names."""
SIZES = {"train": 800, "val": 100, "test": 200}
DEMO = ParallelTexts(
    name="demo_translation",
    title="generated sentences of two synthetic languages",
    licence="that of this project",
    citation="none",
    folder="",
    languages=(SOURCE, TARGET),
    stems={"train": "train", "dev": "val", "test": "test"},
    tokenised=True,
)
LONGEST_LIST = {"train": 4, "val": 7, "test": 7}

Phrase = tuple[str, str]
"""A word or phrase in both languages."""

_SOURCE_ONSETS, _SOURCE_VOWELS = ("b", "d", "g", "k", "l", "m", "n", "r", "s", "t"), "aou"
_TARGET_ONSETS, _TARGET_VOWELS = ("f", "v", "h", "sk", "pr", "st", "l", "n", "r", "z"), "eiy"
OBJECT_MARK = "ta"
GENITIVE = "yn"
AND = ("mo", "et")
EMPHASIS = ("gura", "prehe")
LINKING_VOWEL = "o"


@dataclass(frozen=True)
class Lexicon:
    """Words of both languages; each list holds pairs of a source word and its translation.

    Attributes:
        nouns: concrete nouns.
        adjectives: they follow the noun in the source and precede it in the target.
        verbs: transitive verbs.
        particle_verbs: source verb, target verb and the particle at the end.
        adverbs: they end the source sentence and begin the target sentence.
        ambiguous: source adjective with two translations: after nouns of the first half of the
            noun list, and after the others.
        compounds: pairs of nouns that make one source word.
    """

    nouns: Sequence[Phrase]
    adjectives: Sequence[Phrase]
    verbs: Sequence[Phrase]
    particle_verbs: Sequence[tuple[str, str, str]]
    adverbs: Sequence[Phrase]
    ambiguous: tuple[str, str, str]
    compounds: Sequence[tuple[Phrase, Phrase]]


def build_lexicon(seed: int) -> Lexicon:
    """Draw the words; a pure function of the seed, all words but one have a single meaning."""
    random = Random(f"{seed} lexicon")

    def words(onsets: Sequence[str], vowels: str, taken: set[str]) -> Iterator[str]:
        """Yield new words of two or three syllables."""
        while True:
            syllables = range(random.choice((2, 2, 3)))
            word = "".join(random.choice(onsets) + random.choice(vowels) for _ in syllables)
            if word not in taken:
                taken.add(word)
                yield word

    source = words(_SOURCE_ONSETS, _SOURCE_VOWELS, {OBJECT_MARK, AND[0], EMPHASIS[0]})
    target = words(_TARGET_ONSETS, _TARGET_VOWELS, {GENITIVE, AND[1], EMPHASIS[1]})
    # Both draw from the same two iterators: no word is used twice.
    pairs, triples = zip(source, target, strict=True), zip(source, target, target, strict=True)
    nouns = list(islice(pairs, 20))
    return Lexicon(
        nouns=nouns,
        adjectives=list(islice(pairs, 8)),
        verbs=list(islice(pairs, 8)),
        particle_verbs=list(islice(triples, 4)),
        adverbs=list(islice(pairs, 4)),
        ambiguous=next(triples),
        compounds=random.sample([(a, b) for a in nouns for b in nouns if a != b], 10),
    )


class Grammar:
    """Draws sentence pairs; a list has two to ``longest`` nouns."""

    def __init__(self, lexicon: Lexicon, random: Random, longest: int) -> None:
        self.lexicon, self.random, self.longest = lexicon, random, longest

    def sentence(self) -> Phrase:
        """Subject, verb and object; in the target the verb and then its particle come last."""
        subject = self._nominal()
        has_particle = self.random.random() < 0.35
        verbs = self.lexicon.particle_verbs if has_particle else self.lexicon.verbs
        verb, *translation = self.random.choice(verbs)
        patient = self._nominal()
        source = f"{subject[0]} {verb} {OBJECT_MARK} {patient[0]}"
        target = " ".join((subject[1], patient[1], *translation))
        if self.random.random() < 0.3:
            adverb, translated = self.random.choice(self.lexicon.adverbs)
            return f"{source} {adverb}", f"{translated} {target}"
        return source, target

    def _nominal(self) -> Phrase:
        """One noun phrase, or a list of two or more, where a noun may be the one before again."""
        if self.random.random() < 0.6:
            return self._noun_phrase()
        items = [self._noun_phrase(plain=True)]
        for _ in range(self.random.randrange(1, self.longest)):
            repeated = self.random.random() < 0.4
            items.append(items[-1] if repeated else self._noun_phrase(plain=True))
        sources, targets = zip(*items, strict=True)
        return f" {AND[0]} ".join(sources), f" {AND[1]} ".join(targets)

    def _noun_phrase(self, plain: bool = False) -> Phrase:
        chance = self.random.random()
        if chance < 0.2:
            # One word, "ship+o+house"; in the target "house GEN ship".
            first, second = self.random.choice(self.lexicon.compounds)
            return first[0] + LINKING_VOWEL + second[0], f"{second[1]} {GENITIVE} {first[1]}"
        number = self.random.randrange(len(self.lexicon.nouns))
        noun = self.lexicon.nouns[number]
        if plain or chance < 0.45:
            return noun
        # An adjective, sometimes emphasised by one to four intensifiers.
        if self.random.random() < 0.25:
            source, one, other = self.lexicon.ambiguous
            target = one if number < len(self.lexicon.nouns) // 2 else other
        else:
            source, target = self.random.choice(self.lexicon.adjectives)
        emphasis = self.random.choice((0, 0, 1, 2, 3, 4))
        ours, theirs = ([word] * emphasis for word in EMPHASIS)
        return " ".join((noun[0], source, *ours)), " ".join((*theirs, target, noun[1]))


def translation_rows(seed: int) -> Mapping[str, list[Phrase]]:
    """Sentence pairs of every split; no source sentence is in two splits."""
    lexicon, random = build_lexicon(seed), Random(f"{seed} sentences")
    distinct: dict[str, str] = {}
    for name, size in SIZES.items():
        grammar, wanted = Grammar(lexicon, random, LONGEST_LIST[name]), len(distinct) + size
        while len(distinct) < wanted:
            distinct.setdefault(*grammar.sentence())
    rows = iter(distinct.items())
    return {name: list(islice(rows, size)) for name, size in SIZES.items()}


def write_translation_demo(folder: Path, seed: int = 2018) -> None:
    """Write ``{train,val,test}.{orun,vesti}`` into a new or present folder, one sentence a line.

    The corpus is a pure function of ``seed``.
    """
    for name, rows in translation_rows(seed).items():
        for language, side in ((SOURCE, 0), (TARGET, 1)):
            text = "".join(f"{row[side]}\n" for row in rows)
            write_if_changed(Path(folder) / f"{name}.{language}", text.encode())
