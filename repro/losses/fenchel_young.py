"""Fenchel–Young losses: one loss for every mapping, with the gradient ``p - y``."""

from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.autograd import Function, forward_ad

from repro.mappings import Csoftmax, Csparsemax, Entmax, ProbabilityMap, Softmax, Sparsemax
from repro.mappings._arguments import allowed_scores, centre, integer, is_concrete, number
from repro.mappings._autograd import DifferentiableFunction, keep
from repro.mappings._entmax import apply_jacobian
from repro.mappings.kernels import dispatch

Reduction = Literal["mean", "sum", "none"]


def check_loss_settings(reduction: str, label_smoothing: float) -> float:
    """Return ``ε`` as a Python number; raise ``ValueError`` if it or the reduction is wrong."""
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"reduction must be 'mean', 'sum' or 'none', got {reduction!r}")
    smoothing = number("label_smoothing", label_smoothing)
    if not 0 <= smoothing < 1:
        raise ValueError(f"label_smoothing must lie in [0, 1), got {label_smoothing}")
    return smoothing


def reduce_losses(losses: Tensor, ignored: Tensor, reduction: Reduction) -> Tensor:
    """Sum or average losses that are zero where ignored; a mean over no target is zero."""
    if reduction == "none":
        return losses
    total = losses.sum()
    return total / (~ignored).sum().clamp(min=1) if reduction == "mean" else total


def check_classes(target: Tensor, size: int) -> None:
    """Raise ``IndexError`` for a target that is no class, where values can be read for free."""
    if is_concrete(target) and bool(((target < 0) | (target >= size)).any()):
        raise IndexError(f"targets must be in [0, {size}) or the ignored value")


class FenchelYoungLoss(nn.Module):
    r"""The loss for which a mapping is the right prediction function.

    .. math:: L(z, y) = \max_\Omega(z) + \Omega(e_y) - z_y
              = \Omega(e_y) - \Omega(p) + \langle z, p - e_y \rangle

    With ``p = mapping(z)``: nonnegative, convex, zero exactly if ``p = e_y``, and its gradient in
    ``z`` is ``p - e_y``. Softmax gives cross-entropy, sparsemax the sparsemax loss.

    Label smoothing ``ε`` replaces ``e_y`` by ``q = (1 - ε) e_y + ε u``, ``u`` uniform over the
    entries whose score is not ``-inf``. What is computed is

    .. math:: L_\varepsilon(z, y) = \max_\Omega(z) + \Omega(e_y) - \langle q, z \rangle
              = L(z, y) + \varepsilon \, (z_y - \bar z)

    with ``z̄`` the mean allowed score. It is ``L(z, q)`` up to the constant ``Ω(q) - Ω(e_y)``, so
    the gradient is ``p - q``; for softmax it is torch's smoothed cross-entropy. ``Ω(e_y)`` is zero
    for all maps but fusedmax.

    Args:
        mapping: gives ``p`` and ``Ω``; a learnable alpha receives its gradient.
        ignore_index: targets with this value have no loss and no gradient.
        reduction: ``"mean"`` over the targets that are not ignored (zero if all are), ``"sum"``,
            or ``"none"``.
        label_smoothing: ``ε`` in ``[0, 1)``.

    Raises:
        TypeError: the mapping is no :class:`ProbabilityMap`, or needs upper bounds; or
            ``ignore_index`` is no integer or ``label_smoothing`` no number.
        ValueError: another setting is out of range.

    References:
        Peters et al. (2019), Eqs. 11, 12 and 18; Peters & Martins (2021) for the smoothing.
    """

    def __init__(
        self,
        mapping: ProbabilityMap,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__()
        smoothing = check_loss_settings(reduction, label_smoothing)
        if not isinstance(mapping, ProbabilityMap) or isinstance(mapping, Csoftmax | Csparsemax):
            raise TypeError(f"mapping must be a ProbabilityMap without bounds, got {mapping!r}")
        self.mapping = mapping
        self.ignore_index = integer("ignore_index", ignore_index)
        self.reduction = reduction
        self.label_smoothing = smoothing

    def forward(self, scores: Tensor, target: Tensor) -> Tensor:
        """Return the loss.

        Args:
            scores: ``z``, shape ``(..., V)``, floating point; ``-inf`` forbids an entry.
            target: class indices, shape ``(...)``, ``long``.

        Returns:
            A scalar, or shape ``(...)`` with ``reduction="none"``; ``+inf`` where the target is
            forbidden.

        Raises:
            TypeError: scores are not floating point, or targets are not ``long``.
            ValueError: the target's shape is not that of the scores without the last axis.
            IndexError: a target is no class (on an accelerator, or under ``torch.compile``, what
                torch makes of it).
        """
        if target.dtype != torch.long:
            raise TypeError(f"target must hold class indices (torch.long), got {target.dtype}")
        if target.shape != scores.shape[:-1]:
            raise ValueError(
                f"target must have shape {tuple(scores.shape[:-1])} for scores of shape "
                f"{tuple(scores.shape)}, got {tuple(target.shape)}"
            )
        wide = allowed_scores(scores, None, -1)
        if not self.label_smoothing:
            value = fused_losses(self.mapping, wide, target, self.ignore_index, self.reduction)
            if value is not None:
                return value.to(scores.dtype)
        ignored = target == self.ignore_index
        chosen = target.masked_fill(ignored, 0)
        check_classes(chosen, scores.size(-1))
        probs, chosen = self.mapping(wide), chosen.unsqueeze(-1)
        centred, _ = centre(wide.detach(), -1)
        best = self.mapping.conjugate_centered(centred, probs, -1)
        omega = self.mapping.omega_one_hot(centred, chosen)
        gap = best - centred.gather(-1, chosen).squeeze(-1) + omega
        allowed = None
        if self.label_smoothing:
            allowed = wide.detach() > -torch.inf
            mean = (centred * allowed).sum(-1) / allowed.sum(-1).clamp(min=1)
            gap = gap + self.label_smoothing * (centred.gather(-1, chosen).squeeze(-1) - mean)
        forbidden = wide.detach().gather(-1, chosen).squeeze(-1) == -torch.inf
        gap = gap.clamp(min=0).masked_fill(forbidden, torch.inf)
        losses: Tensor = _WithGradient.run(wide, probs, gap, chosen, allowed, self.label_smoothing)
        losses = losses.masked_fill(ignored, 0.0)
        return reduce_losses(losses, ignored, self.reduction).to(scores.dtype)

    def extra_repr(self) -> str:
        """Show the settings."""
        names = ("ignore_index", "reduction", "label_smoothing")
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in names)


