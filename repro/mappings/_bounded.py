"""Mappings under upper bounds: constrained softmax and sparsemax, and the top-k budget."""

from typing import Any

import torch
from torch import Tensor

from repro.mappings._arguments import (
    allowed_scores,
    as_column,
    cast_like,
    center,
    check_broadcast,
    check_floating,
    is_concrete,
    like_scores,
    nonnegative,
    per_row,
    to_last,
)
from repro.mappings._autograd import DifferentiableFunction
from repro.mappings._box import AT_UPPER, AT_ZERO, INTERIOR, bounded_softmax, box_projection
from repro.mappings._conjugate import WithGradient, tsallis
from repro.mappings._entmax import on_support
from repro.mappings.kernels import dispatch
from repro.mappings.kernels.dispatch import in_torch
from repro.mappings.modules import ProbabilityMap


def csoftmax(scores: Tensor, upper: Tensor, *, mask: Tensor | None = None, dim: int = -1) -> Tensor:
    r"""Find the distribution closest to softmax that respects upper bounds.

    .. math:: p = \arg\min_{q \in \Delta^n,\, q \le u} \mathrm{KL}(q \parallel \mathrm{softmax}(z)),
              \qquad p_j = \min(\exp(z_j) / Z, u_j)

    ``scores``, ``mask``, ``dim``, the result and errors are as in :class:`ProbabilityMap`.

    Args:
        upper: ``u >= 0``, floating point, broadcasts to ``scores``; ``inf`` means no bound,
            zero an exhausted one. It receives gradients.

    ``p`` is nowhere above ``u``, and positive where ``u`` is. Bounds that sum to one are returned.

    Raises:
        ValueError: also if bounds are negative or NaN, or sum to less than one over the allowed
            entries of a row, in both cases by more than ``n`` roundings.

    References:
        Malaviya et al. (2018), Eq. 4; Martins & Kreutzer (2017).
    """
    return _constrained(scores, upper, 0.0, mask, dim)


def csparsemax(
    scores: Tensor, upper: Tensor, *, mask: Tensor | None = None, dim: int = -1
) -> Tensor:
    r"""Project scores onto the distributions that respect upper bounds.

    .. math:: p = \arg\min_{q \in \Delta^n,\, q \le u} \lVert q - z \rVert_2^2,
              \qquad p_j = \max(0, \min(u_j, z_j - \tau))

    ``scores``, ``mask``, ``dim``, the result and errors are as in :class:`ProbabilityMap`.

    ``upper`` and errors in it are as in :func:`csoftmax`. ``p`` is nowhere above ``u``. Bounds that
    sum to one are returned.

    References:
        Malaviya et al. (2018), Eq. 6 and Proposition 1.
    """
    return _constrained(scores, upper, 1.0, mask, dim)


def budget(
    scores: Tensor, k: float | Tensor, *, mask: Tensor | None = None, dim: int = -1
) -> Tensor:
    r"""Select entries softly, with total mass ``k``.

    .. math:: p = \arg\max_{0 \le q \le 1,\, \sum_j q_j = k} \langle q, z \rangle
              - \tfrac12 \lVert q \rVert_2^2, \qquad p_j = \max(0, \min(1, z_j - \tau))

    ``k = 1`` is sparsemax. For an integer ``k`` and well separated scores, the ``k`` largest get 1.

    ``scores``, ``mask``, ``dim``, the result and errors are as in :class:`ProbabilityMap`.

    Args:
        k: a number of at least zero, or a tensor that broadcasts to ``scores`` with size 1 on
            ``dim`` (one value per row), at most the number of allowed entries; it receives
            gradients.

    The result is between zero and one, and sums to ``k``.

    References:
        Malaviya et al. (2018), Eq. 6, here with all bounds equal to one and total ``k``.
    """
    wide = allowed_scores(scores, mask, dim)
    if scores.size(dim) == 0:
        return scores.clone()
    probs, _ = BoundedFunction.run(to_last(wide, dim), None, _total(k, wide, dim), 1.0, 0.0)
    return like_scores(probs, scores, dim)


def _constrained(scores: Tensor, upper: Tensor, r: float, mask: Tensor | None, dim: int) -> Tensor:
    wide = allowed_scores(scores, mask, dim)
    if scores.size(dim) == 0:
        return scores.clone()
    rows, bounds, slack = _with_bounds(wide, upper, dim)
    probs, _ = BoundedFunction.run(rows, bounds, 1.0, r, slack)
    return like_scores(probs, scores, dim)


