"""α-normmax: regularised by a norm. Algorithm, derivative, public function, module."""

import math
from typing import Any

import torch
from torch import Tensor

from repro.mappings._arguments import (
    allowed_scores,
    centre,
    is_concrete,
    like_scores,
    number,
    per_row,
    to_last,
)
from repro.mappings._autograd import DifferentiableFunction, keep_setting, kept_setting
from repro.mappings._conjugate import Danskin
from repro.mappings._entmax import on_support
from repro.mappings._threshold import entmax15_powers, entmax_powers
from repro.mappings.kernels import dispatch
from repro.mappings.kernels.dispatch import launch
from repro.mappings.modules import ProbabilityMap


def normmax(
    scores: Tensor, alpha: float | Tensor = 2.0, *, mask: Tensor | None = None, dim: int = -1
) -> Tensor:
    r"""Map scores to a sparse distribution by norm-regularised argmax.

    .. math:: p = \arg\max_{q \in \Delta^n} \langle q, z \rangle - \lVert q \rVert_\alpha

    The regulariser is flat near the corners and steep near the centre: compared with entmax the
    support is small and the mass on it even. As ``α`` grows the distribution tends to the uniform
    one on the support of sparsemax; as ``α`` falls to one, to the argmax.

    Args:
        scores: ``z``, floating point, ``n`` on ``dim``; ``-inf`` forbids an entry.
        alpha: a number above one, or a tensor that broadcasts to ``scores`` with size 1 on
            ``dim`` (one value per row); it receives gradients.
        mask: boolean, broadcasts to ``scores``; True = allowed.
        dim: the axis that becomes a distribution.

    Returns:
        ``p``, like ``scores``; sums to one along ``dim``, exactly zero where masked and off the
        support. A row with nothing allowed is all zeros. NaN stays in its row.

    Raises:
        TypeError: scores are not floating point, or the mask is not boolean.
        ValueError: ``alpha`` is not above one or not finite, or a shape does not broadcast.
            Values of an alpha tensor on an accelerator, under ``torch.compile`` or ``vmap`` are
            not read; there, such rows come out as NaN.

    References:
        Blondel et al. (2020), norm entropies.
    """
    wide = allowed_scores(scores, mask, dim)
    exponent = _exponent(alpha, wide, dim)
    if scores.size(dim) == 0:
        return scores.clone()
    return like_scores(NormmaxFunction.run(to_last(wide, dim), exponent), scores, dim)


class NormmaxFunction(DifferentiableFunction):
    """``p`` along the last axis; its Jacobian is ``(I - p 1ᵀ) diag(d) (I - 1 pᵀ)``."""

    @staticmethod
    def forward(scores: Tensor, alpha: float | Tensor) -> Tensor:
        """Centre, solve for the threshold, normalise; in float64."""
        if dispatch.has_kernel(scores):
            rows = "_rows" if isinstance(alpha, Tensor) else ""
            return launch(f"normmax_forward{rows}", scores, alpha)
        # At the solution p ∝ h^{1/(α-1)} with h = [z - τ]_+ and Σ h^{α/(α-1)} = 1. That sum is also
        # the condition of entmax with parameter 2 - 1/α, on scores divided by r = 1 - 1/α, whose
        # result is h^{α/(α-1)}; normmax is its power 1/α.
        centred, top = centre(scores, -1)
        wide = centred.double()
        if isinstance(alpha, float) and alpha == 2.0:
            powers = entmax15_powers(2 * wide).sqrt_()
        else:
            exponent = alpha.double() if isinstance(alpha, Tensor) else alpha
            order = (exponent - 1) / exponent
            scaled = (wide / order).clamp(min=-torch.finfo(wide.dtype).max)
            powers = entmax_powers(scaled, order, convex=True).pow(1 / exponent)
        probs = powers.div_(powers.sum(-1, keepdim=True)).to(scores.dtype)
        return probs.masked_fill_(top == -torch.inf, 0.0)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        keep_setting(ctx, output, inputs[1])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor | None]:
        """Apply the symmetric Jacobian; differentiable once more."""
        probs, alpha = kept_setting(ctx)
        if dispatch.differentiable_once(probs, grads[0]):
            if not isinstance(alpha, Tensor):
                return launch("normmax_backward", probs, grads[0], alpha), None
            moved, drift = launch("normmax_backward_rows", probs, grads[0], alpha)
            return moved, drift.view(*probs.shape[:-1], 1)
        grad_alpha = None
        if isinstance(alpha, Tensor) and ctx.needs_input_grad[1]:
            grad_alpha = (alpha_derivative(probs, alpha) * grads[0]).sum(-1, keepdim=True)
        return _apply_jacobian(probs, alpha, grads[0]), grad_alpha

    @staticmethod
    def tangent(ctx: Any, *tangents: Tensor | None) -> Tensor:
        probs, alpha = kept_setting(ctx)
        moved = torch.zeros_like(probs)
        if tangents[0] is not None:
            moved = _apply_jacobian(probs, alpha, tangents[0])
        if tangents[1] is not None and isinstance(alpha, Tensor):
            moved = moved + tangents[1] * alpha_derivative(probs, alpha)
        return moved


