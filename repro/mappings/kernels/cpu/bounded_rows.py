"""The kernels of csoftmax, csparsemax and budget: all rows, and their checks.

A row is read from memory once, with its bounds, and its entries and their places are written: 13
bytes for each entry in single precision.
"""

import math

import numpy as np

from repro.mappings.kernels.cpu import bounded_tiles, box_lanes, capped, tiles
from repro.mappings.kernels.cpu._compile import inner, small
from repro.mappings.kernels.cpu.box_lanes import (
    FIELDS,
    LANES,
    LOOSE,
    MOVES,
    OPEN,
    ROOM,
    TAU,
    TOP,
    TOTAL,
    new_lanes,
)
from repro.mappings.kernels.cpu.box_rows import box_row, near_row
from repro.mappings.kernels.cpu.extremes import largest, largest_open
from repro.mappings.kernels.cpu.padded import copy_in, copy_out, padded_size
from repro.mappings.kernels.cpu.places import EMPTY, FULL
from repro.mappings.kernels.cpu.scratch import borrowed, borrowed_rows, give_back
from repro.mappings.kernels.cpu.search import is_nan
from repro.mappings.kernels.cpu.support import word_count

_GROUPED = 512
"""Rows up to this length are solved several in turn."""


@small
def _clean(row, upper, slack, scores, bounds):
    """Copy a row and its bounds, without negative ones, and ``-inf`` for what cannot have mass.

    Returns:
        The rough sum of the bounds, and how many entries may make the row a special one.
    """
    zero, one, lowest = scores.dtype.type(0), scores.dtype.type(1), scores.dtype.type(-math.inf)
    copy_in(row, scores)
    copy_in(upper, bounds)
    room = odd = zero
    for j in range(np.uint64(scores.shape[0])):
        score, bound = scores[j], bounds[j]
        fine = (bound >= zero) & (score > lowest)
        usual = (bound >= -slack) & (score >= lowest) & (score < -lowest)
        score, bound = score if fine else lowest, bound if fine else zero
        scores[j], bounds[j] = score, bound
        room += bound
        odd += zero if usual else one
    return np.float64(room), odd > zero


@small
def _limit(scores, highest):
    """Make infinite scores finite."""
    highest = scores.dtype.type(highest)
    for j in range(np.uint64(scores.shape[0])):
        scores[j] = scores[j] if scores[j] < highest else highest


@small
def _tolerance(scores):
    """Excess mass at which rows are solved, but for rounding."""
    if scores.itemsize == 4:
        return 1e-7
    return np.finfo(np.float64).eps * (4.0 + math.sqrt(scores.shape[1]))


@inner
def _room(scores, uppers, slack):
    """The sum of the bounds, and whether one is wrong."""
    zero, lowest = scores.dtype.type(0), scores.dtype.type(-math.inf)
    room, wrong = 0.0, False
    for j in range(scores.shape[0]):
        upper = uppers[j] if scores[j] != lowest else zero
        room += np.float64(upper if upper > zero else zero)
        wrong |= is_nan(upper) | (upper < -slack)
    return room, wrong


@inner
def _write_bad(probs, place):
    """NaN in all entries."""
    for j in range(probs.shape[0]):
        probs[j], place[j] = math.nan, EMPTY


@inner
def _write_bounds(scores, uppers, probs, place):
    """All bounds are used up."""
    zero = probs.dtype.type(0)
    for j in range(scores.shape[0]):
        allowed = scores[j] > -math.inf
        share = uppers[j] if uppers[j] > zero else zero
        probs[j] = share if allowed else zero
        place[j] = FULL if allowed & (uppers[j] >= zero) else EMPTY


@inner
def _is_settled(scores, uppers, total, slack, probs, place):
    """Fill a row that needs no solver; whether it is one, and whether it cannot be solved."""
    top, bad = largest(scores)
    room, wrong = _room(scores, uppers, slack)
    present, tight = bad or top > -math.inf, room <= total * (1.0 + np.finfo(scores.dtype).eps)
    fault = wrong or not total > 0.0 or (room < total - slack and present)
    if fault or bad:
        _write_bad(probs, place)
    elif tight:
        _write_bounds(scores, uppers, probs, place)
    return fault or bad or tight, fault


