"""Measured margins of the claims as a picture: one line per claim, zero in the middle."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import copysign, log10

import numpy as np

from repro.config.claims import Order
from repro.report.claims import CONFIDENCE, ClaimsOfPaper, Judged, Verdict

_FINEST, _WIDEST = 0.01, 5.0
"""The axis is linear up to one margin, in units of the limit, and ends at the other."""
_SIGNS = {Verdict.HOLDS: "●", Verdict.FAILS: "✕", Verdict.UNDECIDED: "○"}
_GENERATED = {Verdict.HOLDS: "effect seen", Verdict.FAILS: "effect not seen"}
"""What verdicts say about data that the suite generates, which no paper speaks of."""


@dataclass(frozen=True)
class Margin:
    """Line of the picture; positions are in percent of the width.

    Attributes:
        judged: the claim.
        sign: symbol of the verdict.
        word: the verdict in words.
        place: position of the measured margin.
        interval: positions of the ends of its 95 % interval; None from one seed.
        text: margin and interval in words.
    """

    judged: Judged
    sign: str
    word: str
    place: float
    interval: tuple[float, float] | None
    text: str


def position(share: float) -> float:
    """Return the place of a margin, linear about zero and logarithmic beyond, in percent."""
    size = min(abs(share), _WIDEST)
    return 50 + copysign(50 * log10(1 + size / _FINEST) / log10(1 + _WIDEST / _FINEST), share)


TICKS = [
    (position(share), f"{100 * share:+.0f} %".replace("-", "−")) for share in (-1.0, -0.1, 0.1, 1.0)
]


def verdict_word(verdict: Verdict, generated: bool) -> str:
    """Name a verdict; on generated data it is about an effect, not about a paper."""
    return _GENERATED.get(verdict, verdict.value) if generated else verdict.value


def margins_by_paper(
    claims: Sequence[ClaimsOfPaper], generated: bool
) -> dict[str, tuple[Margin, ...]]:
    """Lay out the margins of the measured claims of each paper."""
    return {
        paper.paper: tuple(_margin(one, generated) for one in paper.measured) for paper in claims
    }


def _margin(judged: Judged, generated: bool) -> Margin:
    """Express a margin in units of what the values are compared with."""
    predicate = judged.claim.predicate
    by = predicate.by if isinstance(predicate, Order) else 0.0
    limit = by or float(np.mean([abs(one.right[0]) for one in judged.contrasts])) or 1.0
    shares = np.mean([one.margin for one in judged.contrasts], axis=0) / limit
    ends, said = None, judged.certainty
    if judged.p is not None:
        outside = (1 - CONFIDENCE) / 2
        low, high = (float(one) for one in np.quantile(shares[1:], [outside, 1 - outside]))
        ends = position(low), position(high)
        said = f"95 % interval {100 * low:+.1f} to {100 * high:+.1f} %; {said}"
    text = f"{100 * shares[0]:+.1f} % of the limit; {said}".replace("-", "−")
    word = verdict_word(judged.verdict, generated)
    return Margin(judged, _SIGNS[judged.verdict], word, position(float(shares[0])), ends, text)
