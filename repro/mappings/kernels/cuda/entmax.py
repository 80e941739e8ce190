"""Launchers of the kernels of α-entmax: arguments and allocation.

``r = α - 1`` is a number, or a tensor that holds one for each row or one for all.
"""

import torch
from torch import Tensor

from repro.mappings.kernels.cuda import policy
from repro.mappings.kernels.cuda.entmax_backward import backward_kernel
from repro.mappings.kernels.cuda.entmax_solver import forward_kernel
from repro.mappings.kernels.cuda.launch import bits, parameter_of, run_tiles
from repro.mappings.kernels.cuda.losses import loss_backward_kernel, loss_kernel, softmax_kernel

_RULES = {0.0: "softmax", 0.5: "entmax15", 1.0: "sparsemax"}
"""Rules of ``entmax_solver.py`` for single numbers ``r``."""
_DOUBLE = "by_row", "above_2"
"""Rules that compute in double precision, or may do so."""
_WORK = {
    "sparsemax": policy.SELECTED,
    "entmax15": policy.SELECTED,
    "by_row": policy.SELECTED_SINGLE,
    "softmax": policy.EXPONENTIALS,
}


def _rule(r: float | Tensor) -> str:
    if isinstance(r, Tensor):
        return "by_row"
    return "above_2" if r > 1.0 else _RULES.get(r, "general")


def entmax_forward(scores: Tensor, r: float | Tensor) -> Tensor:
    """Compute α-entmax along the last axis; the number ``r = 0`` is softmax."""
    rows, rule = scores.contiguous(), _rule(r)
    probs = torch.empty_like(rows)
    work = _WORK.get(rule, policy.SELECTED_POWERS)
    itemsize = 8 if rule in _DOUBLE else rows.element_size()
    if rule == "softmax":
        run_tiles(softmax_kernel, work, itemsize, rows, probs)
    else:
        run_tiles(forward_kernel, work, itemsize, rows, probs, *parameter_of(r), RULE=rule)
    return probs


entmax_forward_rows = entmax_forward


def entmax_backward(probs: Tensor, grad: Tensor, r: float | Tensor) -> Tensor:
    """Return ``J g``."""
    return _backward(probs, grad, r, None)


entmax_backward_scores = entmax_backward


def entmax_backward_rows(probs: Tensor, grad: Tensor, r: Tensor) -> tuple[Tensor, Tensor]:
    """Return ``J g``, and the gradient of ``r`` for each row."""
    drifts = probs.new_empty(probs.numel() // probs.size(-1))
    return _backward(probs, grad, r, drifts), drifts


def _backward(probs: Tensor, grad: Tensor, r: float | Tensor, drifts: Tensor | None) -> Tensor:
    rows, rule = probs.contiguous(), _rule(r)
    out = torch.empty_like(rows)
    run_tiles(
        backward_kernel, policy.RATIONAL if rule in ("sparsemax", "entmax15") else policy.POWERS,
        8 if rule in _DOUBLE else rows.element_size(), rows, grad.contiguous(), out, drifts,
        *parameter_of(r), RULE=rule,
    )  # fmt: skip
    return out


def fenchel_young(scores: Tensor, target: Tensor, r: float, ignored: int) -> tuple[Tensor, Tensor]:
    """Compute losses of α-entmax along the last axis, and what their backward pass needs."""
    rows, rule = scores.contiguous(), _rule(r)
    losses = rows.new_empty(target.shape)
    dtype = torch.float64 if rule == "above_2" else rows.dtype
    thresholds = rows.new_empty(4, target.numel(), dtype=dtype)
    work = _WORK.get(rule, policy.SELECTED_POWERS)
    if work is policy.SELECTED and dtype == torch.float64:
        work = policy.SELECTED_POWERS
    run_tiles(
        loss_kernel, work, thresholds.element_size(), rows, losses, thresholds,
        target.contiguous(), bits(r), ignored, RULE=rule,
    )  # fmt: skip
    return losses, thresholds


def fenchel_young_backward(
    scores: Tensor, thresholds: Tensor, target: Tensor, grad: Tensor, r: float, ignored: int
) -> Tensor:
    """Return ``g (p - e_y)``, given the second result of :func:`fenchel_young`."""
    rows = scores.contiguous()
    out = torch.empty_like(rows)
    run_tiles(
        loss_backward_kernel, policy.STREAMED, thresholds.element_size(), rows, grad.contiguous(),
        thresholds, target.contiguous(), out, bits(r), ignored, RULE=_rule(r),
    )  # fmt: skip
    return out
