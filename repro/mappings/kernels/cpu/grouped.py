"""From tensors to the kernels of fusedmax and oscarmax: memory, threads."""

import numpy as np
import torch
from torch import Tensor

from repro.mappings.kernels.cpu._compile import SOURCES, on_disk
from repro.mappings.kernels.cpu.entries import Entry, matrix
from repro.mappings.kernels.cpu.fused_rows import fused_rows
from repro.mappings.kernels.cpu.grouped_backward import grouped_backward_rows
from repro.mappings.kernels.cpu.oscar_rows import oscar_rows
from repro.mappings.kernels.cpu.workers import split

_KINDS = {torch.float32: np.float32(0), torch.float64: np.float64(0)}
"""By their types the compiled kernels are told apart."""

_FUSED, _OSCAR = 8, 12
"""What an entry costs, against one that is only read and written."""


def _fuser(sources: int) -> Entry:
    @on_disk
    def fuse(kind, scores, lam, largest, probs, groups, size, start, stop):
        rows = stop * (sources > 0)
        fused_rows(
            matrix(scores, kind, rows, size), lam, largest, matrix(probs, kind, rows, size),
            matrix(groups, np.int32(0), rows, size), start, stop,
        )  # fmt: skip
        return 0

    return fuse


def _clusterer(sources: int) -> Entry:
    @on_disk
    def cluster(kind, scores, lam, largest, probs, groups, size, start, stop):
        rows = stop * (sources > 0)
        oscar_rows(
            matrix(scores, kind, rows, size), lam, largest, matrix(probs, kind, rows, size),
            matrix(groups, np.int32(0), rows, size), start, stop,
        )  # fmt: skip
        return 0

    return cluster


def _differentiator(sources: int) -> Entry:
    @on_disk
    def differentiate(kind, probs, groups, grads, out, size, start, stop):
        rows = stop * (sources > 0)
        grouped_backward_rows(
            matrix(probs, kind, rows, size), matrix(groups, np.int32(0), rows, size),
            matrix(grads, kind, rows, size), matrix(out, kind, rows, size), start, stop,
        )  # fmt: skip
        return 0

    return differentiate


_fuse = _fuser(SOURCES)
_cluster = _clusterer(SOURCES)
_differentiate = _differentiator(SOURCES)


def fusedmax_forward(scores: Tensor, lam: float) -> tuple[Tensor, Tensor]:
    """Fusedmax along the last axis, and the segments of its entries."""
    return _forward(_fuse, scores, lam, _FUSED)


def oscarmax_forward(scores: Tensor, lam: float) -> tuple[Tensor, Tensor]:
    """Oscarmax along the last axis, and the clusters of its entries."""
    return _forward(_cluster, scores, lam, _OSCAR)


def _forward(entry: Entry, scores: Tensor, lam: float, cost: int) -> tuple[Tensor, Tensor]:
    scores, size = scores.contiguous(), scores.size(-1)
    probs, groups = torch.empty_like(scores), torch.empty_like(scores, dtype=torch.int32)
    split(
        entry, scores.numel() // size, cost * scores.numel(), _KINDS[scores.dtype],
        scores.data_ptr(), lam, torch.finfo(scores.dtype).max, probs.data_ptr(),
        groups.data_ptr(), size,
    )  # fmt: skip
    return probs, groups


def grouped_backward(probs: Tensor, groups: Tensor, grad: Tensor) -> Tensor:
    """``J g``."""
    probs, groups, grad = probs.contiguous(), groups.contiguous(), grad.contiguous()
    out, size = torch.empty_like(probs), probs.size(-1)
    split(
        _differentiate, probs.numel() // size, 2 * probs.numel(), _KINDS[probs.dtype],
        probs.data_ptr(), groups.data_ptr(), grad.data_ptr(), out.data_ptr(), size,
    )  # fmt: skip
    return out
