"""From tensors to the kernels of fusedmax and oscarmax: rows, grids and memory."""

from typing import Any

import torch
from torch import Tensor

from repro.mappings.kernels.cuda import policy
from repro.mappings.kernels.cuda.entmax import project
from repro.mappings.kernels.cuda.group_means import lane_kernel, pairwise_kernel
from repro.mappings.kernels.cuda.lanes import pool_kernel, taut_string_kernel
from repro.mappings.kernels.cuda.launch import bits, rows_of, run


def fusedmax_forward(scores: Tensor, lam: float) -> tuple[Tensor, Tensor]:
    """``p`` along the last axis, and the numbers of the segments."""
    rows = rows_of(scores)
    levels, groups = _outputs(rows)
    each = 8 * rows.size(1) + 3
    _run_lanes(taut_string_kernel, rows, (levels, groups), (bits(lam),), each)
    return project(levels, scores.dtype).view(scores.shape), groups.view(scores.shape)


def oscarmax_forward(scores: Tensor, lam: float) -> tuple[Tensor, Tensor]:
    """``p`` along the last axis, and the numbers of the clusters."""
    ordered, order = rows_of(scores).sort(-1, descending=True)
    levels, groups = _outputs(ordered)
    each = 2 * ordered.size(1)
    _run_lanes(pool_kernel, ordered, (order, levels, groups), (bits(lam),), each)
    return project(levels, scores.dtype).view(scores.shape), groups.view(scores.shape)


def _outputs(rows: Tensor) -> tuple[Tensor, Tensor]:
    return torch.empty_like(rows, dtype=torch.float64), torch.empty_like(rows, dtype=torch.int32)


def _run_lanes(
    kernel: Any, rows: Tensor, matrices: tuple[Tensor, ...], numbers: tuple[int, ...], each: int
) -> None:
    """Launch a kernel of lanes with ``each`` numbers of scratch memory for every lane."""
    count, length = rows.shape
    programs = policy.lane_programs(count, 8 * each)
    scratch = rows.new_empty(programs * policy.LANES * each, dtype=torch.float64)
    run(
        kernel, programs, rows, *matrices, scratch, *numbers, count, length,
        LANES=policy.LANES, warps=1,
    )  # fmt: skip


def grouped_backward(probs: Tensor, groups: Tensor, grad: Tensor) -> Tensor:
    """On the support, the mean of ``g`` over the group less that over the support; else zero."""
    rows, numbers, grads = rows_of(probs), rows_of(groups), rows_of(grad)
    out = torch.empty_like(rows)
    count, length = rows.shape
    if length <= policy.PAIRWISE_ENTRIES:
        entries, others = policy.pairwise(length)
        run(
            pairwise_kernel, count, rows, numbers, grads, out, length, N=entries, K=others,
            warps=policy.PAIRWISE_WARPS,
        )  # fmt: skip
        return out.view(probs.shape)
    _run_lanes(lane_kernel, rows, (numbers, grads, out), (), 2 * length)
    return out.view(probs.shape)