def _apply_jacobian(probs: Tensor, alpha: float | Tensor, vector: Tensor) -> Tensor:
    moved = _slope(probs, alpha) * (vector - (probs * vector).sum(-1, keepdim=True))
    return moved - probs * moved.sum(-1, keepdim=True)


def _slope(probs: Tensor, alpha: float | Tensor) -> Tensor:
    """``d = p^{2-α} ‖p‖_α^{α-1} / (α - 1)`` on the support, zero elsewhere."""
    relative, support, size = _relative(probs)
    norm = _power_sum(relative, support, alpha) ** ((alpha - 1) / alpha)
    return size * relative ** (2 - alpha) * support * norm / (alpha - 1)


def alpha_derivative(probs: Tensor, alpha: Tensor) -> Tensor:
    """``∂p/∂α``: the drift at a fixed threshold, the threshold's move, and normalisation."""
    relative, support, _ = _relative(probs)
    norm = _power_sum(relative, support, alpha) ** (1 / alpha)
    heights = relative / norm
    logs = heights.log()
    lowered = (probs * heights ** (alpha - 1) * logs).sum(-1, keepdim=True) / alpha
    moved = _slope(probs, alpha) * lowered - probs * logs / (alpha - 1)
    return moved - probs * moved.sum(-1, keepdim=True)


def _relative(probs: Tensor, dim: int = -1) -> tuple[Tensor, Tensor, Tensor]:
    """``p / max p``, one off the support; the support; ``max p``, one for an empty row."""
    support = probs > 0
    size = probs.detach().amax(dim, keepdim=True)
    size = size.masked_fill(size == 0, 1.0)
    return on_support(probs / size, support), support, size


def _power_sum(relative: Tensor, support: Tensor, alpha: float | Tensor, dim: int = -1) -> Tensor:
    """``Σ (p / max p)^α``, at least one."""
    return (relative**alpha * support).sum(dim, keepdim=True).clamp(min=0.5)


def norm(probs: Tensor, alpha: float | Tensor, dim: int = -1) -> Tensor:
    """``‖p‖_α``, ``dim`` kept with size 1."""
    relative, support, size = _relative(probs, dim)
    return size * _power_sum(relative, support, alpha, dim) ** (1 / alpha)


def _exponent(alpha: float | Tensor, scores: Tensor, dim: int) -> float | Tensor:
    """Check ``α`` and return it as a number or with one value per row, ``(..., 1)``."""
    if not isinstance(alpha, Tensor):
        return _checked(alpha)
    wide = to_last(per_row("alpha", alpha, scores, dim), dim)
    right = (wide > 1) & (wide < torch.inf)
    if is_concrete(right) and not bool(right.all()):
        raise ValueError(f"alpha must be above 1 and finite, got {wide[~right][0].item():g}")
    return wide.masked_fill(~right, torch.nan)


def _checked(alpha: float) -> float:
    alpha = number("alpha", alpha)
    if not 1 < alpha < math.inf:
        raise ValueError(f"alpha must be above 1 and finite, got {alpha}")
    return alpha


class Normmax(ProbabilityMap):
    """:func:`normmax` with ``Ω(p) = ‖p‖_α - 1``.

    Args:
        alpha: a number above one; a tensor with size 1 on the axis of the distributions, kept as
            a buffer; or an ``nn.Parameter``, which is then learned as it is.
    """

    settings = ("alpha",)

    alpha: float | Tensor

    def __init__(self, alpha: float | Tensor = 2.0) -> None:
        super().__init__()
        if isinstance(alpha, torch.nn.Parameter):
            self.alpha = alpha
        elif isinstance(alpha, Tensor):
            self.register_buffer("alpha", alpha)
        else:
            self.alpha = _checked(alpha)

    def forward(self, scores: Tensor, mask: Tensor | None = None, dim: int = -1) -> Tensor:
        """Return :func:`normmax` at the current alpha."""
        return normmax(scores, self.alpha, mask=mask, dim=dim)

    def omega(self, probs: Tensor, dim: int = -1) -> Tensor:
        """Return ``‖p‖_α - 1``."""
        return norm(probs, self.alpha, dim).squeeze(dim) - 1

    def conjugate_centered(self, centred: Tensor, probs: Tensor, dim: int = -1) -> Tensor:
        """Return ``<p, z> - Ω(p)``, differentiable in a tensor alpha."""
        exponent = _exponent(self.alpha, centred, dim)
        probs, centred = to_last(probs, dim), to_last(centred, dim)
        held = probs.detach()
        best = (held * centred).sum(-1) - norm(held, exponent).squeeze(-1) + 1
        if not isinstance(exponent, Tensor):
            return best
        # The derivative of the norm in alpha at a fixed p, attached for second derivatives.
        relative, support, size = _relative(probs)
        total = _power_sum(relative, support, exponent)
        logs = (relative**exponent * relative.log() * support).sum(-1, keepdim=True)
        rate = logs / (exponent * total) - total.log() / exponent.square()
        rate = -(size * total ** (1 / exponent) * rate)
        value: Tensor = Danskin.run(exponent, rate, best.detach(), -1)
        return value
