"""Kernels and launchers of fusedmax and oscarmax, and their derivative.

Gradients are means over groups less the mean over the support. The kernels number a group by the
position of one of its entries, usually the only one, where the mean is the gradient itself. Entries
whose group is not their own position are handled last. Any other group numbers below the length of
the row are valid as well.
"""

import numpy as np
import torch
from torch import Tensor

from repro.mappings.kernels.cpu import blocks, simd
from repro.mappings.kernels.cpu.compile import inline, kernel, matrix
from repro.mappings.kernels.cpu.fusedmax import new_line, new_tile, solve_fusedmax
from repro.mappings.kernels.cpu.oscarmax import new_workspace, solve_oscarmax
from repro.mappings.kernels.cpu.parallel import Kernel, run

_FUSED, _OSCAR, _BACKWARD = 8, 12, 2
"""Cost of an entry, relative to one that is only read and written."""


@kernel
def _fused_rows(kind, scores, lam, probs, groups, size, start, stop):
    rows = matrix(scores, kind, stop, size)
    solve_fusedmax(
        rows, lam, matrix(probs, kind, stop, size), matrix(groups, np.int32(0), stop, size),
        new_tile(rows), new_line(rows), start, stop,
    )  # fmt: skip
    return 0


@kernel
def _oscar_rows(kind, scores, lam, probs, groups, size, start, stop):
    rows = matrix(scores, kind, stop, size)
    solve_oscarmax(
        rows, lam, matrix(probs, kind, stop, size), matrix(groups, np.int32(0), stop, size),
        new_workspace(rows), start, stop,
    )  # fmt: skip
    return 0


@inline
def _write_others(probs, groups, grads, mean, places, listed, totals, sizes, out):
    """Write ``mean_G g - mean`` for groups ``G`` of several entries.

    All entries are listed but the one whose position is its group's number, if there is one.
    """
    for k in range(listed):
        group = groups[places[k]]
        own = (groups[group] == group) & (probs[group] > 0.0)
        totals[group], sizes[group] = grads[group] if own else 0.0, 1.0 if own else 0.0
    for k in range(listed):
        group = groups[places[k]]
        totals[group] += grads[places[k]]
        sizes[group] += 1.0
    for k in range(listed):
        group = groups[places[k]]
        value = totals[group] / sizes[group] - mean
        out[places[k]] = value
        if (groups[group] == group) & (probs[group] > 0.0):
            out[group] = value


@inline
def _differentiate(probs, groups, grads, out, spans, places, totals, sizes, start, stop):
    """Write ``J g`` of rows; only vectors that contain mass are visited, mostly few of a row."""
    size, width, zero = probs.shape[1], blocks.width_of(probs), simd.splat(probs.dtype.type(0))
    for i in range(start, stop):
        row, incoming, found, support, summed = probs[i], grads[i], 0, 0, zero
        for j in range(0, size, width):
            here = simd.count(simd.load_first(row, j, size - j, 0.0) > 0.0)
            simd.store_first(out[i], j, size - j, zero)
            spans[found] = j
            found += here > 0
            support += here
        for k in range(found):
            j = spans[k]
            here = simd.load_first(row, j, size - j, 0.0) > 0.0
            summed += simd.where(here, simd.load_first(incoming, j, size - j, 0.0), 0.0)
        mean, listed = simd.total(summed) / probs.dtype.type(support), 0
        for k in range(found):
            j = spans[k]
            here = simd.load_first(row, j, size - j, 0.0) > 0.0
            grad = simd.load_first(incoming, j, size - j, 0.0)
            simd.store_first(out[i], j, size - j, simd.where(here, grad - mean, 0.0))
            named = simd.load_first_as(probs, groups[i], j, size - j, 0)
            others = here & ~(named == simd.numbered(zero) + probs.dtype.type(j))
            simd.store_positions(places, listed, j, others)
            listed += simd.count(others)
        if listed > 0:
            _write_others(row, groups[i], incoming, mean, places, listed, totals, sizes, out[i])


@kernel
def _backward_rows(kind, probs, groups, grads, out, size, start, stop):
    rows = matrix(probs, kind, stop, size)
    integers, reals = np.empty((2, size + blocks.width_of(rows)), np.int32), np.empty((2, size))
    _differentiate(
        rows, matrix(groups, np.int32(0), stop, size), matrix(grads, kind, stop, size),
        matrix(out, kind, stop, size), integers[0], integers[1], reals[0], reals[1], start, stop,
    )  # fmt: skip
    return 0


def fusedmax_forward(scores: Tensor, lam: float) -> tuple[Tensor, Tensor]:
    """Compute fusedmax along the last axis, and the segments of its entries."""
    return _forward(_fused_rows, scores, lam, _FUSED)


def oscarmax_forward(scores: Tensor, lam: float) -> tuple[Tensor, Tensor]:
    """Compute oscarmax along the last axis, and the clusters of its entries."""
    return _forward(_oscar_rows, scores, lam, _OSCAR)


def _forward(kernel: Kernel, scores: Tensor, lam: float, cost: int) -> tuple[Tensor, Tensor]:
    scores = scores.contiguous()
    probs, groups = torch.empty_like(scores), torch.empty_like(scores, dtype=torch.int32)
    run(kernel, scores, cost, scores, lam, probs, groups)
    return probs, groups


def grouped_backward(probs: Tensor, groups: Tensor, grad: Tensor) -> Tensor:
    """Return ``J g`` for the Jacobian ``J`` of fusedmax or oscarmax with these groups."""
    probs, groups, grad = probs.contiguous(), groups.contiguous(), grad.contiguous()
    out = torch.empty_like(probs)
    run(_backward_rows, probs, _BACKWARD, probs, groups, grad, out)
    return out
