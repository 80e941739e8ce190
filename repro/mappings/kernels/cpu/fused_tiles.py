"""Fusedmax of the rows of a tile, each in a lane of its own.

The set ``S = {y > t}`` of a level ``t`` maximises ``Σ_S (x_j - t) - λ |∂S|``, and the maximum is
``Σ [y - t]_+``. With ``λ`` added to both ends of the row, every run of ``S`` has two ends that cost
``λ``. In ``T = t + 2 λ`` the maximum is that of ``Σ_S (x_j - T)`` and ``2 λ`` for each entry of
``S`` that comes next after another: one pass over the candidates finds it, and the size of ``S``,
which is Newton's step towards ``τ``. All these numbers are of the size of shares.

What the levels in a run of ``S`` are does not depend on what is outside of it: ``fused_splits.py``.
"""

import numpy as np

from repro.mappings.kernels.cpu._compile import lean
from repro.mappings.kernels.cpu.exchanges import compress, expand, transpose
from repro.mappings.kernels.cpu.lanes import load, load_first, store, store_first, store_first_whole
from repro.mappings.kernels.cpu.tiles import LINE, candidate, give_shares, stride_of, turn, width_of
from repro.mappings.kernels.cpu.vectors import (
    both,
    count,
    either,
    maximum,
    splat,
    where,
)

_PASSES = 64


@lean
def _keep(entries, top, limit, lowest, positions, seen, lists, ranks, taken):
    """Append what is above a limit, and its ranks; return both counts."""
    here, w = entries - top > lowest, candidate(entries, top, 1.0)
    above = w > limit
    store(lists, taken, compress(w, above))
    store(ranks, taken, compress(expand(positions, seen, here), above))
    return taken + count(above), seen + count(here)


@lean
def _gather(row, top, limit, lowest, positions, lists, ranks, taken):
    """List what is above a limit, less the largest, and its ranks among the allowed entries.

    Returns:
        The end of the lists, and how many entries are allowed.
    """
    size, step, seen = row.shape[0], width_of(row), 0
    whole = size // step * step
    for j in range(0, whole, step):
        taken, seen = _keep(
            load(row, j), top, limit, lowest, positions, seen, lists, ranks, taken
        )  # fmt: skip
    rest = load_first(row, whole, size - whole, row.dtype.type(-np.inf))
    return _keep(rest, top, limit, lowest, positions, seen, lists, ranks, taken)


@lean
def take(scores, first, last, tops, limits, lowest, rooms, ends, lasts):
    """Have candidates and their ranks in two tiles; return how many columns there are.

    Also writes where the lists end, and the rank of the last allowed entry of each row.
    """
    positions, lists, rank_lists, tile, ranks = rooms
    width, stride, columns = width_of(scores), stride_of(scores), 0
    for k in range(width):
        row = scores[min(first + k, last)]
        ends[k], seen = _gather(
            row, tops[k], limits[k], lowest, positions, lists, rank_lists, k * stride
        )
        lasts[k] = scores.dtype.type(seen - 1)
        columns = max(columns, ends[k] - k * stride)
    columns = (columns + LINE - 1) // LINE * LINE
    turn(lists, ends, columns, lowest, tile)
    for j in range(0, columns, width):
        transpose(rank_lists, j, stride, ranks, j * width, width)
    return columns


@lean
def link(tile, ranks, columns, lasts, lam, bonuses):
    """Raise the ends of the rows by ``λ``; write ``2 λ`` where an entry comes next after another.

    Past the last candidate of a row, ranks are of no use, and do no harm.
    """
    width, before, zero = width_of(tile), splat(tile.dtype.type(-2)), splat(tile.dtype.type(0))
    for k in range(0, columns * width, width):
        rank = load(ranks, k)
        raised = where(rank == 0.0, zero + lam, zero) + where(rank == lasts, zero + lam, zero)
        store(tile, k, load(tile, k) + raised)
        store(bonuses, k, where(rank - before == 1.0, zero + 2.0 * lam, zero))
        before = rank


