"""α-entmax and its losses: the solver, for every α, short and long rows, both precisions.

With ``r = α - 1``, candidates ``w = r (z - max z)`` in ``[-1, 0]`` and the unknown ``c`` in
``(0, 1]``, the distribution is ``p = [w + c]_+^{1/r}``, where ``c`` solves (Peters et al. 2019,
Lemma 2, with ``c = 1 - r (τ - max z)`` in their notation of the threshold)::

    N(c) = ‖[w + c]_+‖_{1/r} = 1.

For ``r <= 1`` the norm is convex and increasing: Newton's method from any point leads above the
root, and then descends to it. Four curves are distinguished:

``r = 1`` and ``r = ½`` (sparsemax, 1.5-entmax)
    Newton's steps are rational and start at ``c = 1``. They stop when a step does not exceed twice
    the machine epsilon. Until then ``c`` is kept above the root by that much: just below it,
    entries tied at the threshold would be lost.
``r < 1``
    Powers are needed, of heights ``h = (w + c) / c``, and the unknown is ``1 / c - 1``, which keeps
    its digits as ``r -> 0`` (softmax). Above ``r = ½`` steps start at the root of 1.5-entmax, which
    is an upper bound and needs no powers; below, at ``c = 1``. Steps are taken with powers of five
    digits until the excess ``log Σ p`` is below ``8e-3`` (rough powers first: 18 to 24 % less time
    at 50 columns, 3 to 18 % at 400), then with exact powers until it is below
    ``sqrt(eps) / 2``. The last step is the second-order series of the power instead of new powers
    (13 to 18 %), applied to the shares of the last pass, which are kept (half the time at α = 1.75
    and 400 columns).
``r > 1``
    The norm is not convex across its kinks, where an entry gets mass with infinite slope. Newton's
    steps start at the root of sparsemax, an upper bound, and are taken while they stay in a bracket
    and halve the excess; else the bracket is halved geometrically. Computed in double precision.
    Entries tied at the threshold have no digits beside ``c``: then the logarithm of the height of
    the lowest entry with mass is halved instead (:func:`_solve_tied`).

float32 rows are solved in float32 for ``0.04 <= r <= 1``. Excesses are logarithms in double
precision, which are few. A row whose shares do not sum to what the threshold says, as the last step
has met a kink or entries are tied, is solved again in double precision; without this, errors reach
1.4e-5 on such rows. Sums of shares are compensated: ``|Σ p - 1|`` is 1e-7 instead of 7e-6. The rest
that their rounding leaves takes part in the excess and in the factor of the results, without which
errors of rows with thousands of tied entries are 2.5e-7 instead of 1.7e-7.

Losses are ``max_Ω(z) - z_y``: with ``p^r = w + c`` on the support, ``<p, z> - Ω(p)`` is
``(Σ p w + (1 - c) / r) / (1 + r)`` above the largest score.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numba import types

from repro.mappings.kernels.cpu.blocks import (
    LINE,
    along_row,
    candidate,
    centre,
    compensated_add,
    fill,
    max_along_row,
    number_of_row,
    pack,
    rows_in,
    scatter,
    set_limits,
    stride_of,
    take_candidates,
    take_heads,
    width_of,
)
from repro.mappings.kernels.cpu.compile import chosen_by_type, inline
from repro.mappings.kernels.cpu.elementary import (
    exponential,
    logarithm,
    power,
    reciprocal,
    rough_power,
)
from repro.mappings.kernels.cpu.simd import (
    count,
    highest,
    join,
    load,
    load_first_as,
    lower_half,
    magnitude,
    maximum,
    minimum,
    splat,
    sqrt,
    store,
    store_first,
    upper_half,
    where,
    wide_total,
    zeros_like,
)

_PASSES = 100
"""Newton's method needs two to ten passes, halving up to 70."""
_COARSE = 1e-2
"""Excess mass of heads: a limit need not be close to its root."""
_LOWEST_ORDER = 0.04
"""Below this ``r`` float32 loses digits: what is left of ``c`` has the power ``1 / r > 25``."""
_SMALLEST_ORDER = 1e-20
"""Stands for ``r = 0``, softmax: ``log(1 + r x) / r`` is then ``x`` to the last bit."""
_ROUGH_EXCESS, _ROUGH_STEP = 8e-3, 1.6e-2
"""Excess before the last rough step, for ``r > ½``, and ``r`` times it for ``r <= ½``.

Newton's step leaves about ``0.6 r²`` of the square of the excess for N(0, 1) scores. What is left
is then below the excess at which the last step is taken, so that one exact pass is enough.
"""
_LARGEST_CUT = 1.0 - 1e-6
"""A step that takes all of ``c`` away only seems to: its slope has five digits."""
_LARGEST_ORDER = 1e9
"""Stands for larger ``r``: all mass is on entries as large as the largest."""
_EXCESS_ABOVE_2 = 1e-12
"""Excess at the end for ``r > 1``; the normalization takes it away."""
_HALVED = 0.5
"""For ``r > 1`` a Newton step is only taken after one that left less than this of the excess."""
_RATIONAL_START = 0.3
"""Above this ``r`` steps on heads begin at the root of 1.5-entmax or sparsemax."""
_BOUND_ROUNDING = 1e-4
"""By which bounds from rough powers are loosened."""
_UNSCREENED = 64
"""Rows up to this length are solved without screening, unless they need powers and ``r > 0.2``:
at 50 columns screening costs sparsemax 31 %, 1.5-entmax 39 %, α = 1.25 10 %; it saves α = 1.75
41 %."""
_UNSCREENED_ORDER = 0.2
_KINK, _SHARP_KINK, _WIDE_KINK = 2e-7, 6e-8, 1.4e-14
"""Error of ``log Σ p`` beyond rounding, for ``r <= ½``, above, and in double precision."""
_ENDINGS = 4
"""Times that the last step is taken in double precision; more than one if it has met a kink."""
_TIED_BELOW, _TIED_ABOVE = -1e-12, 1e-4
"""For ``r > 1``, heights between these have few digits."""
_KINKED = 1e-12
"""Excess that is left for ``r > 1`` only where a rounding of ``c`` decides about an entry.

Rows with more are solved by logarithms; with 1e-8 here, float64 values are up to 1e-8 off.
"""
_DEEPEST, _SHALLOWEST = -700.0, math.log(1e-2)
"""Between these is, relative to ``c``, the logarithm of the lowest height of tied rows."""
_HALVINGS = 64
DONE, NARROW, WIDE, ALONE = range(4)
"""State of a row: solved, or left to a block in its precision, in double, or of its own."""


