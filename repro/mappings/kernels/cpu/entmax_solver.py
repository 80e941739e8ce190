"""α-entmax and its losses on blocks of rows: common parts, and sparsemax and 1.5-entmax.

With ``r = α - 1``, candidates ``w = r (z - max z)`` in ``[-1, 0]`` and the unknown ``c`` in
``(0, 1]``, the distribution is ``p = [w + c]_+^{1/r}``, where ``c`` solves (Peters et al. 2019,
Eq. 13, whose threshold in ``p = [r z - τ]_+^{1/r}`` is ``τ = r max z - c``)::

    N(c) = ‖[w + c]_+‖_{1/r} = 1.

For ``r <= 1`` the norm is convex and increasing, so the first Newton step from any point leads
above the root and the others descend to it. For ``r = 1`` and ``r = ½`` (sparsemax, 1.5-entmax)
steps need no powers; they start at ``c = 1`` and stop at a step of twice the machine epsilon. Until
then ``c`` is kept above the root by that much: just below it, entries tied at the threshold would
be lost. Other values of ``r`` are solved in ``entmax_powers.py``.

float32 rows are solved in float32 for ``0.04 <= r <= 1``. A row whose shares do not sum to one,
because the last step crossed a kink or entries are tied at the threshold, is solved again in double
precision; without this, errors reach 1.4e-5 on such rows. Sums of shares are compensated:
``|Σ p - 1|`` is 1e-7 instead of 7e-6.

Losses are ``max_Ω(z) - z_y``: with ``p^r = w + c`` on the support, ``<p, z> - Ω(p)`` is
``(Σ p w + (1 - c) / r) / (1 + r)`` above the largest score.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from repro.mappings.kernels.cpu import blocks, simd
from repro.mappings.kernels.cpu.compile import inline

PASSES = 100
"""Maximum number of passes: Newton's method needs two to ten, bisection up to 70."""
COARSE = 1e-2
"""Excess mass accepted on lane maxima: a limit for screening need not be close to its root."""
LOWEST_R = 0.04
"""Least ``r`` solved in float32: a power ``1 / r > 25`` amplifies the rounding of ``w + c``."""
UNSCREENED = 64
"""Rows up to this length are solved without screening, which at 50 columns would cost sparsemax
31 %, 1.5-entmax 39 % and α = 1.25 10 % more time."""
DONE, FIRST, WIDE, ALONE = range(4)
"""State of a row: solved, or waiting for the first block, the wide block or the wide row block."""


class Problem(NamedTuple):
    """Arguments of the kernel."""

    rows: Any  # scores, shape (rows, n)
    r: Any  # ``r`` of all rows
    r_of_rows: Any  # ``r`` of each row, or empty
    targets: Any  # classes, or empty where no losses are wanted
    ignored: Any  # the target of rows without a loss
    probs: Any  # output: distributions, shape (rows, n)
    losses: Any  # output: losses, or empty


@inline
def r_of(problem, i):
    """Return ``r = α - 1`` of a row."""
    return blocks.number_of_row(problem.r, problem.r_of_rows, i)


@inline
def is_narrow(block):
    """Return whether a block is in single precision, so that rows may be left to double."""
    return block.w.itemsize == 4


# Rows