@lean
def _gains(tile, bonuses, columns, level, insides, bests):
    """The maximum, and the size of ``S``.

    Also writes, one column later, the maxima over sets that end with each candidate, and over
    those that end with it or before.
    """
    width, one = width_of(tile), splat(tile.dtype.type(1))
    inside = best = inside_size = best_size = level - level
    store(insides, 0, inside)
    store(bests, 0, best)
    for k in range(0, columns * width, width):
        joined = inside + load(bonuses, k)
        longer = joined > best
        inside = where(longer, joined, best) + (load(tile, k) - level)
        inside_size = where(longer, inside_size, best_size) + one
        better = inside > best
        best, best_size = where(better, inside, best), where(better, inside_size, best_size)
        store(insides, k + width, inside)
        store(bests, k + width, best)
    return best, best_size


@lean
def ascend(tile, bonuses, columns, level, enough, insides, bests):
    """``T`` of every lane up to an excess mass, from below, and the step that is left to take.

    ``T`` stays below the root by more than its rounding: just above it, entries tied at the
    threshold would be out of ``S``, and nothing would bring them back.
    """
    step, below = level - level, 2.0 * np.finfo(tile.dtype).eps
    for _ in range(_PASSES):
        mass, size = _gains(tile, bonuses, columns, level, insides, bests)
        step = (mass - 1.0) / size
        higher = (level + step) - below
        moves = both(mass > 1.0 + enough, higher > level)
        if count(moves) == 0:
            break
        level = where(moves, higher, level)
    return level, step


@lean
def trace_back(tile, bonuses, columns, level, lam, insides, bests):
    """Replace candidates by their heights above ``t``, less ``λ`` at the ends of runs of ``S``.

    Bonuses become links: one where an entry of ``S`` comes next after another. What is not in ``S``
    is far below.

    Returns:
        Where there are links.
    """
    width, zero = width_of(tile), level - level
    after = linked = zero > zero
    for k in range((columns - 1) * width, -1, -width):
        before = load(bests, k)
        member = either(after, load(insides, k + width) > before)
        joined = both(member, load(insides, k) + load(bonuses, k) > before)
        inner = where(joined, zero + lam, zero) + where(after, zero + lam, zero)
        store(tile, k, where(member, (load(tile, k) - level) + inner, -1.0))
        store(bonuses, k, where(joined, zero + 1.0, zero))
        linked, after = either(linked, joined), joined
    return linked


@lean
def _added(total, lost, term):
    """A sum and what rounding has taken from it, with one more term."""
    larger = total + term
    part = larger - total
    return larger, lost + ((total - (larger - part)) + (term - part))


@lean
def share_out(levels, links, ranks, columns, step):
    """Replace levels by shares, and ranks by those of the first entries of segments.

    What is left of ``T`` takes part in small differences only.

    Returns:
        By how much the sum of the shares exceeds one, and how many are positive.
    """
    width, zero = width_of(levels), step - step
    excess, lost, size, leader = zero - 1.0, zero, zero, zero
    for k in range(0, columns * width, width):
        share = maximum(load(levels, k) - step, 0.0)
        leader = where(load(links, k) > 0.0, leader, load(ranks, k))
        store(levels, k, share)
        store(ranks, k, leader)
        excess, lost = _added(excess, lost, share)
        size += where(share > 0.0, zero + 1.0, zero)
    return excess + lost, size


@lean
def settle(shares, columns, excess):
    """Lower positive shares by so much, so that they sum to one."""
    width = width_of(shares)
    for k in range(0, columns * width, width):
        share = load(shares, k)
        store(shares, k, where(share > 0.0, maximum(share - excess, 0.0), 0.0))


@lean
def give(shares, ranks, columns, stride, lists, rank_lists):
    """Have the shares and groups of candidates next to each other, as the candidates were."""
    give_shares(shares, columns, stride, lists)
    give_shares(ranks, columns, stride, rank_lists)


@lean
def write(row, top, limit, lists, ranks, taken, out, groups):
    """Write the shares of candidates and their groups."""
    size, step = row.shape[0], width_of(row)
    whole = size // step * step
    for j in range(0, whole, step):
        above = candidate(load(row, j), top, 1.0) > limit
        store(out, j, expand(lists, taken, above))
        store_first_whole(groups, j, step, expand(ranks, taken, above))
        taken += count(above)
    rest = load_first(row, whole, size - whole, row.dtype.type(-np.inf))
    above = candidate(rest, top, 1.0) > limit
    store_first(out, whole, size - whole, expand(lists, taken, above))
    store_first_whole(groups, whole, size - whole, expand(ranks, taken, above))
