"""Corpus of synthetic news sentences and their titles, in the layout ``sumdata``.

An article says who does what to which object, where, when and why, in one of several orders, and
often adds a subordinate clause about another event. Its title keeps the actor, the deed and its
object, shortened by fixed rules: a long name to its last words, a deed to the present tense.
Positions do not mark the important words, and the other clause has words of the same kind, so that
attention has to find the right ones. There are many names, each of them rare. What else a title
says often, but not always, follows from the quality of the object: no model can predict every
title, and lengths differ.
"""

from itertools import product
from pathlib import Path
from random import Random

from repro.data.demo.grammar import Rules, Sides, distinct_rows, draw
from repro.data.files import write_if_changed

SIZES = {"train": 800, "dev": 80, "test": 90, "test_duc2004": 30}
REFERENCES = 4
DEEDS = {
    "announced": "announces", "cancelled": "cancels", "approved": "approves",
    "rejected": "rejects", "delayed": "delays", "expanded": "expands", "closed": "closes",
    "reopened": "reopens",
}  # fmt: skip
_WORDS = {
    "FIRST": "north south united royal first new grand old",
    "NAME": " ".join(
        head + tail
        for head in ("bren", "cor", "dal", "fen", "gra", "hol", "jas", "kel")
        for tail in ("bach", "dine", "fold", "gate", "mond", "nell", "rick", "stad")
    ),
    "BODY": "council bank union company ministry court institute guild",
    "QUALITY0": "large costly", "QUALITY1": "disputed secret",
    "QUALITY2": "popular ambitious", "QUALITY3": "risky modest",
    "THING": "bridge merger budget tunnel reform strike harbour treaty festival inquiry",
    "PLACE": "avaro belmont corvia dunmar estrel farrow galdin hestra",
    "DAY": "monday tuesday wednesday thursday friday",
    "REASON": "heavy_storms falling_prices public_pressure staff_shortages rising_demand",
    "SPEAKER": "a_spokesman two_officials local_papers its_president an_adviser",
}  # fmt: skip
_ACTOR, _WHAT = "the FIRST NAME BODY", "a QUALITY THING"
_ORDERS = (
    f"{_ACTOR} DEED {_WHAT} in PLACE on DAY because of REASON , SPEAKER said .",
    f"because of REASON , {_ACTOR} on DAY DEED {_WHAT} in PLACE , according to SPEAKER .",
    f"SPEAKER said on DAY that {_ACTOR} , hit by REASON , had DEED {_WHAT} in PLACE .",
    f"in PLACE , {_WHAT} was DEED by {_ACTOR} on DAY , SPEAKER said , blaming REASON .",
)
_FORMS = (
    "NAME BODY DEED THING",
    "NAME BODY DEED QUALITY THING",
    "NAME BODY DEED QUALITY THING in PLACE",
    "NAME BODY DEED QUALITY THING in PLACE on DAY , blaming REASON",
)
"""First titles, which differ in length: half of the time the quality of the object chooses one."""
_TITLES = ("BODY DEED QUALITY THING", "THING DEED in PLACE", "FIRST NAME BODY DEED THING")


def _rules() -> Rules:
    """Make rules with five sides: the article and its titles."""
    every: dict[str, list[Sides]] = {
        name: [(word.replace("_", " "),) * 5 for word in words.split()]
        for name, words in _WORDS.items()
    }
    every["DEED"] = [(past, now, now, past, now) for past, now in DEEDS.items()]
    every["QUALITY"] = [(f"QUALITY{usual}",) * 5 for usual in range(4)]
    every["OTHER"] = [(f"{_ACTOR} DEED {_WHAT}", "", "", "", "")]
    articles = [
        article
        for order in _ORDERS
        for article in (  # two of five with a clause about another event, before or behind
            *[order] * 3,
            f"while OTHER , {order}",
            f"{order.removesuffix(' .')} , while OTHER .",
        )
    ]
    every["TEXT"] = [
        tuple(side.replace("QUALITY", f"QUALITY{usual}") for side in (article, form, *_TITLES))
        for article, usual in product(articles, range(4))
        for form in (*_FORMS, *[_FORMS[usual]] * 4)
    ]
    return every


def summary_rows(seed: int) -> dict[str, list[Sides]]:
    """Draw articles, each with its titles, for every split; no article is in two splits."""
    random, rules = Random(f"{seed} summaries"), _rules()
    return distinct_rows(SIZES, lambda _: draw(rules, "TEXT", random))


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
        for side, path in enumerate(_FILES[name]):
            text = "".join(f"{row[side]}\n" for row in rows)
            write_if_changed(folder / "sumdata" / path, text.encode())