class Problem(NamedTuple):
    """Arguments of the kernel."""

    rows: Any  # scores, shape (rows, n)
    order: Any  # ``r`` of all rows
    orders: Any  # ``r`` of each row, or empty
    targets: Any  # classes, or empty where no losses are wanted
    ignored: Any  # the target of rows without a loss
    probs: Any  # room for distributions, shape (rows, n)
    losses: Any  # room for losses, or empty


@inline
def order_of(problem, i):
    """``r`` of a row."""
    return number_of_row(problem.order, problem.orders, i)


@inline
def is_narrow(block):
    """Whether a block is in single precision; rows that it does not solve are solved in double."""
    return block.w.itemsize == 4


# Sparsemax and 1.5-entmax


@inline
def _is_positive(height):
    return where(height > 0.0, 1.0, 0.0)


@inline
def _squared(height):
    return height * height


@inline
def _rational_sums(block, columns, c, term):
    """``Σ h`` and ``Σ term(h)`` of the heights ``h = [w + c]_+``."""
    w, width = block.w, width_of(block.w)
    mass = more = terms = others = zeros_like(c)
    for k in range(0, columns * width, LINE * width):
        a, b = maximum(load(w, k) + c, 0.0), maximum(load(w, k + width) + c, 0.0)
        mass += a + b
        terms += term(a) + term(b)
        a, b = maximum(load(w, k + 2 * width) + c, 0.0), maximum(load(w, k + 3 * width) + c, 0.0)
        more += a + b
        others += term(a) + term(b)
    return along_row(block, mass + more), along_row(block, terms + others)


