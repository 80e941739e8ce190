"""The loss of a linear layer's scores, without ever holding the scores of all tokens."""

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.nn import functional as F

from repro.losses.fenchel_young import FenchelYoungLoss, check_loss_settings
from repro.losses.linear_function import LinearEntmaxFunction
from repro.losses.reduction import Reduction, check_classes, reduce_losses
from repro.mappings import Entmax
from repro.mappings._entmax import check_alpha
from repro.mappings._parameters import integer

_CHUNK = 2**22
"""Scores held at once by default: 16 MB in float32."""


def linear_entmax_loss(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, alpha: float = 1.5,
    *, ignore_index: int = -100, reduction: Reduction = "mean", label_smoothing: float = 0.0,
    chunk_size: int | None = None,
) -> Tensor:  # fmt: skip
    r"""Return the α-entmax loss of a linear layer's scores, a few tokens at a time.

    .. math:: L(z, y) = \max_\Omega(z) - z_y, \; z = W h + b, \; \nabla_h L = W^\top (p - e_y)

    Args:
        hidden: ``h``, shape ``(..., d)``, floating point.
        weight: ``W``, shape ``(V, d)``, of the same type.
        bias: ``b``, shape ``(V,)``, of the same type; ``-inf`` forbids an entry.
        target: class indices, shape ``(...)``, ``long``.
        alpha: a number, at least 1.
        ignore_index: targets with this value have no loss and no gradient.
        reduction: as in :class:`FenchelYoungLoss`.
        label_smoothing: ``ε`` in ``[0, 1)``, spread over the entries whose bias is not ``-inf``.
        chunk_size: tokens at a time; by default as many as have four million scores.

    Returns:
        A scalar, or shape ``(...)`` with ``reduction="none"``; the type of ``hidden``. Half types
        are summed in float32. The loss can be differentiated once only. Under transforms of
        ``torch.func``, in forward mode and in batched gradients, all scores are held at once.

    Raises:
        TypeError: alpha is no number, targets are not ``long``, or types differ.
        ValueError: a setting is out of range, or shapes do not fit.
        IndexError: a target is no class (on an accelerator, torch decides).

    References:
        Peters et al. (2019), Eqs. 11 and 12.
    """
    smoothing = check_loss_settings(reduction, label_smoothing)
    skipped = integer("ignore_index", ignore_index)
    alpha = check_numbers(alpha, chunk_size)
    hidden, weight, bias = _as_autocast(hidden, weight, bias)
    _check_tensors(hidden, weight, bias, target)
    if torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0:
        # The chunked function has reverse mode only; torch.func takes the loss of all scores.
        loss = FenchelYoungLoss(Entmax(alpha), skipped, reduction, smoothing)
        return loss(F.linear(hidden, weight, bias), target)
    size = chunk_size or max(1, _CHUNK // max(1, weight.size(0)))
    ignored = target == skipped
    kept = ~ignored
    check_classes(target.masked_fill(ignored, 0), max(1, weight.size(0)))
    counted: Tensor = LinearEntmaxFunction.apply(
        hidden[kept], weight, bias, target[kept], Entmax(alpha), smoothing, size,
        torch.is_grad_enabled(),
    )  # fmt: skip
    losses = counted.new_zeros(target.shape).masked_scatter(kept, counted)
    return reduce_losses(losses, ignored, reduction).to(hidden.dtype)


class LinearEntmaxLoss(nn.Module):
    """:func:`linear_entmax_loss` as a module, called as ``loss(hidden, weight, bias, target)``.

    The weight stays with the layer that owns it: ``loss(h, layer.weight, layer.bias, y)``.
    """

    def __init__(
        self,
        alpha: float = 1.5,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
        label_smoothing: float = 0.0,
        chunk_size: int | None = None,
    ) -> None:
        super().__init__()
        self.label_smoothing = check_loss_settings(reduction, label_smoothing)
        self.alpha = check_numbers(alpha, chunk_size)
        self.ignore_index = integer("ignore_index", ignore_index)
        self.reduction = reduction
        self.chunk_size = chunk_size

    def forward(
        self, hidden: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor
    ) -> Tensor:
        """Return :func:`linear_entmax_loss`."""
        return linear_entmax_loss(
            hidden, weight, bias, target, self.alpha,
            ignore_index=self.ignore_index, reduction=self.reduction,
            label_smoothing=self.label_smoothing, chunk_size=self.chunk_size,
        )  # fmt: skip

    def extra_repr(self) -> str:
        """Show the settings."""
        return (
            f"alpha={self.alpha}, ignore_index={self.ignore_index}, "
            f"reduction={self.reduction!r}, label_smoothing={self.label_smoothing}, "
            f"chunk_size={self.chunk_size}"
        )


def check_numbers(alpha: float, chunk_size: int | None) -> float:
    """Return alpha as a Python number.

    Raises:
        TypeError: alpha is a tensor, or no number.
        ValueError: alpha is below 1 or not finite, or ``chunk_size`` is below 1.
    """
    if isinstance(alpha, Tensor):
        raise TypeError("alpha must be a number here; for a tensor use EntmaxLoss on the scores")
    if chunk_size is not None and chunk_size < 1:
        raise ValueError(f"chunk_size must be at least 1, got {chunk_size}")
    return check_alpha(alpha)


def _as_autocast(
    hidden: Tensor, weight: Tensor, bias: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Cast the arguments of a linear layer as autocast would."""
    device = hidden.device.type
    if not torch.is_autocast_enabled(device) or hidden.dtype == torch.float64:
        return hidden, weight, bias
    dtype = torch.get_autocast_dtype(device)
    return hidden.to(dtype), weight.to(dtype), None if bias is None else bias.to(dtype)


def _check_tensors(hidden: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor) -> None:
    tensors = [hidden, weight] if bias is None else [hidden, weight, bias]
    dtypes = [tensor.dtype for tensor in tensors]
    if not hidden.is_floating_point() or len(set(dtypes)) != 1:
        raise TypeError(f"hidden, weight and bias must have one floating point type, got {dtypes}")
    if target.dtype != torch.long:
        raise TypeError(f"target must hold class indices (torch.long), got {target.dtype}")
    if hidden.dim() == 0 or target.shape != hidden.shape[:-1]:
        raise ValueError(
            f"target must have the shape of hidden without the last axis, got "
            f"{tuple(target.shape)} for {tuple(hidden.shape)}"
        )
    if weight.dim() != 2 or weight.size(1) != hidden.size(-1):
        size = hidden.size(-1)
        raise ValueError(f"weight must have shape (V, {size}), got {tuple(weight.shape)}")
    if bias is not None and bias.shape != weight.shape[:1]:
        raise ValueError(f"bias must have shape ({weight.size(0)},), got {tuple(bias.shape)}")
