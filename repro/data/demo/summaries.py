"""A corpus of synthetic news sentences and their titles, in the layout ``sumdata``.

An article names who does what to whom, where, when and why, in one of several orders and among
asides, and often says in a subordinate clause what somebody else did meanwhile. Its title keeps the
actor, the deed and its object, shortened by fixed rules: a long name by its last words, a deed by
the present. Which words matter is not marked by their place, and words of the same kind stand in
the other clause: attention has to find the right ones. Names are many, and each of them is rare.
How much else a title says mostly follows from the quality of the object, but not always: no model
finds every title, and lengths differ.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random

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
"""Number of lengths of titles."""
ACCOMPANIED = 0.4
"""Share of articles with the clause of another event."""
USUAL = 0.5
"""Share of titles whose length follows from the quality of the object."""


@dataclass(frozen=True)
class Event:
    """An event that an article reports."""

    actor: tuple[str, str, str]
    deed: str
    quality: str
    thing: str
    place: str
    day: str
    reason: str
    speaker: str

    @classmethod
    def draw(cls, random: Random) -> "Event":
        """A random event."""
        return cls(
            actor=(random.choice(FIRST), random.choice(NAMES), random.choice(BODIES)),
            deed=random.choice(tuple(DEEDS)),
            quality=random.choice(QUALITIES),
            thing=random.choice(OBJECTS),
            place=random.choice(PLACES),
            day=random.choice(DAYS),
            reason=random.choice(REASONS),
            speaker=random.choice(SPEAKERS),
        )

    def article(self, random: Random) -> str:
        """One sentence, in a random order of its parts."""
        actor, thing = " ".join(("the", *self.actor)), f"a {self.quality} {self.thing}"
        orders = (
            f"{actor} {self.deed} {thing} in {self.place} on {self.day} because of {self.reason} , "
            f"{self.speaker} said .",
            f"because of {self.reason} , {actor} on {self.day} {self.deed} {thing} in {self.place}"
            f" , according to {self.speaker} .",
            f"{self.speaker} said on {self.day} that {actor} , hit by {self.reason} , had "
            f"{self.deed} {thing} in {self.place} .",
            f"in {self.place} , {thing} was {self.deed} by {actor} on {self.day} , {self.speaker} "
            f"said , blaming {self.reason} .",
        )
        return random.choice(orders)

    def clause(self) -> str:
        """Who did what, and nothing else."""
        return f"the {' '.join(self.actor)} {self.deed} a {self.quality} {self.thing}"

    def title(self, form: int) -> str:
        """A title of one of :data:`FORMS` lengths, the shortest first."""
        actor = f"{self.actor[1]} {self.actor[2]} {DEEDS[self.deed]}"
        titles = (
            f"{actor} {self.thing}",
            f"{actor} {self.quality} {self.thing}",
            f"{actor} {self.quality} {self.thing} in {self.place}",
            f"{actor} {self.quality} {self.thing} in {self.place} on {self.day} , blaming "
            f"{self.reason}",
        )
        return titles[form]

    def references(self, random: Random) -> tuple[str, ...]:
        """Four titles that people might give."""
        usual = QUALITIES.index(self.quality) * FORMS // len(QUALITIES)
        return (
            self.title(usual if random.random() < USUAL else random.randrange(FORMS)),
            f"{self.actor[2]} {DEEDS[self.deed]} {self.quality} {self.thing}",
            f"{self.thing} {self.deed} in {self.place}",
            f"{self.actor[0]} {self.actor[1]} {self.actor[2]} {DEEDS[self.deed]} {self.thing}",
        )


Row = tuple[str, tuple[str, ...]]
"""An article and its titles."""


def summary_rows(seed: int) -> Mapping[str, list[Row]]:
    """Articles with their titles for every split; no article is in two splits."""
    random, distinct = Random(f"{seed} summaries"), dict[str, tuple[str, ...]]()
    while len(distinct) < sum(SIZES.values()):
        event, other = Event.draw(random), Event.draw(random)
        article = event.article(random)
        # Often the clause of another event stands before or behind the article.
        if random.random() < ACCOMPANIED:
            if random.random() < 0.5:
                article = f"while {other.clause()} , {article}"
            else:
                article = f"{article.removesuffix(' .')} , while {other.clause()} ."
        distinct.setdefault(article, event.references(random))
    rows, splits, start = list(distinct.items()), {}, 0
    for name, size in SIZES.items():
        splits[name] = rows[start : start + size]
        start += size
    return splits


_FILES = {
    "train": ("train/train.article.txt", ("train/train.title.txt",)),
    "dev": ("train/valid.article.filter.txt", ("train/valid.title.filter.txt",)),
    "test": ("Giga/input.txt", ("Giga/task1_ref0.txt",)),
    "test_duc2004": (
        "DUC2004/input.txt", tuple(f"DUC2004/task1_ref{k}.txt" for k in range(REFERENCES)),
    ),
}  # fmt: skip


def write_summary_demo(folder: Path, seed: int = 2018) -> None:
    """Write the corpus into ``folder/sumdata``.

    Args:
        folder: created if missing.
        seed: the corpus is a pure function of it.
    """
    for name, rows in summary_rows(seed).items():
        article, titles = _FILES[name]
        root = Path(folder) / "sumdata"
        write_if_changed(root / article, "".join(f"{row[0]}\n" for row in rows).encode())
        for number, path in enumerate(titles):
            text = "".join(f"{row[1][number]}\n" for row in rows)
            write_if_changed(root / path, text.encode())
