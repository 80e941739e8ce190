"""The kernel of α-entmax, of its losses, and of α-normmax.

Floor: one read and one write of every entry, 8 bytes in single precision.
"""

import triton
import triton.language as tl

from repro.mappings.kernels.cuda.elementary import expm1
from repro.mappings.kernels.cuda.rows import (
    any_of,
    clamped,
    normaliser,
    read,
    row_numbers,
    row_parameters,
    scaled,
    survey_rows,
    write,
)
from repro.mappings.kernels.cuda.thresholds import (
    bracketed_level,
    closed_threshold,
    growth_at,
    newton_level,
    share_sums,
    shares,
)

_SMALLEST_ORDER = tl.constexpr(1e-20)
"""Stands for softmax: small enough that ``log1p(r x) / r`` is ``x`` to the last bit."""


@triton.jit
def _fill(
    held, base, probs, inside, n, shift, scale, unknown, step, exponent, bad, empty,
    RULE: tl.constexpr, N: tl.constexpr, HELD: tl.constexpr,
):  # fmt: skip
    """Write the distributions; return ``Σ p`` and ``Σ p w`` before normalisation."""
    total, moment = share_sums(
        held, base, inside, n, shift, scale, unknown, step, exponent, RULE, N, HELD
    )
    factor = normaliser(total, empty, bad)
    for start in range(0, n, N):
        w = held
        if not HELD:
            chunk = read(base, inside, start, n, N, -float("inf"))
            w = scaled(chunk, shift, scale, held.dtype)
        share = shares(w, unknown, step, exponent, RULE)
        write(probs, inside, start, n, N, share * factor[:, None])
    return total, moment


@triton.jit
def _judge(
    scores, targets, losses, rows, inside, n, ignored, shift, order, total, moment, lead,
    bad, empty,
):  # fmt: skip
    """Write the losses ``max_Ω(z) - z_y``; NaN where the target is no class.

    With ``p^r = w + c`` on the support, ``<p, z> - Ω(p)`` is ``(Σ p w + (1 - c) / r) / (1 + r)``.
    """
    target = tl.load(targets + rows, mask=inside, other=0).to(tl.int64)
    known = (target >= 0) & (target < n)
    score = tl.load(scores + rows * n + target, mask=inside & known, other=0.0)
    distance = tl.minimum(score.to(tl.float64) - shift.to(tl.float64), 0.0)
    mean = moment.to(tl.float64) / tl.where(empty, 1.0, total.to(tl.float64))
    loss = tl.maximum((mean + lead) / (1.0 + order) - distance, 0.0)
    loss = tl.where(bad | empty, float("nan"), loss)
    loss = tl.where(score == -float("inf"), float("inf"), loss)
    loss = tl.where(known, loss, float("nan"))
    loss = tl.where(target == ignored, 0.0, loss)
    tl.store(losses + rows, loss.to(losses.dtype.element_ty), mask=inside)


@triton.jit
def _solve(
    chunk, base, probs, scores, targets, losses, rows, inside, n, ignored,
    top, order, scale, exponent, bad, empty,
    RULE: tl.constexpr, NORM: tl.constexpr, COMPUTE: tl.constexpr, LOSS: tl.constexpr,
    N: tl.constexpr, HELD: tl.constexpr,
):  # fmt: skip
    """Solve the rows of a program in a precision and write them."""
    held = scaled(chunk, top, scale, COMPUTE)
    if RULE == 0:
        level = tl.zeros(top.shape, tl.float64)
        level, cut = newton_level(held, base, inside, n, top, scale, order, level, N, True)
        if not HELD:
            level, cut = newton_level(held, base, inside, n, top, scale, order, level, N, False)
        # Orders above one are computed in double precision; those of normmax are below.
        if COMPUTE == tl.float64 and not NORM:  # noqa: SIM300
            level = bracketed_level(
                held, base, inside, n, top, scale, order, level, probs.dtype.element_ty, N, HELD
            )
        step = tl.where(order > 1.0, 0.0, cut).to(COMPUTE)
        unknown = growth_at(order, level).to(COMPUTE)
        lead = -expm1(-order * level) / order
    else:
        unknown = tl.full(top.shape, 1.0, COMPUTE)
        unknown, step = closed_threshold(held, base, inside, n, top, scale, unknown, RULE, N, True)
        if not HELD:
            unknown, step = closed_threshold(
                held, base, inside, n, top, scale, unknown, RULE, N, False
            )
        lead = (1.0 - (unknown.to(tl.float64) - step.to(tl.float64))) / order
    total, moment = _fill(
        held, base, probs, inside, n, top, scale, unknown, step, exponent.to(COMPUTE), bad, empty,
        RULE, N, HELD,
    )  # fmt: skip
    if LOSS:
        _judge(
            scores, targets, losses, rows, inside, n, ignored, top, order, total, moment, lead,
            bad, empty,
        )  # fmt: skip


@triton.jit
def _orders(parameter, NORM: tl.constexpr):
    """``r``, the scale of the scores, the last exponent, and which parameters are none."""
    if NORM:
        wrong = (parameter > 1.0) == 0
        alpha = tl.where(wrong, 1.5, parameter)
        order, exponent = 1.0 - 1.0 / alpha, 1.0 / (alpha - 1.0)
        scale = order * 0.0 + 1.0
    else:
        wrong = (parameter >= 0.0) == 0
        order = tl.where(parameter > _SMALLEST_ORDER, parameter, _SMALLEST_ORDER)
        scale, exponent = order, 1.0 / order
    return order, scale, exponent, wrong


@triton.jit(do_not_specialize=["pace", "number", "ignored", "count"])
def forward_kernel(
    scores, probs, numbers, pace, number, targets, losses, ignored, count, n,
    RULE: tl.constexpr, NORM: tl.constexpr, ROWS: tl.constexpr, WIDE: tl.constexpr,
    LOSS: tl.constexpr, M: tl.constexpr, N: tl.constexpr, HELD: tl.constexpr,
):  # fmt: skip
    """Distributions, and losses where they are asked for.

    Where the last exponent is below one, powers are not Lipschitz: single precision would leave few
    digits of the smallest entries, and double precision is used in any case.

    Beside the arguments that ``rows.py`` describes:

        scores: a matrix.
        probs: written; its precision is that of the computation.
        targets, losses: classes, or ``ignored``, and what is written; used with ``LOSS``.
        RULE: see ``thresholds.py``.
        NORM: α-normmax, whose number is ``α``; else α-entmax, whose number is ``r = α - 1``.
        WIDE: compute in double precision whatever the scores are.
    """
    rows = row_numbers(M)
    inside = rows < count
    NARROW: tl.constexpr = probs.dtype.element_ty
    base, out = scores + rows * n, probs + rows * n
    chunk, top, bad = survey_rows(base, inside, n, N, HELD)
    parameter = row_parameters(numbers, pace, number, rows, inside, ROWS, M)
    order, scale, exponent, wrong = _orders(parameter, NORM)
    bad = bad | wrong
    empty = (top == -float("inf")) & (bad == 0)
    top = clamped(top, scores.dtype.element_ty)
    wide = any_of(exponent < 1.0) if ROWS else WIDE
    if wide:
        _solve(
            chunk, base, out, scores, targets, losses, rows, inside, n, ignored,
            top, order, scale, exponent, bad, empty, RULE, NORM, tl.float64, LOSS, N, HELD,
        )  # fmt: skip
    else:
        _solve(
            chunk, base, out, scores, targets, losses, rows, inside, n, ignored,
            top, order, scale, exponent, bad, empty, RULE, NORM, NARROW, LOSS, N, HELD,
        )  # fmt: skip