class CrossEntropyLoss(FenchelYoungLoss):
    """The Fenchel–Young loss of softmax."""

    def __init__(
        self, ignore_index: int = -100, reduction: Reduction = "mean", label_smoothing: float = 0.0
    ) -> None:
        super().__init__(Softmax(), ignore_index, reduction, label_smoothing)


class SparsemaxLoss(FenchelYoungLoss):
    """The Fenchel–Young loss of sparsemax."""

    def __init__(
        self, ignore_index: int = -100, reduction: Reduction = "mean", label_smoothing: float = 0.0
    ) -> None:
        super().__init__(Sparsemax(), ignore_index, reduction, label_smoothing)


class EntmaxLoss(FenchelYoungLoss):
    """The Fenchel–Young loss of α-entmax."""

    def __init__(
        self,
        alpha: float | Tensor = 1.5,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(Entmax(alpha), ignore_index, reduction, label_smoothing)


class _WithGradient(DifferentiableFunction):
    """Losses computed elsewhere whose gradient in the scores is ``p - q``."""

    @staticmethod
    def forward(
        scores: Tensor,
        probs: Tensor,
        losses: Tensor,
        chosen: Tensor,
        allowed: Tensor | None,
        smoothing: float,
    ) -> Tensor:
        """``losses``."""
        return losses.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        """Keep the distribution attached: its derivative is the Hessian."""
        _, probs, _, chosen, allowed, ctx.smoothing = inputs
        keep(ctx, probs, chosen, allowed)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """``g (p - q)`` in one buffer the size of the scores."""
        probs, chosen, allowed = ctx.saved_tensors
        grad = grads[0].unsqueeze(-1)
        moved = (grad * probs).scatter_add_(-1, chosen, (ctx.smoothing - 1) * grad)
        if allowed is not None:
            share = ctx.smoothing / allowed.sum(-1, keepdim=True, dtype=grad.dtype).clamp(min=1)
            moved = moved - grad * share * allowed
        return moved, None, grads[0], None, None, None

    @staticmethod
    def tangent(ctx: Any, *tangents: Tensor | None) -> Tensor:
        """``<p - q, dz>`` and the tangent of the losses computed elsewhere."""
        probs, chosen, allowed = ctx.saved_tensors
        moved = probs.new_zeros(()) if tangents[2] is None else tangents[2]
        if tangents[0] is None:
            return moved
        taken = tangents[0].gather(-1, chosen).squeeze(-1)
        moved = moved + (probs * tangents[0]).sum(-1) + (ctx.smoothing - 1) * taken
        if allowed is not None:
            share = ctx.smoothing / allowed.sum(-1, dtype=probs.dtype).clamp(min=1)
            moved = moved - share * (tangents[0] * allowed).sum(-1)
        return moved


def order_of(mapping: ProbabilityMap) -> float | None:
    """Return ``r = α - 1`` of a map for which there are kernels of the loss, else None."""
    kind = type(mapping)
    if kind is Entmax and isinstance(mapping.alpha, float):
        return mapping.alpha - 1.0
    if kind is Softmax and mapping.gamma == 1:
        return 0.0
    return 1.0 if kind is Sparsemax and mapping.gamma == 1 else None


def fused_losses(
    mapping: ProbabilityMap, scores: Tensor, target: Tensor, ignored: int, reduction: Reduction
) -> Tensor | None:
    """Return reduced losses by a kernel that gives them with ``p``; None where there is none.

    Arguments are those of :class:`FenchelYoungLoss`, scores in single or double precision.

    Raises:
        IndexError: a target is no class.
    """
    order = order_of(mapping)
    if order is None or scores.numel() == 0 or not is_concrete(scores):
        return None
    if not dispatch.has_kernel(scores) or forward_ad._current_level >= 0:  # no forward mode
        return None
    losses: Tensor = _apply(scores, target, order, ignored, reduction)[0]
    # Rows with infinite scores need the rules of the mapping.
    return losses if order or bool(losses.isfinite().all()) else None


class EntmaxLossFunction(Function):
    """Losses, and ``p``, whose only use is that the gradient ``p - e_y`` has a derivative."""

    @staticmethod
    def forward(
        ctx: Any, scores: Tensor, target: Tensor, order: float, ignored: int, reduction: Reduction
    ) -> tuple[Tensor, Tensor]:
        """One kernel; reduced here, as two steps of autograd take longer than a small kernel."""
        if order == 0:
            # Keeping the probabilities saves the backward pass an exponential of every score: with
            # 2,500 classes it takes a third of the time of that of torch's cross_entropy.
            skipped = target == ignored
            chosen = target.masked_fill(skipped, 0)
            check_classes(chosen, scores.size(-1))
            probs = torch.log_softmax(scores, dim=-1)
            losses = -probs.gather(-1, chosen.unsqueeze(-1)).squeeze(-1)
            losses, probs = losses.masked_fill_(skipped, 0.0), probs.exp_()
        else:
            losses, probs = dispatch.launch("entmax_loss", scores, target, order, ignored)
        count = (target != ignored).sum().clamp_(min=1) if reduction == "mean" else None
        ctx.save_for_backward(probs, target, count)
        ctx.order, ctx.ignored = order, ignored
        ctx.set_materialize_grads(False)
        if reduction == "none":
            return losses, probs
        total = losses.sum()
        return total if count is None else total.div_(count), probs

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, None, None, None, None]:
        """``g (p - e_y) + J h`` with ``g`` of the losses and ``h`` of ``p``."""
        probs, target, count = ctx.saved_tensors
        moved = None
        if grads[0] is not None:
            each = grads[0] if count is None else grads[0] / count
            each = each.expand(target.shape)
            if dispatch.differentiable_once(probs, each):
                moved = dispatch.launch("entmax_loss_backward", probs, target, each, ctx.ignored)
            else:
                skipped = target == ctx.ignored
                weight = each.masked_fill(skipped, 0.0).unsqueeze(-1)
                chosen = target.masked_fill(skipped, 0).unsqueeze(-1)
                moved = (weight * probs).scatter_add(-1, chosen, -weight)
        if grads[1] is not None:
            bent = apply_jacobian(probs, ctx.order, grads[1])[0]
            moved = bent if moved is None else moved + bent
        return moved, None, None, None, None


_apply = super(Function, EntmaxLossFunction).apply
"""Skips the work of ``Function.apply`` for functorch, which takes longer than a small kernel."""
