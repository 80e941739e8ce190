r"""Segments of equal value by total variation or isotonic regression, for all rows at once.

Total variation: dynamic programming over the positions (Johnson 2013), the taut string of Condat
(2013). ``f_i(b) = clip(f_{i-1}(b) + b - x_i, -λ, λ)`` is the derivative of the best objective of
the first ``i`` entries when the last of them is ``b``. It is increasing and piecewise linear; each
piece is a line ``(count - time) b - (sum - height)``, where ``(time, height)`` is a point of the
tube of radius ``λ`` around the partial sums. A step clips pieces at both ends and adds a flat one
at each. Backwards, ``y_i = clip(y_{i+1}, low_i, high_i)``, with ``f_i = ∓λ`` at the two bounds.

Isotonic regression: parallel pooling of adjacent violators.
"""

from typing import Any

import torch
from torch import Tensor
from torch.library import custom_op
from torch.nn.functional import pad

from repro.mappings._arguments import is_concrete
from repro.mappings._autograd import batch_first
from repro.mappings.kernels.dispatch import AVAILABLE, is_compiler_error


def group_means(values: Tensor, weights: Tensor, groups: Tensor) -> Tensor:
    """Return each entry's group sum of values over that of weights, along the last axis."""
    empty = torch.zeros_like(values)
    totals = empty.scatter_add(-1, groups, values)
    sizes = empty.scatter_add(-1, groups, weights).clamp(min=1)
    return (totals / sizes).gather(-1, groups)


class _Pieces:
    """Pieces of ``f`` of every row, in columns ``first`` to ``last`` from left to right.

    ``knots[j]`` is the right end of piece ``j``. The last column is scratch space, for rows in
    which a write must have no effect.
    """

    def __init__(self, rows: Tensor) -> None:
        count, self.middle = rows.shape
        self.times = rows.new_zeros(count, 2 * self.middle + 2)
        self.heights = torch.zeros_like(self.times)
        self.knots = torch.zeros_like(self.times)
        self.first = torch.full((count, 1), self.middle, device=rows.device)
        self.last = self.first

    def values(self, step: int, count: Tensor, total: Tensor) -> tuple[Tensor, Tensor]:
        """Return ``f`` at all knots that can exist after ``step`` additions, and which do."""
        near = slice(self.middle - step, self.middle + step)
        columns = torch.arange(near.start, near.stop, device=count.device)
        live = (columns >= self.first) & (columns < self.last)
        slopes = count - self.times[:, near]
        return slopes * self.knots[:, near] - (total - self.heights[:, near]), live

    def crossing(self, piece: Tensor, bound: float, count: Tensor, total: Tensor) -> Tensor:
        """Return where the line of a piece reaches ``bound``."""
        run = count - self.times.gather(1, piece)
        return (total + bound - self.heights.gather(1, piece)) / run.clamp(min=1)

    def add(self, piece: Tensor, knot: Tensor, end: Tensor, time: Tensor, height: Tensor) -> None:
        """Write one piece of every row into column ``piece``, and ``end`` into column ``knot``."""
        self.times.scatter_(1, piece, time)
        self.heights.scatter_(1, piece, height)
        self.knots.scatter_(1, knot, end)


def _compiled(name: str, values: Tensor, *arguments: Any) -> Tensor | None:
    """Call a compiled solver; return None off the CPU, and if numba is missing or does not work.

    The kernels of the mappings have warned before.
    """
    if not AVAILABLE or values.device.type != "cpu":
        return None
    try:
        from repro.mappings.kernels.cpu import segments

        found: Tensor = getattr(segments, name)(values, *arguments)
    except Exception as error:
        if not is_compiler_error(error):
            raise
        return None
    return found


