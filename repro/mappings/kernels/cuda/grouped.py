"""Launchers of fusedmax and oscarmax, and the kernels of the derivative that they share.

The derivative takes means over groups of entries. Results do not depend on the order of threads.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from repro.mappings.kernels.cuda import policy
from repro.mappings.kernels.cuda.entmax_solver import forward_kernel
from repro.mappings.kernels.cuda.launch import bits, parameter_of, run, run_tiles
from repro.mappings.kernels.cuda.level_sets import level_set_kernel

_WORKSPACE_BYTES = 48
"""Upper bound of bytes per entry: sorted scores, permutation, two levels, groups, sort buffers."""


def fusedmax_forward(scores: Tensor, lam: float) -> tuple[Tensor, Tensor]:
    """Compute fusedmax along the last axis, and the first column of every entry's segment."""
    return _forward(scores, lam, ranks=False)


def oscarmax_forward(scores: Tensor, lam: float) -> tuple[Tensor, Tensor]:
    """Compute oscarmax along the last axis, and the least rank in every entry's cluster."""
    return _forward(scores, lam, ranks=True)


def _forward(scores: Tensor, lam: float, *, ranks: bool) -> tuple[Tensor, Tensor]:
    """Compute probabilities and groups, as many rows at a time as the workspace allows."""
    rows = scores.contiguous().view(-1, scores.size(-1))
    probs, groups = torch.empty_like(rows), torch.empty_like(rows, dtype=torch.int32)
    step = policy.workspace_rows(rows.size(1), _WORKSPACE_BYTES)
    for first in range(0, rows.size(0), step):
        part = slice(first, first + step)
        levels = _levels(rows[part], groups[part], lam, ranks)
        # Sparsemax projects the levels onto the simplex, in the precision of `probs`.
        run_tiles(
            forward_kernel, policy.SELECTED, probs.element_size(), levels, probs[part],
            *parameter_of(1.0), RULE="sparsemax",
        )  # fmt: skip
    return probs.view(scores.shape), groups.view(scores.shape)


def _levels(rows: Tensor, groups: Tensor, lam: float, ranks: bool) -> Tensor:
    """Compute solutions before the projection onto the simplex, and fill ``groups``."""
    levels = torch.empty_like(rows, dtype=torch.float64)
    ordered, places, sorted_levels, sorted_groups = rows, None, levels, groups
    if ranks:
        ordered, places = rows.sort(-1, descending=True)
        sorted_levels, sorted_groups = torch.empty_like(levels), torch.empty_like(groups)
    run_tiles(
        level_set_kernel, policy.SCANS, 8, ordered, sorted_levels, sorted_groups, places, levels,
        groups, bits(lam),
    )  # fmt: skip
    return levels


def grouped_backward(probs: Tensor, groups: Tensor, grad: Tensor) -> Tensor:
    """Return the mean of ``g`` over the group less that over the support; zero off the support."""
    rows = probs.contiguous()
    out, length = torch.empty_like(rows), rows.size(-1)
    count = rows.numel() // length
    arguments = rows, groups.contiguous(), grad.contiguous(), out
    if length <= policy.PAIRWISE_ENTRIES:
        entries, others = policy.pairwise(length)
        run(pairwise_kernel, count, policy.PAIRWISE_WARPS, *arguments, length, N=entries, K=others)
        return out
    programs = min(count, policy.workspace_rows(length, 12))
    totals = rows.new_empty(programs * length, dtype=torch.int64)
    sizes = rows.new_empty(programs * length, dtype=torch.int32)
    run(
        total_kernel, programs, policy.STREAM_WARPS, *arguments, totals, sizes, count, length,
        N=policy.STREAM_ENTRIES,
    )  # fmt: skip
    return out


@triton.jit
def pairwise_kernel(probs, groups, grads, out, n, N: tl.constexpr, K: tl.constexpr):
    """Write the mean of ``g`` over the group less that over the support; zero outside the support.

    A program holds one row of at most ``N`` entries, compared with ``K`` others at a time. In
    addition to the arguments described in ``rows.py``, ``groups`` is the group of every entry.
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
def _fixed_point(largest, n):
    """Return the power of two that scales numbers to integers, and its inverse.

    It is the largest for which ``n`` numbers up to ``largest``, scaled by it, have a sum below
    ``2^62``, as far as their exponents tell.
    """
    exponent = largest.to(tl.int64, bitcast=True) >> 52
    bits = ((tl.zeros([1], tl.float64) + n).to(tl.int64, bitcast=True) >> 52) - 1022
    scale = tl.minimum(1023 + 62 + 1022 - exponent - bits, 2045)
    inverse = ((2046 - scale) << 52).to(tl.float64, bitcast=True)
    return (scale << 52).to(tl.float64, bitcast=True), inverse


@triton.jit
def _load_support(probs, grads, base, start, n, N: tl.constexpr):
    """Return the columns of a chunk, which have mass, and their gradients in double precision."""
    columns = start + tl.arange(0, N)
    support = tl.load(probs + base + columns, mask=columns < n, other=0.0) > 0.0
    grad = tl.load(grads + base + columns, mask=support, other=0.0).to(tl.float64)
    return columns, support, grad


@triton.jit(do_not_specialize=["count"])
def total_kernel(probs, groups, grads, out, totals, sizes, count, n, N: tl.constexpr):
    """Write the gradient of long rows, with one total for every group.

    Totals are sums of gradients in fixed point: unlike floating-point sums, integer sums do not
    depend on the order of atomic additions. If the largest gradient of a row is ``g``, each is
    rounded by at most ``n g / 2^61``. Programs loop over rows, ``N`` entries at a time.

    Arguments other than those described in ``rows.py``:

        groups: the group of every entry, a number below ``n``.
        totals: workspace, ``n`` 64-bit integers per program.
        sizes: workspace, ``n`` 32-bit integers per program.
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
            # Read from the L2 cache, where atomic additions take place.
            fixed = tl.load(totals + group, mask=support, other=0, cache_modifier=".cg")
            shared = tl.load(sizes + group, mask=support, other=1, cache_modifier=".cg")
            moved = fixed.to(tl.float64) * inverse / shared.to(tl.float64) - mean
            moved = tl.where(support, moved, 0.0).to(out.dtype.element_ty)
            tl.store(out + base + columns, moved, mask=columns < n)
        tl.debug_barrier()