@small
def _take(row, upper, total, slack, highest, scores, bounds, lanes, k, probs, place):
    """Make a row ready to be solved, or fill it; whether it cannot be solved."""
    room, odd = _clean(row, upper, slack, scores, bounds)
    settled = fault = False
    rounding = row.shape[0] * np.finfo(row.dtype).eps
    if odd or not total > 0.0 or not room > total * (bounded_tiles.CLEAR + rounding):
        settled, fault = _is_settled(row, upper, total, slack, probs, place)
        _limit(scores, highest)
    lanes[TOP, k], lanes[ROOM, k] = largest_open(scores, bounds), room
    lanes[TOTAL, k], lanes[OPEN, k] = total, 0.0 if settled else 1.0
    return fault


@small
def _solve_capped(desk, count, tolerance):
    """``ρ`` of csoftmax of the rows on the desk, and ``e``."""
    rows, bounds, shares, lanes = desk
    for k in range(count):
        lanes[MOVES, k] = lanes[OPEN, k]
        if lanes[OPEN, k] > 0.0:
            row, bound = borrowed(rows, k), borrowed(bounds, k)
            lanes[TAU, k] = 1.0 / capped.grow(row, bound, lanes[TOP, k], borrowed(shares, k))
    capped.descend(shares, bounds, lanes, count)
    for k in range(count):
        if lanes[OPEN, k] > 0.0:
            row, bound, share = borrowed(rows, k), borrowed(bounds, k), borrowed(shares, k)
            ratio, good = capped.finish(share, bound, lanes[TAU, k], tolerance)
            if not good:
                ratio = capped.again(row, bound, share, lanes[TOP, k], ratio, tolerance)
            lanes[TAU, k] = ratio


@small
def _solve_box(desk, count):
    """``τ`` of csparsemax or budget of the rows on the desk, but for rounding."""
    rows, bounds, _, lanes = desk
    for k in range(count):
        lanes[MOVES, k] = lanes[OPEN, k]
        if lanes[OPEN, k] > 0.0:
            box_lanes.start(borrowed(rows, k), borrowed(bounds, k), lanes, k)
    box_lanes.descend(rows, bounds, lanes, count)


@small
def _fill(desk, k, order, tolerance, places):
    """Write a row on the desk; whether its sum is right."""
    rows, bounds, shares, lanes = desk
    row, bound, share = borrowed(rows, k), borrowed(bounds, k), borrowed(shares, k)
    if order == 0.0:
        capped.write(row, bound, share, lanes[TAU, k], share, places)
        return True
    return box_lanes.finish(row, bound, lanes, k, tolerance, share, places)


@inner
def _try_near(scores, uppers, total, limit, lanes, probs, place):
    """Solve a long row on few of its entries where bounds are loose; whether that was enough."""
    if not lanes[OPEN, 0] > 0.0 or lanes[ROOM, 0] <= LOOSE * total:
        return False
    size = scores.shape[0]
    reals, integers = np.empty((2, size + 8)), np.empty((1, size + 1), np.int32)
    words = np.empty((1, word_count(size)), np.uint64)
    lists = borrowed(reals, 0), borrowed(reals, 1), borrowed(words, 0), borrowed(integers, 0)
    found = near_row(scores, uppers, total, lanes[TOP, 0], limit, lists, probs, place)
    give_back(reals)
    give_back(integers)
    give_back(words)
    return found


@small
def _new_desk(group, padded, dtype):
    """Memory for rows that are solved in turn, their bounds and their shares, filled up."""
    memory = np.empty((3 * group, padded), dtype)
    memory[:group] = -math.inf
    memory[group:] = 0.0
    return memory


@small
def _of(values, i):
    """What row ``i`` has of one or many."""
    return values[i if values.shape[0] > 1 else 0]