@custom_op("repro::saturated", mutates_args=())
def saturated(scores: Tensor, present: Tensor, lam: float) -> Tensor:
    """Solve ``min_y ½‖y - x‖² + λ Σ |y_{i+1} - y_i|`` along the last axis.

    Args:
        scores: ``x``, float64, finite, shape ``(..., n)`` with ``n >= 1``.
        present: boolean, the shape of ``scores``; positions that are False are left out.
        lam: ``λ > 0``.

    Returns:
        ``s``, ``int8``, the shape of ``scores``: 1 at the last position before ``y`` rises, -1 at
        the last one before it falls, 0 elsewhere. In between ``y`` is constant, the mean of
        ``x_i + λ (s_i - s_{i-1})``; a position left out belongs to the segment after it.
    """
    if (found := _compiled("saturated", scores, present, lam)) is not None:
        return found
    rows, taken = (tensor.reshape(-1, tensor.size(-1)) for tensor in (scores, present))
    counts, totals = taken.to(rows.dtype).cumsum(1), (rows * taken).cumsum(1)
    pieces, lows, highs = _Pieces(rows), [], []
    for i in range(rows.size(1)):
        # Add one position: f is clipped at low and high, which are infinite if it is left out.
        at = slice(i, i + 1)
        count, total, kept = counts[:, at], totals[:, at], taken[:, at]
        value, live = pieces.values(i, count, total)
        first = pieces.first + (live & (value <= -lam)).sum(1, keepdim=True)
        last = pieces.last - (live & (value >= lam)).sum(1, keepdim=True)
        low = pieces.crossing(first, -lam, count, total)
        high = pieces.crossing(last, lam, count, total)
        spare = torch.full_like(first, pieces.times.size(1) - 1)
        left, right = (torch.where(kept, end, spare) for end in (first - 1, last + 1))
        end = torch.where(kept, last, spare)
        pieces.add(left, left, low, count, total - lam)
        pieces.add(right, end, high, count, total + lam)
        pieces.first = torch.where(kept, first - 1, pieces.first)
        pieces.last = torch.where(kept, last + 1, pieces.last)
        lows.append(low.masked_fill(~kept, -torch.inf))
        highs.append(high.masked_fill(~kept, torch.inf))
    # The root of the last f; rounding must not place it on one of the two flat end pieces.
    count, total = counts[:, -1:], totals[:, -1:]
    value, live = pieces.values(pieces.middle, count, total)
    piece = pieces.first + (live & (value <= 0)).sum(1, keepdim=True)
    piece = torch.minimum(torch.maximum(piece, pieces.first + 1), pieces.last - 1)
    level = pieces.crossing(piece, 0.0, count, total)
    # Trace the solution back from the last level to the first; only the jumps are returned.
    jumps = [torch.zeros_like(level, dtype=torch.int8)]
    for low, high in zip(reversed(lows[:-1]), reversed(highs[:-1]), strict=True):
        falls, rises = level < low, level > high
        level = torch.where(falls, low, torch.where(rises, high, level))
        jumps.append(rises.to(torch.int8) - falls.to(torch.int8))
    return torch.cat(jumps[::-1], 1).view(scores.shape)


@saturated.register_fake
def _(scores: Tensor, present: Tensor, lam: float) -> Tensor:
    return torch.empty_like(scores, dtype=torch.int8)


@saturated.register_vmap
def _(
    info: Any, in_dims: tuple[int | None, ...], scores: Tensor, present: Tensor, lam: float
) -> tuple[Tensor, int]:
    return saturated(*batch_first(info, in_dims, scores, present), lam), 0


@custom_op("repro::decreasing_blocks", mutates_args=())
def decreasing_blocks(values: Tensor) -> Tensor:
    """Solve ``min_y ‖y - u‖²`` subject to ``y_1 >= y_2 >= ...`` along the last axis.

    Two neighboring blocks whose means do not decrease have the same value in the solution (the
    lemma of pool-adjacent-violators), so all such pairs are pooled in one sweep. Every sweep but
    the last pools at least one pair.

    Args:
        values: ``u``, float64, ``n >= 1`` on the last axis.

    Returns:
        ``long``, the shape of ``values``: the index, from zero, of the block of each position.
        In a block ``y`` is constant, the mean of ``u``.
    """
    if (found := _compiled("decreasing_blocks", values)) is not None:
        return found
    weights = torch.ones_like(values)
    # 1 where a block starts, without the first position; cumulative sums are indices of blocks.
    starts = torch.ones_like(values[..., 1:], dtype=torch.long)
    for _ in range(values.size(-1) - 1):
        means = group_means(values, weights, pad(starts.cumsum(-1), (1, 0)))
        kept = starts * (means[..., 1:] < means[..., :-1])
        if is_concrete(values) and torch.equal(kept, starts):
            break
        starts = kept
    return pad(starts.cumsum(-1), (1, 0))


@decreasing_blocks.register_fake
def _(values: Tensor) -> Tensor:
    return torch.empty_like(values, dtype=torch.long)


@decreasing_blocks.register_vmap
def _(info: Any, in_dims: tuple[int], values: Tensor) -> tuple[Tensor, int]:
    return decreasing_blocks(values.movedim(in_dims[0], 0)), 0