@inline
def descend(block, columns, c, linear, enough):
    """``c`` of every row with little excess, above the root, and the step that is left."""
    step, above = zeros_like(c), 2.0 * np.finfo(block.w.dtype).eps
    for _ in range(_PASSES):
        if linear:
            mass, size = _rational_sums(block, columns, c, _is_positive)
            excess = mass - 1.0
            step = excess / size
        else:
            mass, squares = _rational_sums(block, columns, c, _squared)
            norm = sqrt(squares)
            excess = norm - 1.0
            step = norm * excess / mass
        lower = (c - step) + above
        moves = (excess > enough) & (lower < c)
        if count(moves) == 0:
            break
        c = where(moves, lower, c)
    return c, step


@inline
def _rational_share(w, c, step, linear):
    """A share; the last step acts on ``w + c``, whose digits are finer than those of ``c``."""
    kept = maximum((w + c) - step, 0.0)
    return kept if linear else kept * kept


@inline
def _rational_totals(block, columns, c, step, linear):
    """``Σ p``, compensated, ``Σ p w``, and the distance of the nearest entry from the threshold."""
    width = width_of(block.w)
    mass = moment = lost = zeros_like(c)
    nearest = mass + 1.0
    for k in range(0, columns * width, width):
        w = load(block.w, k)
        share = _rational_share(w, c, step, linear)
        mass, lost = compensated_add(mass, lost, share)
        moment += share * w
        nearest = minimum(magnitude((w + c) - step), nearest)
    nearest = -1.0 * max_along_row(block, -1.0 * nearest)
    return along_row(block, mass + lost), along_row(block, moment), nearest


@inline
def _write_rational(problem, block, i, k):
    """Write the distribution of row ``i``, the ``k``-th of the block, computed from its scores."""
    row, out, linear = problem.rows[i], problem.probs[i], problem.order == 1.0
    size, width = row.shape[0], width_of(block.w)
    c, step, order, scale = block.shares[k], block.leads[k], block.orders[k], block.scales[k]
    for j in range(0, size, width):
        w = candidate(load_first_as(block.w, row, j, size - j, -np.inf), block.tops[k], order)
        store_first(out, j, size - j, _rational_share(w, c, step, linear) * scale)
    block.leads[k] = block.w.dtype.type((1.0 - (np.float64(c) - step)) / problem.order)


@inline
def solve_rational(problem, block, states, state, first, stop):
    """Sparsemax or 1.5-entmax of the rows of a block that are in a state."""
    rows, last, linear = problem.rows, stop - 1, problem.order == 1.0
    dtype, rounding = block.w.dtype.type, np.finfo(rows.dtype).eps
    block.orders[:] = dtype(problem.order)
    columns = take_heads(block, rows, first, last)
    c = splat(dtype(1))
    if rows.shape[1] > _UNSCREENED:
        centre(block, columns)
        c, _ = descend(block, columns, c, linear, _COARSE)
    set_limits(block, c, dtype(1.0 / problem.order), rounding)
    columns = take_candidates(block, rows, first, last)
    c, step = descend(block, columns, c, linear, 0.0)
    mass, moment, nearest = _rational_totals(block, columns, c, step, linear)
    scale = 1.0 / mass
    if is_narrow(block):
        # Entries that are tied next to the threshold may have lost small shares.
        settled = (magnitude(mass - 1.0) <= 2.0 * rounding) & (nearest > 2.0 * rounding)
        scale = where(settled, scale, 0.0)
    store(block.totals, 0, mass)
    store(block.moments, 0, moment)
    store(block.scales, 0, scale)
    store(block.leads, 0, step)
    store(block.shares, 0, c)
    return _write_rows(problem, block, states, state, first, stop, _write_rational)