@small
def _put_back(
    scores, uppers, totals, limit, desk, first, count, order, tolerance, places, probs, place
):
    """Write the rows on the desk; those that were filled before stay as they are."""
    for k in range(count):
        i = first + k
        if desk[3][OPEN, k] == 0.0:
            continue
        if _fill(desk, k, order, tolerance, places):
            copy_out(borrowed(desk[2], k), probs[i])
            copy_out(places, place[i])
        else:
            box_row(scores[i], _of(uppers, i), _of(totals, i), limit, probs[i], place[i])


@inner
def plain_rows(scores, uppers, totals, order, slack, limit, probs, place, start, stop, group):
    """Distributions of rows, so many in turn; returns how many cannot be solved."""
    size, faults = scores.shape[1], 0
    padded = padded_size(size)
    tolerance, memory = _tolerance(scores), _new_desk(group, padded, scores.dtype)
    lane_memory, bytes_ = new_lanes(group), np.empty((1, padded), np.uint8)
    places, lanes = borrowed(bytes_, 0), borrowed_rows(lane_memory, 0, FIELDS)
    desk = (
        borrowed_rows(memory, 0, group), borrowed_rows(memory, group, group),
        borrowed_rows(memory, 2 * group, group), lanes,
    )  # fmt: skip
    for first in range(start, stop, group):
        count = min(group, stop - first)
        for k in range(count):
            i = first + k
            faults += _take(
                scores[i], _of(uppers, i), _of(totals, i), slack, limit,
                borrowed(desk[0], k), borrowed(desk[1], k), lanes, k, probs[i], place[i],
            )  # fmt: skip
        if order == 0.0:
            _solve_capped(desk, count, tolerance)
        elif group == 1 and _try_near(
            scores[first], _of(uppers, first), _of(totals, first), limit, lanes,
            probs[first], place[first],
        ):  # fmt: skip
            continue
        else:
            _solve_box(desk, count)
        _put_back(
            scores, uppers, totals, limit, desk, first, count, order, tolerance, places, probs,
            place,
        )  # fmt: skip
    give_back(memory)
    give_back(lane_memory)
    give_back(bytes_)
    return faults


@inner
def tiled_rows(scores, uppers, totals, order, slack, limit, probs, place, start, stop):
    """The same of short rows in single precision, as many at a time as a vector has lanes."""
    faults, width = 0, tiles.width_of(scores)
    memory, numbers = bounded_tiles.new_room(scores), tiles.new_numbers(scores, 10)
    ends = np.zeros((1, width), np.int64)
    desk = (
        (borrowed(memory, 0), borrowed(memory, 1), borrowed(memory, 2), borrowed(memory, 3)),
        (borrowed(memory, 4), borrowed(memory, 5)),
        borrowed(numbers, 0), borrowed(numbers, 1), borrowed(numbers, 2), borrowed(numbers, 3),
        borrowed(numbers, 4),
        (
            borrowed(numbers, 5), borrowed(numbers, 6), borrowed(numbers, 7), borrowed(numbers, 8),
            borrowed(numbers, 9),
        ),
        borrowed(ends, 0),
    )  # fmt: skip
    for first in range(start, stop, width):
        again = bounded_tiles.solve_tile(
            scores, uppers, totals, slack, order, first, stop - 1, desk
        )
        bounded_tiles.write_tile(order, first, stop, desk, probs, place)
        if again > 0:
            for i in range(first, min(first + width, stop)):
                if desk[6][i - first] > 0.0:
                    faults += plain_rows(
                        scores, uppers, totals, order, slack, limit, probs, place, i, i + 1, 1
                    )
    give_back(memory), give_back(numbers), give_back(ends)
    return faults


@inner
def bounded_rows(scores, uppers, totals, order, slack, limit, probs, place, start, stop):
    """Distributions of rows ``start`` to ``stop``; returns how many cannot be solved.

    Bounds, and totals, are one row or one for each row; ``limit`` is the largest number.
    """
    slack, short = scores.dtype.type(slack), scores.shape[1] <= _GROUPED
    if short and scores.itemsize == 4:
        return tiled_rows(scores, uppers, totals, order, slack, limit, probs, place, start, stop)
    group = LANES if short else 1
    return plain_rows(scores, uppers, totals, order, slack, limit, probs, place, start, stop, group)
