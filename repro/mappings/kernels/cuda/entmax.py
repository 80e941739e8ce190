"""Launchers of the kernels of α-entmax: arguments and allocation."""

import torch
from torch import Tensor

from repro.mappings.kernels.cuda import policy
from repro.mappings.kernels.cuda.entmax_backward import backward_kernel
from repro.mappings.kernels.cuda.entmax_solver import forward_kernel
from repro.mappings.kernels.cuda.launch import bits, numbers_of, run_tiles
from repro.mappings.kernels.cuda.losses import loss_backward_kernel, loss_kernel, softmax_kernel

_RULES = {1.0: 1, 0.5: 2}
"""Rules for ``r`` that need no powers; see ``entmax_solver.py``."""
_SOFTMAX, _ABOVE_TWO = 5, 4
_WORK = {_SOFTMAX: policy.EXPONENTIALS, 1: policy.SELECTED, 2: policy.SELECTED}


def _rule(r: float) -> int:
    """Return the rule of every ``r`` but zero, which is softmax."""
    return _ABOVE_TWO if r > 1.0 else _RULES.get(r, 0)


def entmax_forward(scores: Tensor, r: float | Tensor) -> Tensor:
    """Compute α-entmax along the last axis; a tensor holds the ``r`` of each row, or one for all.

    ``r = α - 1``; the number zero is softmax, by a kernel of its own.
    """
    if not isinstance(r, Tensor) and r == 0.0:
        rows = scores.contiguous()
        probs = torch.empty_like(rows)
        run_tiles(softmax_kernel, policy.EXPONENTIALS, rows.element_size(), rows, probs)
        return probs
    return solve(scores, r)


entmax_forward_rows = entmax_forward


def solve(scores: Tensor, r: float | Tensor, *, probs: Tensor | None = None) -> Tensor:
    """Compute α-entmax along the last axis.

    Args:
        scores: ``z``, shape ``(..., n)`` with ``n >= 1``.
        r: ``r``; a tensor holds one for each row, or one for all.
        probs: output, whose type is that of the computation; allocated like ``scores`` if None.
    """
    rows = scores.contiguous()
    probs = torch.empty_like(rows) if probs is None else probs
    rule, by_row = 0, isinstance(r, Tensor)
    if not isinstance(r, Tensor):
        rule = _rule(r)
    # An ``r`` above one needs double precision.
    itemsize = 8 if rule == _ABOVE_TWO or by_row else probs.element_size()
    run_tiles(
        forward_kernel, _WORK.get(rule, policy.SELECTED_POWERS), itemsize, rows,
        probs, *numbers_of(r, rows), single=by_row, RULE=rule, ROWS=by_row,
    )  # fmt: skip
    return probs


def entmax_backward(probs: Tensor, grad: Tensor, r: float | Tensor) -> Tensor:
    """Return ``J g``; a tensor holds the ``r`` of each row, or one for all."""
    return entmax_backward_rows(probs, grad, r)[0]


entmax_backward_scores = entmax_backward


def entmax_backward_rows(probs: Tensor, grad: Tensor, r: float | Tensor) -> tuple[Tensor, Tensor]:
    """Return ``J g`` and, if ``r`` is a tensor, its gradient for each row."""
    rows = probs.contiguous()
    rule, large, by_row = 0, False, isinstance(r, Tensor)
    if not isinstance(r, Tensor):
        rule, large = _RULES.get(r, 0), r > 1.0
    out = torch.empty_like(rows)
    drifts = rows.new_empty(rows.numel() // rows.size(-1) if by_row else 0)
    # Rows with an ``r`` of their own may need double precision.
    itemsize = 8 if large or by_row else rows.element_size()
    run_tiles(
        backward_kernel, policy.RATIONAL if rule else policy.POWERS, itemsize, rows,
        grad.contiguous(), out, *numbers_of(r, rows), drifts,
        RULE=rule, ROWS=by_row, LARGE=large,
    )  # fmt: skip
    return out, drifts


def fenchel_young(scores: Tensor, target: Tensor, r: float, ignored: int) -> tuple[Tensor, Tensor]:
    """Compute losses of α-entmax along the last axis, and what their backward pass needs."""
    rows, rule = scores.contiguous(), _rule(r) if r else _SOFTMAX
    losses = rows.new_empty(target.shape)
    thresholds = rows.new_empty(4, target.numel(), dtype=_precision(rows, rule))
    work, itemsize = _WORK.get(rule, policy.SELECTED_POWERS), thresholds.element_size()
    if work is policy.SELECTED and itemsize == 8:
        work = policy.SELECTED_POWERS
    run_tiles(
        loss_kernel, work, itemsize, rows, losses, thresholds, target.contiguous(),
        bits(r), ignored, RULE=rule,
    )  # fmt: skip
    return losses, thresholds


def fenchel_young_backward(
    scores: Tensor, thresholds: Tensor, target: Tensor, grad: Tensor, r: float, ignored: int
) -> Tensor:
    """Return ``g (p - e_y)``, given the second result of :func:`fenchel_young`.

    Raises:
        ValueError: PyTorch computed the losses, so that there are no thresholds.
    """
    if not thresholds.numel():
        raise ValueError("the losses are not those of the kernel")
    rows, rule = scores.contiguous(), _rule(r) if r else _SOFTMAX
    out = torch.empty_like(rows)
    run_tiles(
        loss_backward_kernel, policy.STREAMED, thresholds.element_size(), rows,
        grad.contiguous(), thresholds, target.contiguous(), out, bits(r), ignored, RULE=rule,
    )  # fmt: skip
    return out


def _precision(rows: Tensor, rule: int) -> torch.dtype:
    return torch.float64 if rule == _ABOVE_TWO else rows.dtype