@inline
def solve_rows(solve, problem, block, wide, wide_row, states, start, stop):
    """Solve rows in blocks; return the number of targets that are not a class.

    Rows are solved in ``block``, unless there is ``wide``, a block in double precision: then only
    those with ``0.04 <= r <= 1`` are, and others in ``wide``. Those that fail are solved once more,
    one by one (``wide_row``). The choice depends on the row alone, so results do not depend on
    batching. ``states`` has an entry per row of ``block``; ``solve`` is :func:`solve_rational` or
    ``solve_powers``.
    """
    wrong, group = 0, states.shape[0]
    for first in range(start, stop, group):
        last = min(first + group, stop)
        states[:] = FIRST
        if wide is None:  # numba then compiles no other branch
            wrong += solve(problem, block, states, FIRST, first, last)
        else:
            many, singles = blocks.rows_in(wide), 0
            for i in range(first, last):
                single = LOWEST_R <= r_of(problem, i) <= 1.0
                states[i - first], singles = FIRST if single else WIDE, singles + single
            if singles > 0:
                wrong += solve(problem, block, states, FIRST, first, last)
            for i in range(first, last, many):
                end = min(i + many, last)
                waiting = 0
                for k in range(i, end):
                    waiting += states[k - first] == WIDE
                if waiting > 0:
                    wrong += solve(problem, wide, states[i - first :], WIDE, i, end)
        for i in range(first, last):
            if states[i - first] == ALONE:
                wrong += solve(problem, wide_row, states[i - first :], ALONE, i, i + 1)
    return wrong


@inline
def write_rows(problem, block, states, state, first, stop, write):
    """Write the rows of a block whose state is ``state``; those that failed become ``ALONE``.

    Returns:
        The number of bad targets.
    """
    wrong = 0
    for k in range(stop - first):
        i = first + k
        if states[k] != state:
            continue
        bad = block.invalid[k] > 0.0 or not r_of(problem, i) >= 0.0
        if bad or block.peaks[k] == -np.inf:
            blocks.fill(problem.probs[i], math.nan if bad else 0.0)
            block.moments[k] = math.nan
        elif block.scales[k] == 0.0 and (is_narrow(block) or block.in_lanes):
            states[k] = ALONE
            continue
        else:
            write(problem, block, i, k)
        states[k] = DONE
        if problem.losses.shape[0] > 0:
            wrong += _write_loss(problem, block, i, k)
    return wrong


@inline
def _write_loss(problem, block, i, k):
    """Write the loss of row ``i``, the ``k``-th of the block; return whether its target is bad."""
    row, target, loss, wrong = problem.rows[i], problem.targets[i], math.nan, False
    if target == problem.ignored:
        loss = 0.0
    elif target < 0 or target >= row.shape[0]:
        wrong = True
    elif row[target] == -np.inf:
        loss = math.inf
    else:
        moment = np.float64(block.moments[k]) / block.totals[k]
        best = (moment + block.heads[k]) / (1.0 + np.float64(block.r_of_rows[k]))
        loss = best - min(np.float64(row[target]) - block.tops[k], 0.0)
        loss = loss if not loss < 0.0 else 0.0
    problem.losses[i] = loss
    return wrong


# Sparsemax and 1.5-entmax


@inline
def _is_positive(height):
    return simd.where(height > 0.0, 1.0, 0.0)


@inline
def _squared(height):
    return height * height


@inline
def _rational_sums(block, columns, c, term):
    """Return ``Σ h`` and ``Σ term(h)`` of the heights ``h = [w + c]_+``."""
    w, width = block.w, blocks.width_of(block.w)
    mass = more = terms = others = simd.zeros_like(c)
    for k in range(0, columns * width, blocks.LINE * width):
        a = simd.maximum(simd.load(w, k) + c, 0.0)
        b = simd.maximum(simd.load(w, k + width) + c, 0.0)
        mass += a + b
        terms += term(a) + term(b)
        a = simd.maximum(simd.load(w, k + 2 * width) + c, 0.0)
        b = simd.maximum(simd.load(w, k + 3 * width) + c, 0.0)
        more += a + b
        others += term(a) + term(b)
    return blocks.along_row(block, mass + more), blocks.along_row(block, terms + others)


@inline
def descend(block, columns, c, linear, enough):
    """Descend to the root by Newton steps; return ``c``, still above it, and the step left over."""
    step, above = simd.zeros_like(c), 2.0 * np.finfo(block.w.dtype).eps
    for _ in range(PASSES):
        if linear:
            mass, size = _rational_sums(block, columns, c, _is_positive)
            excess = mass - 1.0
            step = excess / size
        else:
            mass, squares = _rational_sums(block, columns, c, _squared)
            norm = simd.sqrt(squares)
            excess = norm - 1.0
            step = norm * excess / mass
        lower = (c - step) + above
        moves = (excess > enough) & (lower < c)
        if simd.count(moves) == 0:
            break
        c = simd.where(moves, lower, c)
    return c, step


