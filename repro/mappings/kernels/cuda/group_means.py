"""Kernels of the derivative that fusedmax and oscarmax share: means over groups of entries.

Floor: three reads and one write of every entry, 16 bytes in single precision. Sums are taken in a
fixed order: there are no atomic additions.
"""

import triton
import triton.language as tl


@triton.jit
def pairwise_kernel(probs, groups, grads, out, n, N: tl.constexpr, K: tl.constexpr):
    """On the support, the mean of ``g`` over the group less that over the support; else zero.

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


@triton.jit(do_not_specialize=["count"])
def lane_kernel(probs, groups, grads, out, scratch, count, n, LANES: tl.constexpr):
    """The same for long rows, one in every lane.

    Beside the arguments that ``rows.py`` describes:

        probs: a matrix.
        groups, grads, out: the same shape; the last is written.
        scratch: double precision, ``2 n`` numbers for every lane.
    """
    lanes = tl.arange(0, LANES)
    width = tl.num_programs(0).to(tl.int64) * LANES
    totals = scratch + tl.program_id(0).to(tl.int64) * LANES + lanes
    sizes = totals + n * width
    zero = tl.zeros([LANES], tl.float64)
    for block in range(tl.program_id(0), tl.cdiv(count, LANES), tl.num_programs(0)):
        rows = block * LANES + lanes.to(tl.int64)
        inside = rows < count
        base = rows * n
        for i in range(n):
            tl.store(totals + i * width, zero)
            tl.store(sizes + i * width, zero)
        total, size = zero, zero
        for i in range(n):
            support = tl.load(probs + base + i, mask=inside, other=0.0) > 0.0
            place = tl.load(groups + base + i, mask=support, other=0).to(tl.int64) * width
            grad = tl.load(grads + base + i, mask=support, other=0.0).to(tl.float64)
            held = tl.load(totals + place, mask=support, other=0.0)
            tl.store(totals + place, held + grad, mask=support)
            held = tl.load(sizes + place, mask=support, other=0.0)
            tl.store(sizes + place, held + 1.0, mask=support)
            total, size = total + grad, tl.where(support, size + 1.0, size)
        mean = total / tl.maximum(size, 1.0)
        for i in range(n):
            support = tl.load(probs + base + i, mask=inside, other=0.0) > 0.0
            place = tl.load(groups + base + i, mask=support, other=0).to(tl.int64) * width
            held = tl.load(totals + place, mask=support, other=0.0)
            length = tl.load(sizes + place, mask=support, other=1.0)
            moved = tl.where(support, held / length - mean, 0.0)
            tl.store(out + base + i, moved.to(out.dtype.element_ty), mask=inside)
