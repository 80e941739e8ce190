r"""Segments of equal value by total variation or isotonic regression, for all rows at once.

Total variation: recursive cuts at level sets (Chambolle & Darbon 2009), as in
``kernels/cuda/level_sets.py``. At the solution ``y_i = x_i + u_i - u_{i-1}``, where the force ``u``
is ``λ`` where ``y`` rises after ``i``, ``-λ`` where it falls, and zero at both ends. A part between
known forces has a mean level ``v``. ``f_i = clip(f_{i-1}, -λ, λ) + v - x_i`` is the derivative of
the best objective of its entries up to ``i`` at ``y_i = v``: below ``-λ``, ``y_i`` is above ``v``,
from ``λ`` on it is not. The part is cut where the side changes, and the force there known. All
parts are cut at once; there are as many rounds as the recursion is deep, two to eight on
normally distributed scores.

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

_ROUNDING = 64 * 2.220446049250313e-16
"""Tolerance of forces, relative to the level, within which a tie is not cut."""


def group_means(values: Tensor, weights: Tensor, groups: Tensor) -> Tensor:
    """Return each entry's group sum of values over that of weights, along the last axis."""
    empty = torch.zeros_like(values)
    totals = empty.scatter_add(-1, groups, values)
    sizes = empty.scatter_add(-1, groups, weights).clamp(min=1)
    return (totals / sizes).gather(-1, groups)


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
    rows = rows.masked_fill(~taken, 0.0)
    jumps = torch.zeros_like(rows, dtype=torch.int8)
    closes = torch.zeros_like(taken)
    closes[:, -1] = True
    places = torch.arange(rows.size(1), device=rows.device).expand_as(rows)
    while True:
        # The level of a part is the mean of its solution, which the forces at both ends determine.
        starts, force = pad(closes[:, :-1], (1, 0), value=True), lam * jumps.to(rows.dtype)
        before = pad(force[:, :-1], (1, 0))
        level = group_means(rows + force - before, taken.to(rows.dtype), starts.cumsum(1) - 1)
        moved = torch.where(taken, level - rows, 0.0)
        low = torch.where(starts, before, torch.where(taken, -lam, -torch.inf))
        high = torch.where(starts, before, torch.where(taken, lam, torch.inf))
        derivative = _clipped_sums(moved, low + moved, high + moved)
        tie = _ROUNDING * (1.0 + level.abs())
        above = derivative < torch.where(closes, force, -lam) - tie
        below = derivative >= lam
        # Entries between take the side of the next one that is decided, as ends of parts are.
        decided = torch.where(closes | ((above | below) & taken), places, places[:, -1:])
        side = above.gather(1, decided.flip(1).cummin(1).values.flip(1)).to(torch.int8)
        turns = pad(side[:, 1:] - side[:, :-1], (0, 1)).masked_fill(closes, 0)
        if not turns.any():
            return jumps.view(scores.shape)
        jumps, closes = jumps + turns, closes | (turns != 0)


def _clipped_sums(shift: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Apply ``x -> clip(x + shift, low, high)`` of all entries up to each one to zero, ``(B, n)``.

    Two of these functions in turn are one of the same kind, so this is a scan by doubling: it does
    without cumulative sums of floats, which have no deterministic implementation on CUDA.
    """
    step = 1
    while step < shift.size(1):
        after = (x[:, step:] for x in (shift, low, high))
        moved, floor, ceiling = after
        lower, upper = (
            pad(((x[:, :-step] + moved).maximum(floor)).minimum(ceiling), (step, 0))
            for x in (low, high)
        )
        total = pad(shift[:, :-step] + moved, (step, 0))
        shift, low, high = (
            torch.cat([old[:, :step], new[:, step:]], 1)
            for old, new in ((shift, total), (low, lower), (high, upper))
        )
        step *= 2
    return shift.maximum(low).minimum(high)


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