@inline
def _write_rows(problem, block, states, state, first, stop, write):
    """Write the rows of a block that are in a state, or leave them to a block of their own.

    Returns:
        The number of bad targets.
    """
    wrong = 0
    for k in range(stop - first):
        i = first + k
        if states[k] != state:
            continue
        bad = block.bads[k] > 0.0 or not order_of(problem, i) >= 0.0
        if bad or block.peaks[k] == -np.inf:
            fill(problem.probs[i], math.nan if bad else 0.0)
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
    """Write the loss of row ``i``, the ``k``-th of a block; return whether its target is bad."""
    row, target, loss, wrong = problem.rows[i], problem.targets[i], math.nan, False
    if target == problem.ignored:
        loss = 0.0
    elif target < 0 or target >= row.shape[0]:
        wrong = True
    elif row[target] == -np.inf:
        loss = math.inf
    else:
        moment = np.float64(block.moments[k]) / block.totals[k]
        best = (moment + block.leads[k]) / (1.0 + np.float64(block.orders[k]))
        loss = best - min(np.float64(row[target]) - block.tops[k], 0.0)
        loss = loss if not loss < 0.0 else 0.0
    problem.losses[i] = loss
    return wrong


# Powers


@inline
def _excess(total, rise, order):
    """``r log(Σ p)`` of double vectors, from sums relative to ``c`` and ``1 / c - 1``."""
    share, c = 1.0 / total, 1.0 / (1.0 + rise)
    return logarithm(-1.0 * rise * c, c) - order * logarithm(share - 1.0, share)


@chosen_by_type
def _precise_excess(total, rise, order):
    """:func:`_excess` of vectors of either precision, computed in double."""
    if total.real == types.float64:
        return lambda total, rise, order: _excess(total, rise, order)

    def in_halves(total, rise, order):
        low = _excess(lower_half(total), lower_half(rise), lower_half(order))
        high = _excess(upper_half(total), upper_half(rise), upper_half(order))
        return join(low, high)

    return in_halves


@inline
def _compensated(block, mass, lost):
    """A sum along each row, given what its terms have lost, and the rest that rounding leaves."""
    if block.in_lanes:
        total = mass + lost
        return total, (mass - total) + lost
    exact, real = wide_total(mass) + wide_total(lost), block.w.dtype.type
    return splat(real(exact)), splat(real(exact - np.float64(real(exact))))


@inline
def _sums(block, columns, rise, slowness):
    """``Σ h^{1/r}`` and its rest, and ``Σ h^{1/r - 1}`` to five digits; keeps ``h^{1/r}``."""
    width = width_of(block.w)
    mass = lost = slope = zeros_like(rise)
    for k in range(0, columns * width, width):
        w = load(block.w, k)
        below = maximum(w * rise + w, -1.0)  # rounded once where there are fused operations
        height = below + 1.0
        share = power(below, height, slowness)
        store(block.shares, k, share)
        mass, lost = compensated_add(mass, lost, share)
        slope += share * reciprocal(where(height > 0.0, height, 1.0))
    total, rest = _compensated(block, mass, lost)
    return maximum(total, 1.0), rest, maximum(along_row(block, slope), 1.0)


@inline
def _newton_cut(total, slope, excess):
    """The share of ``c`` that Newton's step for the norm takes away, given its logarithm."""
    # 1 - exp(-x) loses digits for small x, where the Padé approximant is exact.
    near = excess / (1.0 + excess * (0.5 + excess * (1.0 / 12.0)))
    far = 1.0 - exponential(maximum(minimum(-1.0 * excess, 60.0), -60.0))
    cut = total / slope * where(magnitude(excess) < 0.1, near, far)
    return minimum(cut, _LARGEST_CUT)


@inline
def _rough_step(block, columns, rise, order, slowness):
    """The share of ``c`` that a step takes away, and the excess, from powers of five digits."""
    width, growth = width_of(block.w), rise + 1.0
    total = slope = zeros_like(rise)
    for k in range(0, columns * width, width):
        height = load(block.w, k) * growth + 1.0
        positive = height > 0.0
        height = where(positive, height, 1.0)
        share = where(positive, rough_power(height, slowness), 0.0)
        total += share
        slope += share * reciprocal(height)
    total, slope = maximum(along_row(block, total), 1.0), maximum(along_row(block, slope), 1.0)
    if is_narrow(block):
        # Five digits are enough for r <= 1, and one power is quicker than logarithms.
        excess = 1.0 - rough_power(1.0 / total, order) * growth
        return minimum(total * excess / slope, _LARGEST_CUT), excess
    excess = _excess(total, rise, order)
    return _newton_cut(total, slope, excess), excess


