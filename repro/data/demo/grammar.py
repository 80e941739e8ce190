"""Synchronous grammars: tables of rules that express one event on several sides.

A rule of a symbol has a text for each side; a symbol among its words is drawn once and written on
every side as that side has it. A sentence and its translation are two sides, an article and its
titles are five.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from random import Random

Sides = tuple[str, ...]
Rules = Mapping[str, Sequence[Sides]]
"""Texts of each symbol, all equally likely; ``NAME:1`` and ``NAME:2`` are two draws of ``NAME``."""


def draw(rules: Rules, symbol: str, random: Random) -> Sides:
    """Expand a symbol on all sides."""
    sides = [text.split() for text in random.choice(rules[symbol])]
    tokens = dict.fromkeys(token for side in sides for token in side)
    names = {token: token.partition(":")[0] for token in tokens}
    drawn = {token: draw(rules, name, random) for token, name in names.items() if name in rules}

    def written(token: str, side: int) -> str:
        return drawn[token][side] if token in drawn else token

    numbered = enumerate(sides)
    return tuple(" ".join(filter(None, (written(t, n) for t in side))) for n, side in numbered)


def distinct_rows(
    sizes: Mapping[str, int], draw_of: Callable[[str], Sides]
) -> dict[str, list[Sides]]:
    """Draw the rows of every split; no first side is in two of them."""
    found: dict[str, Sides] = {}
    for name, size in sizes.items():
        wanted = len(found) + size
        while len(found) < wanted:
            row = draw_of(name)
            found.setdefault(row[0], row)
    rows = iter(found.values())
    return {name: list(islice(rows, size)) for name, size in sizes.items()}


def invented(random: Random, onsets: Sequence[str], vowels: str, taken: set[str]) -> Iterator[str]:
    """Yield new words of two or three syllables."""
    while True:
        syllables = range(random.choice((2, 2, 3)))
        word = "".join(random.choice(onsets) + random.choice(vowels) for _ in syllables)
        if word not in taken:
            taken.add(word)
            yield word
