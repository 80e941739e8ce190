"""Kernels of softmax and of the losses of softmax, sparsemax and α-entmax.

The forward pass writes the loss ``max_Ω(z) - z_y`` and four numbers of each row, from which the
backward pass computes ``p`` anew; neither ``p`` nor its support is written. Rows whose target is
ignored are not read. Softmax streams longer rows: its sum follows the largest score so far.

Rules are those of ``entmax_solver.py``, and ``softmax``. With ``p^r = w + c`` on the support,
``<p, z> - Ω(p)`` is ``(Σ p w + (1 - c) / r) / (1 + r)`` above the largest score.
"""

import triton
import triton.language as tl

from repro.mappings.kernels.cuda.entmax_solver import shares, solve_rows
from repro.mappings.kernels.cuda.rows import (
    Rows,
    ScaledRows,
    clamped,
    largest_of,
    normalizer,
    read,
    read_scaled,
    row_numbers,
    row_parameters,
    rows_of,
    select_rows,
    survey_rows,
    write,
)


@triton.jit
def _exponentials(scores, shift):
    """Return ``e^{z - shift}``; ``+inf`` counts as the largest number."""
    return tl.exp(tl.minimum(scores, largest_of(scores.dtype)) - shift[:, None])


@triton.jit
def _survey_exponentials(rows, N: tl.constexpr, HELD: tl.constexpr):
    """Return a chunk of scores, the largest of each row, ``Σ e^{z - max z}``, and if one is NaN."""
    scores, top, bad = survey_rows(rows, N, True)
    total = tl.sum(_exponentials(scores, clamped(top, scores.dtype)), 1)
    if not HELD:
        for start in range(N, rows.n, N):
            later = Rows(rows.base + start, rows.inside, rows.n - start)
            chunk, high, wrong = survey_rows(later, N, True)
            high = tl.maximum(top, high)
            shift = clamped(high, scores.dtype)
            total = total * tl.exp(clamped(top, scores.dtype) - shift)
            total += tl.sum(_exponentials(chunk, shift), 1)
            top, bad = high, bad | wrong
    return scores, top, total, bad


@triton.jit(do_not_specialize=["count"])
def softmax_kernel(scores, probs, count, n, M: tl.constexpr, N: tl.constexpr, HELD: tl.constexpr):
    """Write softmax; arguments are described in ``rows.py``."""
    rows, out = rows_of(scores, count, n, M), rows_of(probs, count, n, M)
    chunk, top, total, bad = _survey_exponentials(rows, N, HELD)
    factor = normalizer(total, top, bad)
    top = clamped(top, scores.dtype.element_ty)
    for start in range(0, n, N):
        z = chunk if HELD else read(rows, start, N, -float("inf"))
        write(out, start, N, _exponentials(z, top) * factor[:, None])


@triton.jit(do_not_specialize=["parameter", "ignored", "count"])
def loss_kernel(
    scores, losses, thresholds, targets, parameter, ignored, count, n,
    RULE: tl.constexpr, M: tl.constexpr, N: tl.constexpr, HELD: tl.constexpr,
):  # fmt: skip
    """Write losses, and thresholds: largest score, numbers of ``shares``, and ``1 / Σ shares``.

    A target that is no class has the loss NaN. ``thresholds`` is a matrix of four rows in the
    precision of the computation; ``parameter`` is ``r``.
    """
    numbers, inside = row_numbers(count, M)
    target = tl.load(targets + numbers, mask=inside, other=ignored)
    counted, is_class = inside & (target != ignored), (target >= 0) & (target < n)
    rows = Rows(scores + numbers * n, counted, n)
    chosen = tl.load(rows.base + target, mask=counted & is_class, other=float("nan"))
    NARROW: tl.constexpr = scores.dtype.element_ty
    COMPUTE: tl.constexpr = thresholds.dtype.element_ty
    if RULE == "softmax":
        _, top, total, bad = _survey_exponentials(rows, N, HELD)
        best = tl.log(total.to(tl.float64))
        unknown, step = tl.zeros(top.shape, COMPUTE), tl.zeros(top.shape, COMPUTE)
    else:
        selected = select_rows(rows, N, HELD)
        top, bad = selected.top, selected.bad
        r = row_parameters(parameter, 0, count, M)
        within = ScaledRows(rows.base, counted, n, clamped(top, NARROW), r)
        _, solution, _ = solve_rows(selected, within, r, RULE, True, COMPUTE, N, HELD)
        unknown, step, total = solution.unknown, solution.step, solution.total
        moment = solution.moment.to(tl.float64) / total.to(tl.float64)
        best = (moment + solution.head) / (1.0 + r)
    factor = normalizer(total, top, bad)
    top = clamped(top, NARROW)
    below = chosen.to(tl.float64) - top.to(tl.float64)
    loss = best - tl.where(below > 0.0, 0.0, below)
    loss = tl.where(loss < 0.0, 0.0, tl.where(bad, float("nan"), loss))
    loss = tl.where(chosen == -float("inf"), float("inf"), loss)
    loss = tl.where(counted, loss, 0.0)
    tl.store(losses + numbers, loss.to(NARROW), mask=inside)
    thresholds += numbers
    tl.store(thresholds, top.to(COMPUTE), mask=inside)
    tl.store(thresholds + count, unknown, mask=inside)
    tl.store(thresholds + 2 * count, step, mask=inside)
    tl.store(thresholds + 3 * count, factor, mask=inside)


@triton.jit(do_not_specialize=["parameter", "ignored", "count"])
def loss_backward_kernel(
    scores, grads, thresholds, targets, out, parameter, ignored, count, n,
    RULE: tl.constexpr, M: tl.constexpr, N: tl.constexpr, HELD: tl.constexpr,
):  # fmt: skip
    """Write ``g (p - e_y)``, zero where the target is ignored; see :func:`loss_kernel`."""
    numbers, inside = row_numbers(count, M)
    target = tl.load(targets + numbers, mask=inside, other=ignored)
    counted = inside & (target != ignored)
    thresholds += numbers
    grad = tl.load(grads + numbers, mask=counted, other=0.0)
    top = tl.load(thresholds, mask=counted, other=0.0)
    unknown = tl.load(thresholds + count, mask=counted, other=0.0)
    step = tl.load(thresholds + 2 * count, mask=counted, other=0.0)
    factor = tl.load(thresholds + 3 * count, mask=counted, other=0.0)
    base, out = scores + numbers * n, rows_of(out, count, n, M)
    r = row_parameters(parameter, 0, count, M)
    for start in range(0, n, N):
        if RULE == "softmax":
            z = read(Rows(base, counted, n), start, N, -float("inf"))
            share = _exponentials(z, top)
        else:
            rows = ScaledRows(base, counted, n, top.to(scores.dtype.element_ty), r)
            w = read_scaled(rows, start, N, thresholds.dtype.element_ty)
            share = shares(w, unknown, step, r, RULE)
        is_target = (start + tl.arange(0, N))[None, :] == target[:, None]
        moved = grad[:, None] * (share * factor[:, None] - is_target.to(share.dtype))
        write(out, start, N, tl.where(counted[:, None], moved, 0.0))