@inline
def _new_bracket(order, size):
    """Bounds of ``1 / c`` that hold for so many entries, and the excess before."""
    zero, high = zeros_like(order), exponential(minimum(order * math.log(size), -_DEEPEST))
    return zero + 0.5, 2.0 * high, zero + math.inf


@inline
def _advance(block, rise, cut, excess, order, bracket):
    """``1 / c - 1`` after a step, the bracket after it, and where there is no way to go."""
    low, high, last = bracket
    newton, above_2 = maximum((rise + cut) / (1.0 - cut), 0.0), order > 1.0
    if is_narrow(block) or count(above_2) == 0:
        return newton, bracket, above_2
    growth, reached = rise + 1.0, newton + 1.0
    low, high = where(excess > 0.0, growth, low), where(excess > 0.0, high, growth)
    size = magnitude(excess)
    taken = (low < reached) & (reached < high) & (size < _HALVED * last)
    middle = sqrt(low) * sqrt(high)
    stuck = above_2 & ((middle <= low) | (middle >= high)) & ~taken
    following = where(taken | ~above_2, newton, middle - 1.0)
    return where(stuck, rise, following), (low, high, size), stuck


@inline
def _bound(block, columns, order, slowness):
    """A lower bound of ``1 / c - 1`` from the heads of the rows.

    Steps begin, for larger ``r``, at the root of a curve without powers; one Newton step with
    powers follows, as a second leaves out no more entries.
    """
    rise = zeros_like(order)
    rational, above_2 = order > _RATIONAL_START, order > 1.0
    if count(rational) > 0:
        c, _ = descend(block, columns, rise + 1.0, count(above_2) > 0, _COARSE)
        rise = where(rational, 1.0 / c - 1.0, rise)
    cut, _ = _rough_step(block, columns, rise, order, slowness)
    rise = where(above_2, rise, maximum((rise + cut) / (1.0 - cut), 0.0))
    return maximum(rise - _BOUND_ROUNDING * (rise + order), 0.0)


@inline
def _descend_roughly(block, columns, rise, order, slowness, usual):
    """``1 / c - 1`` after the last rough step."""
    bracket, moves = _new_bracket(order, columns * width_of(block.w)), usual
    enough = where(order > 0.5, _ROUGH_EXCESS * order, _ROUGH_STEP)
    for _ in range(_PASSES):
        cut, excess = _rough_step(block, columns, rise, order, slowness)
        following, bracket, stuck = _advance(block, rise, cut, excess, order, bracket)
        rise = where(moves, following, rise)
        moves = moves & (magnitude(excess) > enough) & ~stuck
        if count(moves) == 0:
            break
    return rise


@inline
def _take_last_step(block, columns, rise, cut, slowness):
    """Lower all shares by two terms of the power's series.

    A share is NaN where a step back is longer than a height, which the rounding of ``c`` may have
    made zero.

    Returns:
        The sum of the shares and its rest, by how much it fell, and ``Σ p w``.
    """
    width = width_of(block.w)
    mass = moment = lost = less = zeros_like(rise)
    for k in range(0, columns * width, width):
        w, before = load(block.w, k), load(block.shares, k)
        height = (w * rise + w) + 1.0
        part = cut * reciprocal(where(height > 0.0, height, 1.0))
        fall = slowness * part * (1.0 - 0.5 * (slowness - 1.0) * part)
        share = where(height + cut > 0.0, maximum(before - before * fall, 0.0), math.nan)
        share = where(height > cut, share, 0.0)
        store(block.shares, k, share)
        less += before - share
        mass, lost = compensated_add(mass, lost, share)
        moment += share * w
    found, rest = _compensated(block, mass, lost)
    return found, rest, along_row(block, less), along_row(block, moment)


