"""Rows of a program: their addresses, reads and writes, scaling and checks.

A program has ``M`` rows. A row is held in a tile of ``N`` entries (``HELD``), or read in chunks of
``N``.

Arguments of kernels are matrices of ``count`` rows of ``n`` entries: ``scores`` or ``probs``, the
incoming gradients ``grads``, and results, which are ``probs`` or ``out``. A ``parameter`` is the
bits of a double for all rows, or a pointer to numbers of the rows, ``stride`` apart.

Triton checks every module constant that a kernel uses before each launch (0.5 µs each), so
constants are written inside the functions that use them, except in ``level_sets.py``.
"""

from typing import Any, NamedTuple

import triton
import triton.language as tl


class Rows(NamedTuple):
    """The rows of a program: pointers to their first entries, which rows exist, and the length."""

    base: Any
    inside: Any
    n: Any


class ScaledRows(NamedTuple):
    """Rows of scores ``z`` that are read as ``w = scale (z - shift)``; see :class:`Rows`.

    ``shift`` is the largest score of each row, finite; ``scale`` is in double precision.
    """

    base: Any
    inside: Any
    n: Any
    shift: Any
    scale: Any


class Selection(NamedTuple):
    """Entries of the rows of a program that are held in registers.

    They are all entries of rows that fit, else the two largest of each column over all chunks: of
    a long row usually all that have mass.

    Attributes:
        scores: the entries, ``(M, N)``, or ``(M, 2 N)`` in pairs.
        starts: of pairs, the first columns of their chunks; -1 where there is no entry.
        other: the largest entry of each row that is not held.
        top: the largest entry of each row.
        bad: whether there is a NaN in a row.
    """

    scores: Any
    starts: Any
    other: Any
    top: Any
    bad: Any


@triton.jit
def row_numbers(count, M: tl.constexpr):
    """Return the numbers of the rows of the program, and which of them exist."""
    numbers = tl.program_id(0).to(tl.int64) * M + tl.arange(0, M)
    return numbers, numbers < count


@triton.jit
def rows_of(matrix, count, n, M: tl.constexpr):
    """Return the :class:`Rows` of the program in a matrix."""
    numbers, inside = row_numbers(count, M)
    return Rows(matrix + numbers * n, inside, n)


@triton.jit
def row_parameters(parameter, stride, count, M: tl.constexpr):
    """Return a parameter of every row in double precision; 1.5 for rows that do not exist."""
    numbers, inside = row_numbers(count, M)
    if parameter.dtype.is_ptr():
        found = tl.load(parameter + numbers * stride, mask=inside, other=1.5).to(tl.float64)
    else:
        found = tl.full([M], 0.0, tl.float64) + as_double(parameter)
    return found


@triton.jit
def cells(rows, start, N: tl.constexpr):
    """Return pointers to a chunk of the rows, and which of its entries exist."""
    columns = start + tl.arange(0, N)
    return rows.base[:, None] + columns[None, :], rows.inside[:, None] & (columns < rows.n)[None, :]


@triton.jit
def read(rows, start, N: tl.constexpr, other):
    """Read a chunk of the rows, with ``other`` where there is no entry."""
    pointers, valid = cells(rows, start, N)
    return tl.load(pointers, mask=valid, other=other)


@triton.jit
def read_where(rows, wanted, start, N: tl.constexpr):
    """Read the entries of a chunk where ``wanted`` is true; the others are zero and not read."""
    return tl.load(cells(rows, start, N)[0], mask=wanted, other=0.0)


@triton.jit
def read_scaled(rows, start, N: tl.constexpr, COMPUTE: tl.constexpr):
    """Read a chunk of :class:`ScaledRows` as ``w`` in the precision of the computation."""
    scores = read(rows, start, N, -float("inf"))
    return scaled(scores, rows.shift, rows.scale, COMPUTE)


@triton.jit
def write(rows, start, N: tl.constexpr, values):
    """Write a chunk of the rows, cast to their type."""
    pointers, valid = cells(rows, start, N)
    tl.store(pointers, values.to(rows.base.dtype.element_ty), mask=valid)


@triton.jit
def survey_rows(rows, N: tl.constexpr, HELD: tl.constexpr):
    """Return scores of each row, the largest one, and whether there is a NaN.

    For rows that are not held, the scores are the maxima of every column over all chunks: a subset
    of the entries that includes the largest.
    """
    scores = read(rows, 0, N, -float("inf"))
    bad = tl.sum((scores != scores).to(tl.int32), 1) > 0
    if not HELD:
        for start in range(N, rows.n, N):
            chunk = read(rows, start, N, -float("inf"))
            bad = bad | (tl.sum((chunk != chunk).to(tl.int32), 1) > 0)
            scores = tl.maximum(scores, chunk)
    top = tl.max(tl.where(scores != scores, -float("inf"), scores), 1)
    return scores, top, bad


