"""Measured margins of the claims as a picture: one line per claim, zero in the middle."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import copysign, log10

from repro.config.claims import Order
from repro.report.claims import ClaimsOfPaper, Judged, Verdict

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
        interval: positions of its 95 % confidence bounds; None without a spread over seeds.
        text: margin and bounds in words.
    """

    judged: Judged
    sign: str
    word: str
    place: float
    interval: tuple[float, ...] | None
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
    predicate, share, ends = judged.claim.predicate, 0.0, None
    said = judged.certainty
    if judged.deciding is not None:
        contrast = judged.deciding.deciding
        by = predicate.by if isinstance(predicate, Order) else 0.0
        limit = abs(by or contrast.right.value) or 1.0
        share = contrast.margin / limit
        ends = contrast.interval and tuple(position(end / limit) for end in contrast.interval)
        said = f"{100 * share:+.1f} % of the limit; {said}".replace("-", "−")
    word = verdict_word(judged.verdict, generated)
    return Margin(judged, _SIGNS[judged.verdict], word, position(share), ends, said)
