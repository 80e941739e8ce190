"""Measured margins of the claims as a picture: one line per claim, zero in the middle."""

from math import copysign, log10
from typing import NamedTuple

from repro.config.claims import Order
from repro.report.cell import signed_text
from repro.report.claims import Judged, Verdict
from repro.report.matrix import SIGNS

_FINEST, _WIDEST = 0.01, 5.0
"""The axis is linear up to one margin, in units of the limit, and ends at the other."""
_GENERATED = {Verdict.HOLDS: "effect seen", Verdict.FAILS: "effect not seen"}
"""Words for verdicts on generated data, which say nothing about a paper."""


class Margin(NamedTuple):
    """Line of the picture; positions are in percent of the width.

    ``sign`` and ``word`` stand for the verdict, ``place`` is that of the measured margin between
    its 95 % confidence bounds (None without a spread over seeds), which ``text`` puts in words.
    """

    sign: str
    word: str
    place: float
    interval: tuple[float, ...] | None
    text: str


def position(share: float) -> float:
    """Return the place of a margin, linear about zero and logarithmic beyond, in percent."""
    size = min(abs(share), _WIDEST)
    return 50 + copysign(50 * log10(1 + size / _FINEST) / log10(1 + _WIDEST / _FINEST), share)


TICKS = [(position(share), f"{signed_text(100 * share, 0)} %") for share in (-1.0, -0.1, 0.1, 1.0)]


def verdict_word(verdict: Verdict, generated: bool, word: str = "") -> str:
    """Name a verdict, or return ``word`` for it; generated data show an effect at most."""
    return _GENERATED.get(verdict, verdict.value) if generated else word or verdict.value


def margin_of(judged: Judged, generated: bool) -> Margin:
    """Express the margin of a claim in units of what the values are compared with."""
    predicate, place, ends, text = judged.claim.predicate, 50.0, None, judged.certainty
    if judged.deciding is not None:
        one = judged.deciding.deciding
        by = predicate.by if isinstance(predicate, Order) else 0.0
        limit = abs(by or one.right.value) or 1.0
        place = position(one.margin / limit)
        ends = one.interval and tuple(position(end / limit) for end in one.interval)
        text = f"{signed_text(100 * one.margin / limit, 1)} % of the limit; {text}"
    word = verdict_word(judged.verdict, generated, judged.word)
    return Margin(SIGNS[judged.verdict], word, place, ends, text)