@triton.jit
def select_rows(rows, N: tl.constexpr, HELD: tl.constexpr):
    """Read rows once and return the entries to hold, a :class:`Selection`."""
    scores = read(rows, 0, N, -float("inf"))
    wrong = scores != scores
    first = tl.where(wrong, -float("inf"), scores)
    starts = tl.where(first > -float("inf"), 0, -1)
    top = tl.max(first, 1)
    other = tl.full(top.shape, -float("inf"), scores.dtype)
    if not HELD:
        second = tl.full(scores.shape, -float("inf"), scores.dtype)
        lost, second_starts = second, tl.full(scores.shape, -1, tl.int32)
        following = read(rows, N, N, -float("inf"))
        for start in range(N, rows.n, N):
            # The next chunk is on its way while this one is compared.
            chunk, following = following, read(rows, start + N, N, -float("inf"))
            wrong = wrong | (chunk != chunk)
            largest, larger = chunk > first, chunk > second
            second_starts = tl.where(larger, start, second_starts)
            second_starts = tl.where(largest, starts, second_starts)
            starts = tl.where(largest, start, starts)
            lost = tl.maximum(lost, tl.minimum(second, chunk))
            second = tl.minimum(first, tl.maximum(second, chunk))
            first = tl.maximum(first, chunk)
        top, other = tl.max(first, 1), tl.max(lost, 1)
        scores, starts = paired(first, second), paired(starts, second_starts)
    return Selection(scores, starts, other, top, tl.sum(wrong.to(tl.int32), 1) > 0)


@triton.jit
def paired(first, second):
    """Return two tiles ``(M, N)`` as one, ``(M, 2 N)``, entry by entry."""
    return tl.reshape(tl.join(first, second), (first.shape[0], 2 * first.shape[1]))


@triton.jit
def unpaired(tile):
    """Split a tile made by :func:`paired`."""
    return tl.split(tl.reshape(tile, (tile.shape[0], tile.shape[1] // 2, 2)))


@triton.jit
def write_pairs(out, starts, N: tl.constexpr, values, factor):
    """Write rows that are zero but for some entries, given in pairs, times a factor of each row."""
    first, second = unpaired(values)
    first_starts, second_starts = unpaired(starts)
    for start in range(0, out.n, N):
        chunk = tl.where(first_starts == start, first, 0.0)
        chunk = tl.where(second_starts == start, second, chunk)
        write(out, start, N, chunk * factor[:, None])


@triton.jit
def largest_of(NARROW: tl.constexpr):
    """Return the largest finite number of a type."""
    double: tl.constexpr = NARROW == tl.float64  # noqa: SIM300
    return 1.7976931348623157e308 if double else 3.4028234663852886e38


@triton.jit
def epsilon(COMPUTE: tl.constexpr):
    """Return the distance from one to the next larger number of a type."""
    double: tl.constexpr = COMPUTE == tl.float64  # noqa: SIM300
    return 2.220446049250313e-16 if double else 1.1920928955078125e-07


@triton.jit
def clamped(top, NARROW: tl.constexpr):
    """Return maxima that can be subtracted: infinities become the largest finite number."""
    largest = largest_of(NARROW)
    return tl.minimum(tl.maximum(top, -largest), largest)


@triton.jit
def scaled(scores, shift, scale, COMPUTE: tl.constexpr):
    """Return ``scale (z - shift)`` clipped to [-2, 0]; ``+inf`` counts as the largest number.

    There is no mass below -1.
    """
    if COMPUTE == tl.float64:  # noqa: SIM300
        w = (scores.to(tl.float64) - shift.to(tl.float64)[:, None]) * scale[:, None]
    else:
        w = (scores - shift[:, None]).to(COMPUTE) * scale.to(COMPUTE)[:, None]
    w = tl.where(w < 0.0, w, 0.0)
    return tl.where(w > -2.0, w, -2.0)


@triton.jit
def normalizer(total, top, bad):
    """Return ``1 / total``, correctly rounded; zero where all is forbidden, NaN for bad rows."""
    empty = top == -float("inf")
    factor = 1.0 / tl.where(empty, 1.0, total).to(tl.float64)
    factor = tl.where(empty, 0.0, factor)
    return tl.where(bad, float("nan"), factor).to(total.dtype)


@triton.jit
def any_of(flags):
    """Return whether the flag of any row is set."""
    return tl.sum(flags.to(tl.int32), 0) > 0


@triton.jit
def as_double(number):
    """Return the double that a scalar argument holds the bits of."""
    return number.to(tl.int64).to(tl.float64, bitcast=True)
