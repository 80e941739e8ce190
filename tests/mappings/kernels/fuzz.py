"""Rows drawn at random for every kernel, and what is true of each result.

A row has a kind (ties, ladders, forbidden entries, infinities, NaN, ...) and a scale from 1e-6 to
1e6. The oracle is the operator in PyTorch in double precision; sums and optimality conditions are
checked besides, from the result alone.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

DOUBLE = torch.float64
SLACK = 1e-5
"""Tolerance of bounds, as that of single precision for rows of 84 entries."""


class Draw:
    """Random numbers from a seed, in double precision."""

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)

    def normal(self, *shape: int) -> Tensor:
        return torch.randn(*shape, generator=self.generator, dtype=DOUBLE)

    def uniform(self, *shape: int) -> Tensor:
        return torch.rand(*shape, generator=self.generator, dtype=DOUBLE)

    def integers(self, low: int, high: int, *shape: int) -> Tensor:
        return torch.randint(low, high, shape, generator=self.generator)

    def scores(self, count: int, n: int) -> Tensor:
        """Rows of every kind at a random scale; the first entry of most is allowed."""
        steps = torch.arange(n, dtype=DOUBLE).expand(count, n)
        order = self.uniform(count, n).argsort(-1)
        kinds = torch.stack([
            self.normal(count, n),
            self.integers(0, 4, count, n).double(),  # ties
            -steps.gather(-1, order),  # a ladder of equal steps, in any order
            -steps / n,
            self.normal(count, n).round(decimals=1).cumsum(-1) / 4,  # segments
            (steps == 0).double() - 1e-7 * self.normal(count, n).abs(),  # a leader and near ties
            self.normal(count, n).pow(3),
            (self.uniform(count, n) < 0.5).double() + 1e-3 * self.normal(count, n),
        ])  # fmt: skip
        at = self.integers(0, len(kinds), 1, count, 1).expand(1, count, n)
        scale = 10 ** (12 * self.uniform(count, 1) - 6)
        # Half of the rows have the scale at which supports are neither full nor single entries.
        scale = torch.where(self.uniform(count, 1) < 0.5, 2 * self.uniform(count, 1), scale)
        rows = kinds.gather(0, at)[0] * scale
        rows += 1e3 * self.normal(count, 1) * (self.uniform(count, 1) < 0.2)
        rows[(self.uniform(count, 1) < 0.3) & (self.uniform(count, n) < 0.4)] = -math.inf
        special, chosen = self.uniform(count), torch.arange(count)
        entry = self.integers(0, n, count)
        for low, value in ((0.0, math.nan), (0.02, math.inf)):
            here = (special >= low) & (special < low + 0.02)
            rows[chosen[here], entry[here]] = value
        rows[(special >= 0.04) & (special < 0.06)] = -math.inf
        return rows

    def bounds(self, count: int, n: int, scores: Tensor) -> Tensor:
        """Bounds that are few or many times their least sum, equal, zero, infinite or tight."""
        allowed = scores != -math.inf
        spread = self.uniform(count, n)
        kinds = torch.stack([
            0.2 + spread,
            torch.ones(count, n, dtype=DOUBLE),
            10 ** (-4 * spread),
            0.01 + (spread < 0.3).double(),
            spread * (self.uniform(count, n) < 0.5),  # half of them zero
            1e-3 + spread.pow(8),
        ])  # fmt: skip
        at = self.integers(0, len(kinds), 1, count, 1).expand(1, count, n)
        upper = kinds.gather(0, at)[0]
        room = (upper * allowed).sum(-1, keepdim=True)
        times = 1.0 + 10 ** (4 * self.uniform(count, 1) - 3)
        upper = torch.where(room > 0, upper / room * times, times)
        upper[(self.uniform(count, 1) < 0.2) & (self.uniform(count, n) < 0.2)] = math.inf
        # Sums of exactly one, in powers of two; then the bounds are the result.
        weights = self.integers(0, 64, count, n).double() * allowed
        total = weights.sum(-1, keepdim=True)
        rest = 2.0 ** (total + 1).log2().ceil() - total
        first = allowed.double().cumsum(-1).eq(1) & allowed
        weights = torch.where(first, weights + rest, weights)
        tight = weights / weights.sum(-1, keepdim=True).clamp(min=1)
        upper = torch.where(self.uniform(count, 1) < 0.1, tight, upper)
        return torch.where(self.uniform(count, 1) < 0.02, 0.5 / n, upper)  # too small


class Batch(NamedTuple):
    """Arguments of a forward operator, and what its results have to satisfy.

    Attributes:
        arguments: of the operator, scores first.
        total: the sums of the rows, ``(count, 1)``, in double precision.
        upper: bounds like the scores, infinite where a mapping has none.
        link: given distributions in double precision, the function of an entry that differs from
            the score by the same number for all entries strictly inside the bounds, and its
            derivative; None for mappings of groups.
    """

    arguments: list[Any]
    total: Tensor
    upper: Tensor
    link: Callable[[Tensor], tuple[Tensor, Tensor]] | None


def entmax_link(order: float | Tensor) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
    """Return ``p^r / r`` and its derivative; for ``r = 0`` the logarithm."""

    def link(probs: Tensor) -> tuple[Tensor, Tensor]:
        r = torch.as_tensor(order, dtype=DOUBLE).clamp(min=1e-12)
        return torch.expm1(r * probs.log()) / r, probs ** (r - 1)

    return link


def pnorm_link(p: float) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
    """Return the gradient of ``½ ‖y‖_p²`` and the derivative of an entry at a constant norm."""

    def link(probs: Tensor) -> tuple[Tensor, Tensor]:
        norm = (probs**p).sum(-1, keepdim=True) ** ((2 - p) / p)
        return probs ** (p - 1) * norm, (p - 1) * probs ** (p - 2) * norm

    return link


def euclidean_link(probs: Tensor) -> tuple[Tensor, Tensor]:
    """Return the entries, and one."""
    return probs, torch.ones_like(probs)


def batch(
    name: str, settings: tuple[Any, ...], draw: Draw, count: int, n: int, dtype: torch.dtype
) -> Batch:
    """Draw the arguments of a forward operator."""
    scores = draw.scores(count, n).to(dtype)
    one, unbounded = torch.ones(count, 1, dtype=DOUBLE), torch.full((count, n), math.inf)
    if name == "entmax_forward":
        return Batch([scores, *settings], one, unbounded, entmax_link(*settings))
    if name == "entmax_forward_rows":
        orders = (draw.integers(0, 11, count, 1) / 5).to(dtype)
        orders += draw.uniform(count, 1) * (draw.uniform(count, 1) < 0.5)
        orders[draw.uniform(count, 1) < 0.02], orders[draw.uniform(count, 1) < 0.02] = math.nan, -1
        return Batch([scores, orders], one, unbounded, entmax_link(orders.double()))
    if name == "sq_pnorm_max_forward":
        return Batch([scores, *settings], one, unbounded, pnorm_link(*settings))
    if name == "bounded_forward":
        upper = draw.bounds(count, n, scores).to(dtype)
        link = entmax_link(0.0) if settings[0] == 0 else euclidean_link
        return Batch([scores, upper, *settings, SLACK], one, upper.double(), link)
    ones = torch.ones(count, n)
    if name == "budget_forward":
        return Batch([scores, *settings], settings[0] * one, ones, euclidean_link)
    if name == "budget_forward_rows":
        room = (scores != -math.inf).sum(-1, keepdim=True)
        totals = room * draw.uniform(count, 1)
        totals = torch.where(draw.uniform(count, 1) < 0.5, totals.round(), totals)
        totals = torch.where(draw.uniform(count, 1) < 0.05, room, totals).to(dtype)
        for value in (-1.0, n + 1.0, math.nan, math.inf):
            totals[draw.uniform(count, 1) < 0.01] = value
        return Batch([scores, totals], totals.double(), ones, euclidean_link)
    return Batch([scores, *settings], one, unbounded, None)


def widened(arguments: list[Any]) -> list[Any]:
    """Convert floating point tensors to double precision."""
    return [x.double() if isinstance(x, Tensor) and x.is_floating_point() else x for x in arguments]


def deviation(found: Tensor, wanted: Tensor) -> Tensor:
    """Return the largest error of every row, relative to its largest entry above one."""
    found, wanted = found.double(), wanted.double()
    same = (found == wanted) | (found.isnan() & wanted.isnan())
    size = wanted.nan_to_num(0.0, 0.0, 0.0).abs().amax(-1, keepdim=True).clamp(min=1)
    errors = ((found - wanted).abs() / size).masked_fill(same, 0.0).nan_to_num(math.inf, math.inf)
    return errors.amax(-1)


def off_total(probs: Tensor, given: Batch, bound: float) -> Tensor:
    """Return which rows without NaN, not empty, do not sum to their total or leave their bounds."""
    scores = given.arguments[0]
    usual = ~probs.isnan().any(-1) & (scores > -math.inf).any(-1)
    wide = probs.double()
    off = (wide.sum(-1, keepdim=True) - given.total).abs() > bound * given.total.clamp(min=1)
    outside = (wide < 0) | (wide > given.upper.clamp(min=0)) | ((scores == -math.inf) & (wide != 0))
    return usual & (off[:, 0] | outside.any(-1))


def not_optimal(probs: Tensor, given: Batch, bound: float) -> Tensor:
    """Return which rows violate the optimality conditions by more than what moves an entry by it.

    Scores less the link of the entries are one number strictly inside the bounds, at most this
    number at zero, at least this number at the upper bound.
    """
    assert given.link is not None
    scores, wide = given.arguments[0].double(), probs.double()
    largest = torch.finfo(given.arguments[0].dtype).max
    scores = scores.clamp(max=largest)
    usual = ~wide.isnan().any(-1) & (scores > -math.inf).any(-1)
    full = (wide > 0) & (wide >= given.upper)
    link, slope = given.link(wide)
    allowed = (scores > -math.inf) & (given.upper > 0)
    inside = (wide > 0) & ~full
    reference = wide.masked_fill(~inside, -1).argmax(-1, keepdim=True)
    heights = (scores - scores.gather(-1, reference)) - (link - link.gather(-1, reference))
    slack = slope + slope.gather(-1, reference)
    eps = torch.finfo(DOUBLE).eps
    rounding = 16 * eps * (1 + (scores - scores.gather(-1, reference)).abs())
    slack = bound * slack + rounding
    wrong = inside & (heights.abs() > slack)
    wrong |= allowed & (wide == 0) & (heights > slack)
    wrong |= allowed & full & (heights < -slack)
    return usual & inside.any(-1) & wrong.any(-1)