def _with_bounds(scores: Tensor, upper: Tensor, dim: int) -> tuple[Tensor, Tensor, float]:
    """Return scores and bounds with ``dim`` last, and the tolerance of the bounds.

    Bounds are often differences, a fertility less the attention spent so far, and carry their
    rounding. Each may be off by one ``eps`` of its dtype, so sums down to ``1 - n eps`` and bounds
    down to ``-n eps`` pass (``n eps`` at most 0.01).
    """
    check_floating("upper", upper)
    check_broadcast("upper", upper, scores)
    bounds = cast_like(scores, upper)
    if bounds.shape != scores.shape:  # even a trivial expansion adds a backward step
        bounds = bounds.expand_as(scores)
    slack = min(scores.size(dim) * torch.finfo(upper.dtype).eps, 0.01)
    return to_last(scores, dim), to_last(bounds, dim), slack


def _infeasible_budget(rows: Tensor, total: float | Tensor) -> tuple[Tensor, Tensor]:
    """Return which rows cannot sum to the total, and bounds of one, zero where forbidden."""
    ones = (rows != -torch.inf).to(rows.dtype)
    count = ones.sum(-1, keepdim=True)
    bad = ~((total <= count) | (count == 0))
    return bad | ~(total >= 0) if isinstance(total, Tensor) else bad, ones


def _total(k: float | Tensor, scores: Tensor, dim: int) -> float | Tensor:
    """Check ``k`` and return it as a number or with one value per row, ``(..., 1)``."""
    if isinstance(k, Tensor):
        return to_last(per_row("k", k, scores, dim), dim)
    return nonnegative("k", k)


def _infeasible(
    rows: Tensor, upper: Tensor | None, total: float | Tensor, slack: float
) -> ValueError:
    """Describe an infeasible row, of which there is one; see :meth:`BoundedFunction.forward`."""
    if upper is None:
        bad, ones = _infeasible_budget(rows, total)
        count = ones.sum(-1, keepdim=True)
        asked = (total + torch.zeros_like(count))[bad][0].item()
        return ValueError(
            f"k must be at least 0 and at most the number of allowed entries, got {asked:g} for "
            f"{count[bad][0].item():g} entries in row {_first_row(bad.squeeze(-1))}"
        )
    allowed = rows != -torch.inf
    bounds = upper.masked_fill(~allowed, 0.0)
    wrong = ~(bounds >= -slack)
    if wrong.any():
        *row, entry = _first_row(wrong)
        return ValueError(
            f"upper must be at least 0, got {bounds[wrong][0].item():g} at entry {entry} of row "
            f"{tuple(row)}"
        )
    # Kernels add in another order, so the limit itself may not tell which row they found.
    sums = bounds.sum(-1).masked_fill(~allowed.any(-1), torch.inf)
    return ValueError(
        f"upper sums to {sums.min().item():g} over the allowed entries of row "
        f"{_first_row(sums == sums.min())}; a distribution needs at least 1"
    )


def _first_row(flags: Tensor) -> tuple[int, ...]:
    """Return the index of the first flag that is set."""
    return tuple(flags.nonzero()[0].tolist())


class BoundedFunction(DifferentiableFunction):
    """Compute ``p`` under bounds along the last axis, and the KKT status of its entries.

    The Jacobian in the scores is ``diag(s) - s sᵀ / Σs``, where ``s`` is ``p`` (softmax) or 1
    (sparsemax) at interior entries and zero elsewhere. Entries at their upper bound follow it, and
    interior ones compensate in proportion to ``s``. If none is interior, all derivatives are zero.
    """

    @staticmethod
    def forward(
        scores: Tensor, upper: Tensor | None, total: float | Tensor, r: float, slack: float
    ) -> tuple[Tensor, Tensor]:
        """Solve by a kernel or in PyTorch.

        Args:
            scores: shape ``(..., n)`` with ``n >= 1``; ``-inf`` where forbidden.
            upper: bounds, like ``scores``; None means that all bounds are one.
            total: sum of each row, a number or ``(..., 1)``; 1.0 with bounds.
            r: 0 for the entropy (softmax), 1 for the Euclidean distance (sparsemax).
            slack: tolerance of the bounds, see :func:`_with_bounds`.

        Raises:
            ValueError: rows are infeasible. If values are not read, they are NaN instead.
        """
        if upper is not None:
            call = dispatch.implementation("bounded_forward", scores)
            probs, kkt_status, faults = call(scores, upper, r, slack)
        else:
            rows = "_rows" if isinstance(total, Tensor) else ""
            call = dispatch.implementation(f"budget_forward{rows}", scores)
            probs, kkt_status, faults = call(scores, total)
        if is_concrete(faults) and faults.item():
            raise _infeasible(scores, upper, total, slack)
        return probs, kkt_status

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        ctx.row_totals, ctx.r = isinstance(inputs[2], Tensor), inputs[3]
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(*output)

    @staticmethod
    def backward(
        ctx: Any, *grads: Tensor
    ) -> tuple[Tensor, Tensor | None, Tensor | None, None, None]:
        """Return ``s (g - m)``; ``g - m`` at active bounds; for the total, ``m = Σ s g / Σs``."""
        probs, kkt_status = ctx.saved_tensors
        to_upper = ctx.needs_input_grad[1]
        call = dispatch.backward_implementation("bounded_backward", probs, grads[0])
        grad_scores, grad_bounds, mean = call(
            probs, kkt_status, grads[0], ctx.r, to_upper, ctx.row_totals
        )
        grad_total = mean.view(*probs.shape[:-1], 1) if ctx.row_totals else None
        return grad_scores, grad_bounds if to_upper else None, grad_total, None, None


