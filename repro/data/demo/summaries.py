"""Corpus of synthetic news sentences and their titles, in the layout ``sumdata``.

An article says who does what to which object, where, when and why, in one of several orders, and
often adds a subordinate clause about another event. Its title keeps the actor, the deed and its
object, shortened by fixed rules: a long name to its last words, a deed to the present tense.
Positions do not mark the important words, and the other clause has words of the same kind, so that
attention has to find the right ones. There are many names, each of them rare. What else a title
says often, but not always, follows from the quality of the object: no model can predict every
title, and lengths differ.
"""

from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from random import Random
from typing import NamedTuple

from repro.data.files import write_if_changed

SIZES = {"train": 800, "dev": 80, "test": 90, "test_duc2004": 30}
REFERENCES = 4

FIRST = ("north", "south", "united", "royal", "first", "new", "grand", "old")
PLACES = ("avaro", "belmont", "corvia", "dunmar", "estrel", "farrow", "galdin", "hestra")
_HEADS = ["bren", "cor", "dal", "fen", "gra", "hol", "jas", "kel"]
_TAILS = ["bach", "dine", "fold", "gate", "mond", "nell", "rick", "stad"]
NAMES = tuple(head + tail for head in _HEADS for tail in _TAILS)
BODIES = ("council", "bank", "union", "company", "ministry", "court", "institute", "guild")
DEEDS = {
    "announced": "announces", "cancelled": "cancels", "approved": "approves",
    "rejected": "rejects", "delayed": "delays", "expanded": "expands", "closed": "closes",
    "reopened": "reopens",
}  # fmt: skip
QUALITIES = ("large", "costly", "disputed", "secret", "popular", "ambitious", "risky", "modest")
OBJECTS = ("bridge", "merger", "budget", "tunnel", "reform", "strike", "harbour", "treaty",
           "festival", "inquiry")  # fmt: skip
DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday")
REASONS = ("heavy storms", "falling prices", "public pressure", "a lack of staff", "rising demand",
           "a legal dispute")  # fmt: skip
SPEAKERS = ("a spokesman", "two officials", "local papers", "its president", "an adviser")
FORMS = 4
"""Number of forms of titles, which differ in length."""
ACCOMPANIED = 0.4
"""Share of articles with a clause about another event."""
USUAL = 0.5
"""Probability that the quality of the object determines the form of a title; else it is random."""


PARTS = (FIRST, NAMES, BODIES, tuple(DEEDS), QUALITIES, OBJECTS, PLACES, DAYS, REASONS, SPEAKERS)
"""Choices for each field of an :class:`Event`."""


class Event(NamedTuple):
    """Event that an article reports; the actor is a body with two names."""

    first: str
    name: str
    body: str
    deed: str
    quality: str
    thing: str
    place: str
    day: str
    reason: str
    speaker: str

    def article(self, random: Random) -> str:
        """Return the event as a sentence with its parts in random order."""
        deed, place, day, reason, speaker = (
            self.deed,
            self.place,
            self.day,
            self.reason,
            self.speaker,
        )
        actor, thing = f"the {self.first} {self.name} {self.body}", f"a {self.quality} {self.thing}"
        orders = (
            f"{actor} {deed} {thing} in {place} on {day} because of {reason} , {speaker} said .",
            f"because of {reason} , {actor} on {day} {deed} {thing} in {place} , according to "
            f"{speaker} .",
            f"{speaker} said on {day} that {actor} , hit by {reason} , had {deed} {thing} in "
            f"{place} .",
            f"in {place} , {thing} was {deed} by {actor} on {day} , {speaker} said , blaming "
            f"{reason} .",
        )
        return random.choice(orders)

    def clause(self) -> str:
        """Return the event as a clause of actor, deed and object."""
        return f"the {self.first} {self.name} {self.body} {self.deed} a {self.quality} {self.thing}"

    def titles(self, random: Random) -> tuple[str, ...]:
        """Return four plausible titles; the first has one of :data:`FORMS` forms."""
        deed = f"{self.body} {DEEDS[self.deed]}"
        what = f"{self.name} {deed} {self.quality} {self.thing}"
        where = f"{what} in {self.place}"
        forms = (
            f"{self.name} {deed} {self.thing}",
            what,
            where,
            f"{where} on {self.day} , blaming {self.reason}",
        )
        usual = QUALITIES.index(self.quality) * FORMS // len(QUALITIES)
        return (
            forms[usual if random.random() < USUAL else random.randrange(FORMS)],
            f"{deed} {self.quality} {self.thing}",
            f"{self.thing} {self.deed} in {self.place}",
            f"{self.first} {self.name} {deed} {self.thing}",
        )


Row = tuple[str, tuple[str, ...]]
"""Article and its titles."""


def summary_rows(seed: int) -> Mapping[str, list[Row]]:
    """Draw articles with their titles for every split; no article is in two splits."""
    random, distinct = Random(f"{seed} summaries"), dict[str, tuple[str, ...]]()
    while len(distinct) < sum(SIZES.values()):
        event, other = (Event(*map(random.choice, PARTS)) for _ in range(2))
        article = event.article(random)
        # Often a clause about another event precedes or follows.
        if random.random() < ACCOMPANIED:
            if random.random() < 0.5:
                article = f"while {other.clause()} , {article}"
            else:
                article = f"{article.removesuffix(' .')} , while {other.clause()} ."
        distinct.setdefault(article, event.titles(random))
    rows = iter(distinct.items())
    return {name: list(islice(rows, size)) for name, size in SIZES.items()}


_FILES = {
    "train": ("train/train.article.txt", "train/train.title.txt"),
    "dev": ("train/valid.article.filter.txt", "train/valid.title.filter.txt"),
    "test": ("Giga/input.txt", "Giga/task1_ref0.txt"),
    "test_duc2004": (
        "DUC2004/input.txt",
        *(f"DUC2004/task1_ref{number}.txt" for number in range(REFERENCES)),
    ),
}
"""File of the articles of each split, and the files of their titles."""


def write_summary_demo(folder: Path, seed: int = 2018) -> None:
    """Write the corpus, a pure function of ``seed``, into ``folder/sumdata``."""
    for name, rows in summary_rows(seed).items():
        for number, path in enumerate(_FILES[name]):
            text = "".join(f"{(article, *titles)[number]}\n" for article, titles in rows)
            write_if_changed(Path(folder) / "sumdata" / path, text.encode())
