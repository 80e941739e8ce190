"""Rows in a program: where they lie, how they are read, and what is wrong with them.

A program has ``M`` rows; ``base`` points to their first entries and ``inside`` says which of them
exist. A row is held in a tile of ``N`` entries (``HELD``), or read in chunks of ``N``.

Kernels take matrices of ``count`` rows of ``n`` entries. A parameter is given as ``numbers``, one
for each row and ``pace`` apart (``ROWS``; 1.5 where there is no row), or as ``number``, the bits of
one for all rows.
"""

import triton
import triton.language as tl

OUT = tl.constexpr(-2.0)
"""A scaled score that gets nothing, and finite."""


@triton.jit
def row_numbers(M: tl.constexpr):
    """The rows of a program."""
    return tl.program_id(0).to(tl.int64) * M + tl.arange(0, M)


@triton.jit
def row_parameters(numbers, pace, number, rows, inside, ROWS: tl.constexpr, M: tl.constexpr):
    """A parameter of the rows in double precision."""
    if ROWS:
        parameter = tl.load(numbers + rows * pace, mask=inside, other=1.5).to(tl.float64)
    else:
        parameter = tl.full([M], 0.0, tl.float64) + as_double(number)
    return parameter


@triton.jit
def cells(inside, start, n, N: tl.constexpr):
    """Columns of a chunk, and which entries exist."""
    columns = start + tl.arange(0, N)
    return columns[None, :], inside[:, None] & (columns < n)[None, :]


@triton.jit
def read(base, inside, start, n, N: tl.constexpr, other):
    """A chunk of the rows, ``other`` where there is no entry."""
    columns, valid = cells(inside, start, n, N)
    return tl.load(base[:, None] + columns, mask=valid, other=other)


@triton.jit
def write(base, inside, start, n, N: tl.constexpr, values):
    """Write a chunk of the rows in their type."""
    columns, valid = cells(inside, start, n, N)
    tl.store(base[:, None] + columns, values.to(base.dtype.element_ty), mask=valid)


@triton.jit
def survey_rows(base, inside, n, N: tl.constexpr, HELD: tl.constexpr):
    """Scores of the rows, their largest, and whether there is a NaN.

    Of rows that are not held, the scores are the largest of every column over all chunks: some of
    the entries, the leading ones among them.
    """
    scores = read(base, inside, 0, n, N, -float("inf"))
    bad = tl.sum((scores != scores).to(tl.int32), 1) > 0
    if not HELD:
        for start in range(N, n, N):
            chunk = read(base, inside, start, n, N, -float("inf"))
            bad = bad | (tl.sum((chunk != chunk).to(tl.int32), 1) > 0)
            scores = tl.maximum(scores, chunk)
    top = tl.max(tl.where(scores != scores, -float("inf"), scores), 1)
    return scores, top, bad


@triton.jit
def largest_of(NARROW: tl.constexpr):
    """The largest finite number of a type."""
    double: tl.constexpr = NARROW == tl.float64  # noqa: SIM300
    return 1.7976931348623157e308 if double else 3.4028234663852886e38


@triton.jit
def clamped(top, NARROW: tl.constexpr):
    """Maxima as numbers to subtract: infinities become the largest number."""
    largest = largest_of(NARROW)
    return tl.minimum(tl.maximum(top, -largest), largest)


@triton.jit
def scaled(scores, shift, scale, COMPUTE: tl.constexpr):
    """``w = scale (z - shift)``, in ``[-2, 0]``: ``+inf`` ties with the largest number."""
    if COMPUTE == tl.float64:  # noqa: SIM300
        w = (scores.to(tl.float64) - shift.to(tl.float64)[:, None]) * scale[:, None]
    else:
        w = (scores - shift[:, None]).to(COMPUTE) * scale.to(COMPUTE)[:, None]
    w = tl.where(w < 0.0, w, 0.0)
    return tl.where(w > OUT, w, OUT)


@triton.jit
def normaliser(total, empty, bad):
    """Correctly rounded factor that makes shares sum to one; zero if empty, NaN if bad."""
    factor = 1.0 / tl.where(empty, 1.0, total).to(tl.float64)
    factor = tl.where(empty, 0.0, factor)
    return tl.where(bad, float("nan"), factor).to(total.dtype)


@triton.jit
def any_of(flags):
    """Return whether any row still moves."""
    return tl.sum(flags.to(tl.int32), 0) > 0


@triton.jit
def as_double(number):
    """A scalar argument from its bits."""
    return number.to(tl.int64).to(tl.float64, bitcast=True)