@in_torch
def bounded_forward(
    scores: Tensor, upper: Tensor, r: float, slack: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Solve in PyTorch; infeasible rows are NaN, and counted."""
    allowed = scores != -torch.inf
    bounds = upper.masked_fill(~allowed, 0.0)
    short = (bounds.sum(-1, keepdim=True) < 1 - slack) & allowed.any(-1, keepdim=True)
    bad = short | ~(bounds >= -slack).all(-1, keepdim=True)
    solve = bounded_softmax if r == 0.0 else box_projection
    probs, kkt_status = solve(_marked(scores, bad), bounds.clamp(min=0.0), 1.0)
    # The derivative in a bound that rounding has left below zero is zero.
    return probs, kkt_status.masked_fill(bounds < 0, AT_ZERO), bad.sum()


def _marked(scores: Tensor, bad: Tensor) -> Tensor:
    """Set infeasible rows to NaN; if there are none, do not change the layout of the scores."""
    return scores if is_concrete(bad) and not bad.any() else scores.masked_fill(bad, torch.nan)


@in_torch
def budget_forward(scores: Tensor, total: float | Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Solve in PyTorch; infeasible rows are NaN, and counted."""
    bad, ones = _infeasible_budget(scores, total)
    return *box_projection(_marked(scores, bad), ones, total), bad.sum()


@in_torch
def budget_forward_rows(scores: Tensor, totals: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Compute :func:`budget_forward` with one total for each row, or one for all."""
    return budget_forward(scores, as_column(totals, scores))


@in_torch
def bounded_backward(
    probs: Tensor, kkt_status: Tensor, grad: Tensor, r: float, to_upper: bool, to_total: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Return gradients of scores, bounds and totals; the last two are empty unless requested."""
    slope, share, full = _response(probs, kkt_status, r)
    mean = (share * grad).sum(-1, keepdim=True)
    uppers = full * (grad - mean) if to_upper else probs.new_empty(0)
    return slope * (grad - mean), uppers, mean.reshape(-1) if to_total else probs.new_empty(0)


def _response(probs: Tensor, kkt_status: Tensor, r: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return ``s``, ``s / Σs`` and where bounds are active; all zero if no entry is interior."""
    slope = (kkt_status == INTERIOR) * (probs if r == 0.0 else torch.ones_like(probs))
    sums = slope.sum(-1, keepdim=True)
    corner = sums == 0
    return slope, slope / sums.masked_fill(corner, 1.0), (kkt_status == AT_UPPER) & ~corner


def bounded_value(
    scores: Tensor, upper: Tensor | None, total: float | Tensor, r: float, slack: float
) -> Tensor:
    """Return ``max <q, z> - Ω(q)`` under the bounds, with ``-Ω`` the Tsallis entropy of ``r``.

    The gradient is ``p`` in the scores and the multipliers in the bounds and the total. That of the
    total is the common ``z - Ω'(p)`` of the interior entries; that of an active bound is the
    excess of ``z - Ω'(u)`` over this value. If no entry is interior, and for an exhausted bound
    under the entropy, where it is infinite, the multiplier is reported as zero.

    Arguments are those of :class:`BoundedFunction`. The result has the shape of ``scores`` without
    the last axis; ``-inf`` for a row with nothing allowed.
    """
    probs, kkt_status = BoundedFunction.run(scores, upper, total, r, slack)
    held = probs.detach()
    centered, top = center(scores.detach().masked_fill(held == 0, -torch.inf), -1)
    shifted = torch.where(torch.as_tensor(total, device=top.device) == 0, 0.0, total * top)
    best = (held * centered).sum(-1) - tsallis(held, r, -1) + shifted.squeeze(-1)
    # Heights are ``z - Ω'(p)``, shifted to be finite; interior entries have the same, the level.
    largest = torch.finfo(scores.dtype).max
    shift = top.clamp(-largest, largest)
    heights = (scores.clamp(max=largest) - shift).masked_fill(kkt_status == AT_ZERO, 0.0)
    heights = heights - on_support(probs, probs > 0).log() if r == 0.0 else heights - probs + 0.5
    _, share, full = _response(held, kkt_status, 0.0)
    level = (share * heights).sum(-1, keepdim=True)
    active = full & (probs > 0) if r == 0.0 else full
    has_interior = share.sum(-1, keepdim=True) > 0
    excess = torch.where(active, heights - level, 0.0)
    level = torch.where(has_interior, level + shift, 0.0)
    value: Tensor = WithGradient.run(scores, probs, best.detach(), -1, None)
    if upper is not None:
        value = WithGradient.run(upper, excess, value, -1, None)
    if isinstance(total, Tensor):
        value = WithGradient.run(total, level, value, -1, None)
    return value


class BoundedMap(ProbabilityMap):
    """Probability map with upper bounds, the second argument of every call."""

    bounded = True

    r: float
    """``α - 1`` of the Tsallis entropy ``-Ω``: 0 for Shannon's, 1 for Gini's."""

    def forward(  # type: ignore[override]
        self, scores: Tensor, upper: Tensor, mask: Tensor | None = None, dim: int = -1
    ) -> Tensor:
        """Return the distribution, like ``scores``; arguments are those of :func:`csoftmax`."""
        return _constrained(scores, upper, self.r, mask, dim)

    def omega(self, probs: Tensor, dim: int = -1) -> Tensor:
        """Return ``Ω(p)``, which does not depend on the bounds."""
        return tsallis(probs, self.r, dim)

    def value(  # type: ignore[override]
        self, scores: Tensor, upper: Tensor, mask: Tensor | None = None, dim: int = -1
    ) -> Tensor:
        """Return ``max <q, z> - Ω(q)`` over the distributions under the bounds.

        Its gradient is ``p`` in the scores and the multipliers in the bounds (zero for a bound
        that is not active, and if no entry is interior, where they are not unique).
        Arguments are those of :func:`csoftmax`, with ``n >= 1``. The result has the shape of
        ``scores`` without ``dim``; it is ``-inf`` for a row with nothing allowed.
        """
        wide = allowed_scores(scores, mask, dim)
        rows, bounds, slack = _with_bounds(wide, upper, dim)
        return bounded_value(rows, bounds, 1.0, self.r, slack).to(scores.dtype)


class Csoftmax(BoundedMap):
    """Module form of :func:`csoftmax`, with ``Ω(p) = Σ p log p``.

    The multiplier of an exhausted (zero) bound is infinite; :meth:`value` reports it as zero.
    """

    r = 0.0


class Csparsemax(BoundedMap):
    """Module form of :func:`csparsemax`, with ``Ω(p) = ½ (‖p‖² - 1)``."""

    r = 1.0


class Budget(ProbabilityMap):
    """Module form of :func:`budget`, with ``Ω(p) = ½ Σ p (p - 1)``, zero on 0-1 vectors.

    Args:
        k: sum of the result: a number; a tensor with size 1 on the axis of the entries, kept as a
            buffer; or an ``nn.Parameter``.
    """

    settings = ("k",)

    k: float | Tensor

    def __init__(self, k: float | Tensor) -> None:
        super().__init__()
        self._keep("k", k, nonnegative)

    def forward(self, scores: Tensor, mask: Tensor | None = None, dim: int = -1) -> Tensor:
        """Return :func:`budget` of the scores."""
        return budget(scores, self.k, mask=mask, dim=dim)

    def omega(self, probs: Tensor, dim: int = -1) -> Tensor:
        """Return ``½ Σ p (p - 1)``."""
        return tsallis(probs, 1.0, dim)

    def value(self, scores: Tensor, mask: Tensor | None = None, dim: int = -1) -> Tensor:
        """Return ``max <q, z> - Ω(q)`` over selections, as :meth:`ProbabilityMap.value` does."""
        wide = allowed_scores(scores, mask, dim)
        total = _total(self.k, wide, dim)
        return bounded_value(to_last(wide, dim), None, total, 1.0, 0.0).to(scores.dtype)

    def omega_one_hot(self, centered: Tensor, chosen: Tensor, dim: int = -1) -> float:
        """Return ``Ω(e_y)``, which is zero.

        Raises:
            ValueError: ``k`` is not the number one, so that a single class is no selection.
        """
        if isinstance(self.k, Tensor) or self.k != 1:
            raise ValueError(f"a budget has a loss with k=1 only, got {self.k}")
        return 0.0
