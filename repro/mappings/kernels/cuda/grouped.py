"""Launchers of the kernels of fusedmax and oscarmax: rows, grids and memory."""

import torch
from torch import Tensor

from repro.mappings.kernels.cuda import policy
from repro.mappings.kernels.cuda.entmax import project
from repro.mappings.kernels.cuda.group_means import pairwise_kernel, total_kernel
from repro.mappings.kernels.cuda.launch import bits, extent, rows_of, run, run_tiles
from repro.mappings.kernels.cuda.level_sets import level_set_kernel


def fusedmax_forward(scores: Tensor, lam: float) -> tuple[Tensor, Tensor]:
    """``p`` along the last axis, and the first entry of the segment of every entry."""
    return _forward(scores, lam, ranks=False)


def oscarmax_forward(scores: Tensor, lam: float) -> tuple[Tensor, Tensor]:
    """``p`` along the last axis, and the rank of the first entry of the cluster of every entry."""
    return _forward(scores, lam, ranks=True)


def _forward(scores: Tensor, lam: float, *, ranks: bool) -> tuple[Tensor, Tensor]:
    """Solve as many rows at a time as the workspace allows."""
    rows = rows_of(scores).view(-1, scores.size(-1))
    probs, groups = torch.empty_like(rows), torch.empty_like(rows, dtype=torch.int32)
    step = policy.workspace_rows(rows.size(1), _WORKSPACE_BYTES)
    for first in range(0, rows.size(0), step):
        part = slice(first, first + step)
        project(_levels(rows[part], groups[part], lam, ranks), probs[part])
    return probs.view(scores.shape), groups.view(scores.shape)


_WORKSPACE_BYTES = 48
"""Bytes per entry, at most: sorted scores, their places, levels twice, groups, and room to sort."""


def _levels(rows: Tensor, groups: Tensor, lam: float, ranks: bool) -> Tensor:
    """Solutions before the projection onto the simplex; fill ``groups``."""
    levels = torch.empty_like(rows, dtype=torch.float64)
    ordered, places, sorted_levels, sorted_groups = rows, groups, levels, groups
    if ranks:
        ordered, places = rows.sort(-1, descending=True)
        sorted_levels, sorted_groups = torch.empty_like(levels), torch.empty_like(groups)
    run_tiles(
        level_set_kernel, policy.tile(rows.size(1), 8, policy.SCANS), ordered, sorted_levels,
        sorted_groups, places, levels, groups, bits(lam), RANKS=ranks,
    )  # fmt: skip
    return levels


def grouped_backward(probs: Tensor, groups: Tensor, grad: Tensor) -> Tensor:
    """Mean of ``g`` over the group less that over the support; zero outside the support."""
    rows, numbers, grads = rows_of(probs), rows_of(groups), rows_of(grad)
    out = torch.empty_like(rows)
    count, length = extent(rows)
    if length <= policy.PAIRWISE_ENTRIES:
        entries, others = policy.pairwise(length)
        run(
            pairwise_kernel, count, rows, numbers, grads, out, length, N=entries, K=others,
            warps=policy.PAIRWISE_WARPS,
        )  # fmt: skip
        return out
    programs = min(count, policy.workspace_rows(length, 12))
    totals = rows.new_empty(programs * length, dtype=torch.int64)
    sizes = rows.new_empty(programs * length, dtype=torch.int32)
    run(
        total_kernel, programs, rows, numbers, grads, out, totals, sizes, count, length,
        N=policy.STREAM_ENTRIES, warps=policy.STREAM_WARPS,
    )  # fmt: skip
    return out
