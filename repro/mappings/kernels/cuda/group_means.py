"""Kernels of the derivative that fusedmax and oscarmax share: means over groups of entries.

Floor: three reads and one write of every entry, 16 bytes in single precision. Sums do not depend
on the order in which threads arrive.
"""

import triton
import triton.language as tl


@triton.jit
def pairwise_kernel(probs, groups, grads, out, n, N: tl.constexpr, K: tl.constexpr):
    """Write the mean of ``g`` over the group less that over the support; zero outside the support.

    Beside the arguments that ``rows.py`` describes:

        probs: a matrix, one row per program.
        groups: the same shape.
        grads: the same shape.
        out: the same shape, written.
        N: entries of a row, held.
        K: how many others they are compared with at a time.
    """
    start = tl.program_id(0).to(tl.int64) * n
    columns = tl.arange(0, N)
    support = tl.load(probs + start + columns, mask=columns < n, other=0.0) > 0.0
    group = tl.load(groups + start + columns, mask=support, other=-1)
    grad = tl.load(grads + start + columns, mask=support, other=0.0)
    size = tl.sum(support.to(tl.float32), 0)
    mean = tl.sum(grad, 0) / tl.maximum(size, 1.0)
    total, length = tl.zeros([N], grad.dtype), tl.zeros([N], tl.float32)
    for first in range(0, n, K):
        others = first + tl.arange(0, K)
        kept = tl.load(probs + start + others, mask=others < n, other=0.0) > 0.0
        other = tl.load(groups + start + others, mask=kept, other=-2)
        value = tl.load(grads + start + others, mask=kept, other=0.0)
        same = group[:, None] == other[None, :]
        total += tl.sum(tl.where(same, value[None, :], 0.0), 1)
        length += tl.sum(same.to(tl.float32), 1)
    moved = total / tl.maximum(length, 1.0) - mean
    moved = tl.where(support, moved, 0.0).to(out.dtype.element_ty)
    tl.store(out + start + columns, moved, mask=columns < n)


@triton.jit
def _power_of_two(biased):
    """``2^(biased - 1023)``, for ``biased`` from 1 to 2046."""
    return (biased.to(tl.int64) << 52).to(tl.float64, bitcast=True)


@triton.jit
def _fixed_point(largest, n):
    """The power of two that turns ``n`` numbers up to ``largest`` into integers, and its inverse.

    It is the largest by which the sum of all of them stays below ``2^62``.
    """
    exponent = largest.to(tl.int64, bitcast=True) >> 52
    bits = ((tl.zeros([1], tl.float64) + n).to(tl.int64, bitcast=True) >> 52) - 1022
    scale = tl.minimum(1023 + 62 + 1022 - exponent - bits, 2045)
    return _power_of_two(scale), _power_of_two(2046 - scale)


@triton.jit
def _load_support(probs, grads, base, start, n, N: tl.constexpr):
    """Columns of a chunk, which have mass, and their gradients in double precision."""
    columns = start + tl.arange(0, N)
    support = tl.load(probs + base + columns, mask=columns < n, other=0.0) > 0.0
    grad = tl.load(grads + base + columns, mask=support, other=0.0).to(tl.float64)
    return columns, support, grad


@triton.jit(do_not_specialize=["count"])
def total_kernel(probs, groups, grads, out, totals, sizes, count, n, N: tl.constexpr):
    """Derivative of long rows, by one total for every group.

    Totals are sums of integers, gradients in fixed point: unlike those of floating-point numbers
    they do not depend on the order of atomic additions. A row whose largest gradient is ``g`` is
    exact to ``n g / 2^62``. Programs take rows one after another.

    Beside the arguments that ``rows.py`` describes:

        probs: a matrix.
        groups: the same shape, columns.
        grads, out: the same shape; the last is written.
        totals: workspace, ``n`` integers of 64 bits for every program.
        sizes: workspace, ``n`` integers of 32 bits for every program.
        N: entries that are looked at in one piece.
    """
    totals += tl.program_id(0).to(tl.int64) * n
    sizes += tl.program_id(0).to(tl.int64) * n
    for row in range(tl.program_id(0), count, tl.num_programs(0)):
        base = (tl.zeros([1], tl.int64) + row) * n
        largest, total = tl.zeros([N], tl.float64), tl.zeros([N], tl.float64)
        wrong, size = tl.zeros([N], tl.int32), tl.zeros([N], tl.int32)
        for start in range(0, n, N):
            columns, support, grad = _load_support(probs, grads, base, start, n, N)
            tl.store(totals + columns, tl.zeros([N], tl.int64), mask=columns < n)
            tl.store(sizes + columns, tl.zeros([N], tl.int32), mask=columns < n)
            largest, total = tl.maximum(largest, tl.abs(grad)), total + grad
            wrong, size = wrong + (grad - grad != 0.0).to(tl.int32), size + support.to(tl.int32)
        mean = tl.sum(total, 0) / tl.maximum(tl.sum(size, 0), 1).to(tl.float64)
        mean = tl.where(tl.sum(wrong, 0) > 0, float("nan"), mean)
        scale, inverse = _fixed_point(tl.max(largest, 0), n)
        tl.debug_barrier()
        for start in range(0, n, N):
            columns, support, grad = _load_support(probs, grads, base, start, n, N)
            group = tl.load(groups + base + columns, mask=support, other=0)
            fixed = tl.floor(grad * scale + 0.5).to(tl.int64)
            tl.atomic_add(totals + group, fixed, mask=support, sem="relaxed")
            tl.atomic_add(sizes + group, 1, mask=support, sem="relaxed")
        tl.debug_barrier()
        for start in range(0, n, N):
            columns = start + tl.arange(0, N)
            support = tl.load(probs + base + columns, mask=columns < n, other=0.0) > 0.0
            group = tl.load(groups + base + columns, mask=support, other=0)
            # From the second-level cache, where atomic additions take place.
            fixed = tl.load(totals + group, mask=support, other=0, cache_modifier=".cg")
            shared = tl.load(sizes + group, mask=support, other=1, cache_modifier=".cg")
            moved = fixed.to(tl.float64) * inverse / shared.to(tl.float64) - mean
            moved = tl.where(support, moved, 0.0).to(out.dtype.element_ty)
            tl.store(out + base + columns, moved, mask=columns < n)
        tl.debug_barrier()
