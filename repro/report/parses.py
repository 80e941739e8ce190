"""Candidate parses of one sentence, read from plain rows and checked; which sentence is shown."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from repro.data.sentence_search import preference
from repro.results import ResultsError

TOLERANCE = 1e-3
LONGEST = 14
SIZES = range(2, 5)

Arc = tuple[int, int]
"""Head and modifier, counted from one; the head 0 is the root."""


@dataclass(frozen=True)
class Parse:
    """A tree by the head of each word, and its weight."""

    heads: tuple[int, ...]
    weight: float

    @property
    def arcs(self) -> frozenset[Arc]:
        """Its arcs."""
        return frozenset((head, place) for place, head in enumerate(self.heads, start=1))


@dataclass(frozen=True)
class ParsedSentence:
    """A sentence with its gold tree and the trees of nonzero weight, the heaviest first."""

    index: int
    sentence: str
    words: tuple[str, ...]
    gold: Parse
    candidates: tuple[Parse, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Texts by which a figure may ask for it: its identifier, and its words."""
        return self.sentence, " ".join(self.words)

    @property
    def marginals(self) -> dict[Arc, float]:
        """Probability of every arc of a candidate."""
        arcs = {arc for parse in self.candidates for arc in parse.arcs}
        return {
            arc: sum(parse.weight for parse in self.candidates if arc in parse.arcs)
            for arc in sorted(arcs)
        }

    @property
    def gold_place(self) -> int | None:
        """Place of the gold tree among the candidates, from zero; None if it is none of them."""
        places = [n for n, parse in enumerate(self.candidates) if parse.heads == self.gold.heads]
        return places[0] if places else None


def parsed_sentence(row: Mapping[str, Any]) -> ParsedSentence:
    """Read one row of ``candidates.jsonl``.

    Args:
        row: ``index``, ``sentence``, ``words``, ``gold`` (a head for each word) and
            ``candidates``, each with ``heads`` and ``weight``.

    Raises:
        ResultsError: a key is missing, a tree has not one head for each word, or the weights are
            no distribution.
    """
    place = f"candidates of example {row.get('index')}"
    try:
        example = ParsedSentence(
            index=int(row["index"]),
            sentence=str(row["sentence"]),
            words=tuple(row["words"]),
            gold=Parse(tuple(row["gold"]), 1.0),
            candidates=tuple(
                Parse(tuple(one["heads"]), float(one["weight"])) for one in row["candidates"]
            ),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ResultsError(f"{place}: missing or malformed: {error}") from error
    _check(example, place)
    return example


def _check(example: ParsedSentence, place: str) -> None:
    for parse in (example.gold, *example.candidates):
        inside = all(0 <= head <= len(example.words) for head in parse.heads)
        if len(parse.heads) != len(example.words) or not inside:
            raise ResultsError(f"{place}: expected a head among {len(example.words)} words each")
    weights = [parse.weight for parse in example.candidates]
    # Written so that NaN fails as well.
    if not (weights and min(weights) > 0 and abs(sum(weights) - 1) <= TOLERANCE):
        raise ResultsError(f"{place}: the weights {weights} are no distribution")


def choose_parses(examples: Sequence[ParsedSentence], prefer: Sequence[str]) -> int:
    """Choose a preferred sentence, else an ambiguous one as the paper shows them.

    That is a sentence of at most 14 words with two to four candidates, the gold tree among them
    and not the heaviest; of these the one with the most even weights.

    Args:
        examples: of one run.
        prefer: sentences to show if they are there, by their words or identifiers, the first one
            first.

    Returns:
        Position of the example; ties go to the lowest ``index``. Without an example that fits,
        several candidates go before one, then short sentences, then the gold tree among them.

    Raises:
        ResultsError: there are no examples.
    """
    if not examples:
        raise ResultsError("the run kept no examples to draw")
    places = [preference(example.names, prefer) for example in examples]
    return max(range(len(examples)), key=lambda n: (-places[n], *_merit(examples[n])))


def _merit(example: ParsedSentence) -> tuple[float, ...]:
    several, short = len(example.candidates) in SIZES, len(example.words) <= LONGEST
    place = example.gold_place
    fits = several and short and place is not None and place > 0
    entropy = -sum(parse.weight * math.log(parse.weight) for parse in example.candidates)
    return (fits, several, short, place is not None, entropy, -example.index)
