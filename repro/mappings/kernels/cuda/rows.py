"""Rows in a program: where they lie, how they are read, and what is wrong with them.

A program has ``M`` rows. A row is held in a tile of ``N`` entries (``HELD``), or read in chunks of
``N``.

Arguments of kernels are matrices of ``count`` rows of ``n`` entries: ``scores`` or ``probs``, the
incoming gradients ``grads``, and results, which are ``probs`` or ``out``. A parameter is given as
``numbers``, one for each row and ``stride`` apart (``ROWS``; 1.5 where there is no row), or as
``number``, the bits of one for all rows; its gradients, one for each row, are ``drifts``.
"""

from typing import Any, NamedTuple

import triton
import triton.language as tl

OUT = tl.constexpr(-2.0)
"""A scaled score that gets nothing, and finite."""


class Rows(NamedTuple):
    """The rows of a program: pointers to their first entries, which exist, and their length."""

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


@triton.jit
def row_parameters(numbers, stride, number, rows, inside, ROWS: tl.constexpr):
    """A parameter of the rows in double precision."""
    if ROWS:
        parameter = tl.load(numbers + rows * stride, mask=inside, other=1.5).to(tl.float64)
    else:
        parameter = tl.full(rows.shape, 0.0, tl.float64) + as_double(number)
    return parameter


@triton.jit
def cells(rows, start, N: tl.constexpr):
    """Pointers to a chunk, and which entries exist."""
    columns = start + tl.arange(0, N)
    return rows.base[:, None] + columns[None, :], rows.inside[:, None] & (columns < rows.n)[None, :]


@triton.jit
def read(rows, start, N: tl.constexpr, other):
    """A chunk of the rows, ``other`` where there is no entry."""
    pointers, valid = cells(rows, start, N)
    return tl.load(pointers, mask=valid, other=other)


@triton.jit
def read_where(rows, wanted, start, N: tl.constexpr):
    """Entries that are wanted, zero elsewhere; memory without any is not read."""
    return tl.load(cells(rows, start, N)[0], mask=wanted, other=0.0)


@triton.jit
def read_scaled(rows, start, N: tl.constexpr, COMPUTE: tl.constexpr):
    """A chunk of scaled rows in the precision of the computation."""
    scores = read(rows, start, N, -float("inf"))
    return scaled(scores, rows.shift, rows.scale, COMPUTE)


@triton.jit
def write(rows, start, N: tl.constexpr, values):
    """Write a chunk of the rows in their type."""
    pointers, valid = cells(rows, start, N)
    tl.store(pointers, values.to(rows.base.dtype.element_ty), mask=valid)


@triton.jit
def survey_rows(rows, N: tl.constexpr, HELD: tl.constexpr):
    """Scores of the rows, their largest, and whether there is a NaN.

    Of rows that are not held, the scores are the largest of every column over all chunks: some of
    the entries, the leading ones among them.
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
def largest_of(NARROW: tl.constexpr):
    """The largest finite number of a type."""
    double: tl.constexpr = NARROW == tl.float64  # noqa: SIM300
    return 1.7976931348623157e308 if double else 3.4028234663852886e38


@triton.jit
def epsilon(COMPUTE: tl.constexpr):
    """The distance from one to the next number of a type."""
    double: tl.constexpr = COMPUTE == tl.float64  # noqa: SIM300
    return 2.220446049250313e-16 if double else 1.1920928955078125e-07


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