@inline
def _solve_powers(block, columns, rise, order, slowness, usual):
    """Fill ``shares`` with unnormalized distributions, and write their totals, moments, leads.

    Returns:
        The rows that are not settled.
    """
    above_2 = order > 1.0
    enough = where(above_2, _EXCESS_ABOVE_2 * order, 0.5 * math.sqrt(np.finfo(block.w.dtype).eps))
    kink, endings = where(order > 0.5, _SHARP_KINK, _KINK), 1
    if not is_narrow(block):
        kink, endings = zeros_like(order) + _WIDE_KINK, _ENDINGS
    rise = _descend_roughly(block, columns, rise, order, slowness, usual)
    unsettled, excess = usual, rise
    for _ in range(endings):
        bracket = _new_bracket(order, columns * width_of(block.w))
        total = slope = cut = rise
        moves = usual
        for _ in range(_PASSES):
            total, rest, slope = _sums(block, columns, rise, slowness)
            excess = _precise_excess(total, rise, order) + order * rest / total
            cut = _newton_cut(total, slope, excess)
            moves &= magnitude(excess) > enough
            if count(moves) == 0:
                break
            following, bracket, stuck = _advance(block, rise, cut, excess, order, bracket)
            rise = where(moves, following, rise)
            moves &= ~stuck
        cut = where(above_2, 0.0, cut)
        found, rest, less, moment = _take_last_step(block, columns, rise, cut, slowness)
        # The sum of the shares is c^{-1/r} unless the last step has met a kink.
        change = less / total
        left = excess - order * change * (1.0 + 0.5 * change)
        unsettled = usual & ~(magnitude(left) <= kink * order) & ~above_2
        store(block.totals, 0, found)
        store(block.rests, 0, rest)
        store(block.moments, 0, moment)
        store(block.leads, 0, (rise + cut) / (rise + 1.0) / order)
        store(block.scales, 0, 1.0 / (rise + 1.0))
        if count(unsettled) == 0:
            break
        rise = where(unsettled, maximum((rise + cut) / (1.0 - cut), 0.0), rise)
    if is_narrow(block):
        return unsettled
    kinked = usual & (magnitude(excess) > _KINKED * order)
    return unsettled | (above_2 & (kinked | _has_ties(block, columns, rise)))


# Ties


@inline
def _has_ties(block, columns, rise):
    """Rows of which a height has few digits."""
    width, found = width_of(block.w), zeros_like(rise)
    for k in range(0, columns * width, width):
        w = load(block.w, k)
        height = (w * rise + w) + 1.0
        found = where((height > _TIED_BELOW) & (height < _TIED_ABOVE), 1.0, found)
    return max_along_row(block, found) > 0.0


@inline
def _move_down(block, columns, distance):
    """Take entries relative to one that is so much above zero; return the lowest one above it."""
    width, lowest = width_of(block.w), splat(block.w.dtype.type(np.inf))
    for k in range(0, columns * width, width):
        w = load(block.w, k) - distance
        store(block.w, k, w)
        lowest = where((w > 0.0) & (w < lowest), w, lowest)
    return -highest(-1.0 * lowest)


@inline
def _raised(block, columns, rise, slowness):
    """Write ``(w + rise)^{1/r}``; return the sum and that of ``p w``."""
    width, rise = width_of(block.w), splat(block.w.dtype.type(rise))
    mass = moment = zeros_like(rise)
    for k in range(0, columns * width, width):
        w = load(block.w, k)
        height = w + rise
        share = power(height - 1.0, maximum(height, 0.0), splat(slowness))
        store(block.shares, k, share)
        mass += share
        moment += share * w
    return wide_total(mass), wide_total(moment)