@inline
def _rational_share(w, c, step, linear):
    """Return a share; the last step is subtracted from ``w + c``, which is finer than ``c``."""
    kept = simd.maximum((w + c) - step, 0.0)
    return kept if linear else kept * kept


@inline
def _rational_totals(block, columns, c, step, linear):
    """Return ``Σ p`` (compensated), ``Σ p w`` and the least distance of an entry from ``-c``."""
    width = blocks.width_of(block.w)
    mass = moment = lost = simd.zeros_like(c)
    nearest = mass + 1.0
    for k in range(0, columns * width, width):
        w = simd.load(block.w, k)
        share = _rational_share(w, c, step, linear)
        mass, lost = blocks.compensated_add(mass, lost, share)
        moment += share * w
        nearest = simd.minimum(simd.magnitude((w + c) - step), nearest)
    nearest = -1.0 * blocks.max_along_row(block, -1.0 * nearest)
    return blocks.along_row(block, mass + lost), blocks.along_row(block, moment), nearest


@inline
def _write_rational(problem, block, i, k):
    """Write the distribution of row ``i``, the ``k``-th of the block, from its scores."""
    row, out, linear = problem.rows[i], problem.probs[i], problem.r == 1.0
    size, width, top, r = row.shape[0], blocks.width_of(block.w), block.tops[k], block.r_of_rows[k]
    c, step, scale = block.shares[k], block.heads[k], block.scales[k]
    whole = size // width * width
    for j in range(0, whole, width):
        w = blocks.candidate(simd.load_first_as(block.w, row, j, width, -np.inf), top, r)
        simd.store(out, j, _rational_share(w, c, step, linear) * scale)
    last = simd.load_first_as(block.w, row, whole, size - whole, -np.inf)
    w = blocks.candidate(last, top, r)
    simd.store_first(out, whole, size - whole, _rational_share(w, c, step, linear) * scale)
    # For the loss: ``(1 - c) / r``, with the last step taken.
    block.heads[k] = block.w.dtype.type((1.0 - (np.float64(c) - step)) / problem.r)


@inline
def solve_rational(problem, block, states, state, first, stop):
    """Solve sparsemax or 1.5-entmax for the rows of a block whose state is ``state``."""
    rows, last, linear = problem.rows, stop - 1, problem.r == 1.0
    dtype, rounding = block.w.dtype.type, np.finfo(rows.dtype).eps
    simd.store(block.r_of_rows, 0, simd.splat(dtype(problem.r)))
    columns = blocks.take_lane_maxima(block, rows, first, last)
    c = simd.splat(dtype(1))
    if rows.shape[1] > UNSCREENED:
        blocks.center(block, columns)
        c, _ = descend(block, columns, c, linear, COARSE)
    blocks.set_limits(block, c, dtype(1.0 / problem.r), rounding)
    columns = blocks.take_candidates(block, rows, first, last)
    c, step = descend(block, columns, c, linear, 0.0)
    mass, moment, nearest = _rational_totals(block, columns, c, step, linear)
    scale = 1.0 / mass
    if is_narrow(block):
        # Entries tied next to the threshold may have lost small shares: scale 0 marks a failure.
        settled = (simd.magnitude(mass - 1.0) <= 2.0 * rounding) & (nearest > 2.0 * rounding)
        scale = simd.where(settled, scale, 0.0)
    simd.store(block.totals, 0, mass)
    simd.store(block.moments, 0, moment)
    simd.store(block.scales, 0, scale)
    simd.store(block.heads, 0, step)
    simd.store(block.shares, 0, c)
    return write_rows(problem, block, states, state, first, stop, _write_rational)