@inline
def _solve_tied(block, columns, order):
    """Solve a long row with ``r > 1`` whose entries next to the threshold have few digits.

    Entries are taken relative to the lowest with mass, which is next to the threshold or just above
    it, and the logarithm of its height is halved.
    """
    width, c, anchors = width_of(block.w), load(block.scales, 0), zeros_like(load(block.w, 0))
    for k in range(0, columns * width, width):
        w = load(block.w, k)
        anchors = where((w + c > _TIED_BELOW * c) & (w < anchors), w, anchors)
    anchor, slowness = -highest(-1.0 * anchors), block.w.dtype.type(1.0 / order)
    low, high = _DEEPEST, _SHALLOWEST + math.log(-anchor)
    above, middle, halvings, lifting = _move_down(block, columns, anchor), low, 0, True
    while halvings < _HALVINGS:
        mass, _ = _raised(block, columns, math.exp(middle), slowness)
        if lifting and mass > 1.0 and above < math.inf:
            anchor += above
            above = _move_down(block, columns, above)
            continue
        if not lifting:
            low, high = (low, middle) if mass > 1.0 else (middle, high)
        lifting, halvings, middle = False, halvings + 1, 0.5 * (low + high)
    mass, moment = _raised(block, columns, math.exp(high), slowness)
    block.totals[:], block.rests[:], block.moments[:] = mass, 0.0, moment + anchor * mass
    block.leads[:] = (1.0 - (math.exp(high) - anchor)) / order


# Rows


@inline
def _write_powers(problem, block, i, k):
    """Write the distribution of row ``i``, the ``k``-th of the block."""
    start = k * stride_of(problem.rows) if block.in_lanes else 0
    scatter(problem.rows[i], block.limits[k], block.packed, start, problem.probs[i])


@inline
def solve_powers(problem, block, states, state, first, stop):
    """α-entmax at any order of the rows of a block that are in a state."""
    rows, last = problem.rows, stop - 1
    low, high = (_LOWEST_ORDER, 1.0) if is_narrow(block) else (_SMALLEST_ORDER, _LARGEST_ORDER)
    for k in range(block.orders.shape[0]):
        r = order_of(problem, min(first + k, last))
        # Rows in other states, and NaN, get some number that suits the precision.
        block.orders[k] = block.w.dtype.type(min(max(r, low), high) if r >= 0.0 else 1.0)
    columns = take_heads(block, rows, first, last)
    order = load(block.orders, 0)
    slowness, rise = 1.0 / order, zeros_like(order)
    if rows.shape[1] > _UNSCREENED or count(order > _UNSCREENED_ORDER) > 0:
        centre(block, columns)
        rise = _bound(block, columns, order, slowness)
    set_limits(block, 1.0 / (1.0 + rise), slowness, np.finfo(rows.dtype).eps)
    columns = take_candidates(block, rows, first, last)
    usual = (load(block.bads, 0) == 0.0) & (load(block.peaks, 0) > -np.inf)
    unsettled = _solve_powers(block, columns, rise, order, slowness, usual)
    if count(unsettled) > 0 and not block.in_lanes and block.orders[0] > 1.0:
        _solve_tied(block, columns, np.float64(block.orders[0]))
        unsettled &= ~unsettled
    total = load(block.totals, 0)
    scale = 1.0 / total
    store(block.scales, 0, where(unsettled & usual, 0.0, scale))
    store(block.rests, 0, scale * ((1.0 - total * scale) - scale * load(block.rests, 0)))
    pack(block, block.shares, columns, stride_of(rows))
    return _write_rows(problem, block, states, state, first, stop, _write_powers)


@inline
def solve_rows(solve, problem, narrow, wide, wide_row, states, start, stop):
    """Solve rows in blocks; return the number of bad targets.

    Which blocks a row goes through depends on itself alone, so that its result does as well.

    Args:
        solve: the solver of a block, :func:`solve_rational` or :func:`solve_powers`.
        problem: what is to be solved.
        narrow: a block in the precision of the rows.
        wide: a tile in double precision; for long rows, a row block.
        wide_row: a row block in double precision.
        states: room for the state of each row of ``narrow``.
        start: first row.
        stop: end of the rows.
    """
    wrong, group, many = 0, states.shape[0], rows_in(wide)
    for first in range(start, stop, group):
        last = min(first + group, stop)
        states[:], singles = WIDE, 0
        if is_narrow(narrow):
            for i in range(first, last):
                if _LOWEST_ORDER <= order_of(problem, i) <= 1.0:
                    states[i - first], singles = NARROW, singles + 1
            if singles > 0:
                wrong += solve(problem, narrow, states, NARROW, first, last)
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
