"""Loss of a linear layer's scores, computed without storing the scores of all tokens at once.

Only the supports of the distributions are saved, so that gradients gather a few rows of the weight
per token. Distributions of a chunk with large supports are recomputed in the backward pass.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn import functional as F

from repro.losses.fenchel_young import FenchelYoungLoss, Reduction, check_reduction, reduce_losses
from repro.mappings import Entmax
from repro.mappings._arguments import center, check_classes, integer, number, positive

_DENSITY = 1 / 64
"""Largest fraction of nonzero probabilities for which the support of a chunk is saved."""


class Layer(NamedTuple):
    """Hidden states of tokens and the layer that scores them."""

    hidden: Tensor
    weight: Tensor
    bias: Tensor | None = None

    @classmethod
    def checked(
        cls, hidden: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor
    ) -> "Layer":
        """Check types and shapes of the arguments of :func:`linear_entmax_loss`."""
        parts = [hidden, weight] if bias is None else [hidden, weight, bias]
        device = hidden.device.type
        if torch.is_autocast_enabled(device) and hidden.dtype != torch.float64:
            dtype = torch.get_autocast_dtype(device)  # autocast of a linear layer
            parts = [part.to(dtype) for part in parts]
        dtypes = [part.dtype for part in parts]
        if not parts[0].is_floating_point() or len(set(dtypes)) != 1:
            raise TypeError(
                f"hidden, weight and bias must have one floating point type, got {dtypes}"
            )
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
        return cls(*parts)

    @property
    def dtype(self) -> torch.dtype:
        """Dtype in which scores and sums are computed, at least float32."""
        return torch.promote_types(self.hidden.dtype, torch.float32)

    def scores(self, rows: slice) -> Tensor:
        """Return the scores of some tokens."""
        return F.linear(self.hidden[rows], self.weight, self.bias).to(self.dtype)


class LinearEntmaxFunction(Function):
    """Compute a loss per token, differentiable once in hidden states, weight and bias."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor,
        mapping: Entmax, size: int, differentiable: bool,
    ) -> Tensor:  # fmt: skip
        """Solve the chunks in turn; save their supports if a gradient may be needed."""
        layer = Layer(hidden, weight, bias)
        losses = hidden.new_empty(len(target), dtype=layer.dtype)
        found, dense = [], []
        for start in range(0, len(target), size):
            rows = slice(start, min(start + size, len(target)))
            losses[rows], support = _solve(layer, rows, target[rows], mapping)
            if support is None:
                dense.append(rows)
            elif differentiable:
                # Copies, with indices of half the size, made after the scores are freed: the
                # originals, allocated beside the scores, would leave fragmented memory.
                tokens, columns, shares = support
                found.append((tokens.int(), columns.int(), shares.clone()))
        ctx.settings = mapping, dense
        nowhere = losses.new_empty(0, dtype=torch.int32)
        found = found or [(nowhere, nowhere, losses.new_empty(0))]
        supports = (torch.cat(parts) for parts in zip(*found, strict=True))
        ctx.save_for_backward(hidden, weight, bias, target, *supports)
        return losses

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Multiply ``g (p - e_y)`` with weight and hidden states, in :attr:`Layer.dtype`."""
        if torch.is_grad_enabled():
            raise RuntimeError(
                "linear_entmax_loss has no second derivative (create_graph=True); "
                "use EntmaxLoss on the scores of the layer"
            )
        hidden, weight, bias, target, tokens, columns, shares = ctx.saved_tensors
        mapping, dense = ctx.settings
        layer, grad, padding = Layer(hidden, weight, bias), grads[0], [None] * 4
        if torch._C._functorch.is_legacy_batchedtensor(grad):
            # Batched gradients support neither in-place sums nor sparse matrices: use the loss of
            # all scores at once.
            loss = FenchelYoungLoss(mapping, reduction="none")
            with torch.enable_grad():
                parts = [part.detach().requires_grad_() for part in layer if part is not None]
                losses = loss(Layer(*parts).scores(slice(None)), target)
                moved = torch.autograd.grad(losses, parts, grad)
            return *moved, *([None] if bias is None else []), *padding
        wide_hidden, wide_weight = hidden.to(layer.dtype), weight.to(layer.dtype)
        like = wide_hidden, wide_weight, wide_weight.new_empty(len(weight), 1)
        sums = [
            torch.zeros_like(part) if needed else None
            for part, needed in zip(like, ctx.needs_input_grad, strict=False)
        ]
        to_hidden, to_weight, to_bias = sums

        def add(rows: slice, errors: Tensor) -> None:
            """Add the gradients due to ``errors``, the gradient in scores, dense or sparse."""
            if to_hidden is not None:
                to_hidden[rows].addmm_(errors, wide_weight)
            if to_weight is not None:
                to_weight.addmm_(errors.t(), wide_hidden[rows])
            if to_bias is not None:
                to_bias.addmm_(errors.t(), wide_hidden.new_ones(errors.size(0), 1))

        shape, tokens = (len(target), len(weight)), tokens.long()
        add(slice(None), _sparse(tokens, columns, shares * grad[tokens], shape))
        for rows in dense:
            add(rows, mapping(layer.scores(rows)).mul_(grad[rows, None]))
        tokens = torch.arange(len(target), device=target.device)
        add(slice(None), _sparse(tokens, target, -grad, shape))
        if to_bias is not None:
            sums[2] = to_bias.squeeze(-1)
        return *(None if total is None else total.to(hidden.dtype) for total in sums), *padding


def _solve(
    layer: Layer, rows: slice, target: Tensor, mapping: Entmax
) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor] | None]:
    """Return the losses of a chunk and its support (tokens, columns, values), or None if large."""
    scores = layer.scores(rows)
    probs = mapping(scores)
    top = scores.amax(-1)
    support = None
    if torch.count_nonzero(probs) > _DENSITY * probs.numel():
        best = mapping.conjugate_centered(center(scores, -1)[0], probs, -1)
    else:
        # max_Ω of the centered rows as a sum over the support, where both of its terms are nonzero.
        tokens, columns = probs.nonzero(as_tuple=True)
        shares = probs[tokens, columns]
        below = _below(scores[tokens, columns], top[tokens])
        terms = shares * below - mapping.omega(shares.unsqueeze(-1))
        best = torch.zeros_like(top).index_add_(0, tokens, terms)
        support = tokens + rows.start, columns, shares
    chosen = scores.gather(-1, target.unsqueeze(-1)).squeeze(-1)
    gap = best - _below(chosen, top)
    return gap.clamp_(min=0).masked_fill_(chosen == -torch.inf, torch.inf), support


def _below(scores: Tensor, top: Tensor) -> Tensor:
    """Return ``z - max z`` of single scores, given the maxima, as :func:`center` computes it."""
    return center(torch.stack((scores, top), -1), -1)[0][..., 0]


def _sparse(tokens: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    indices = torch.stack((tokens, columns.long()))
    return torch.sparse_coo_tensor(indices, values, shape, check_invariants=False)


_CHUNK = 2**22
"""Default number of scores per chunk: 16 MiB in float32."""


def linear_entmax_loss(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, alpha: float = 1.5,
    *, ignore_index: int = -100, reduction: Reduction = "mean", chunk_size: int | None = None,
) -> Tensor:  # fmt: skip
    r"""Return the α-entmax loss of a linear layer's scores, a few tokens at a time.

    .. math:: L(z, y) = \max_\Omega(z) - z_y, \; z = W h + b, \; \nabla_h L = W^\top (p - e_y)

    Args:
        hidden: ``h``, shape ``(..., d)``, floating point.
        weight: ``W``, shape ``(V, d)``, the dtype of ``hidden``.
        bias: ``b``, shape ``(V,)``, the dtype of ``hidden``, or None; ``-inf`` forbids an entry.
        target: class indices, shape ``(...)``, ``long``.
        alpha: a number, at least 1.
        ignore_index: targets with this value have no loss and no gradient.
        reduction: as in :class:`FenchelYoungLoss`.
        chunk_size: tokens per chunk; by default as many as have four million scores in total.

    Returns:
        A scalar, or shape ``(...)`` with ``reduction="none"``; the dtype of ``hidden``. Half
        precision is summed in float32. The loss has no second derivative. Under transforms of
        ``torch.func`` and in batched gradients, all scores are computed at once.

    Raises:
        TypeError: alpha is not a number, targets are not ``long``, or dtypes differ.
        ValueError: a setting is out of range, or shapes do not fit.
        IndexError: a target is not a class (on accelerators, PyTorch's own checks apply).

    References:
        Peters et al. (2019), Eqs. 11 and 12.
    """
    loss = LinearEntmaxLoss(alpha, ignore_index, reduction, chunk_size)
    value: Tensor = loss(hidden, weight, bias, target)
    return value


class LinearEntmaxLoss(nn.Module):
    """Module form of :func:`linear_entmax_loss`: ``loss(hidden, weight, bias, target)``.

    The weight stays with the layer that owns it: ``loss(h, layer.weight, layer.bias, y)``.
    """

    def __init__(
        self,
        alpha: float = 1.5,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
        chunk_size: int | None = None,
    ) -> None:
        super().__init__()
        check_reduction(reduction)
        if isinstance(alpha, Tensor):
            raise TypeError(
                "alpha must be a number here; for a tensor use EntmaxLoss on the scores"
            )
        if chunk_size is not None and integer("chunk_size", chunk_size) < 1:
            raise ValueError(f"chunk_size must be at least 1, got {chunk_size}")
        if number("alpha", alpha) < 1:
            raise ValueError(f"alpha must be at least 1 here, got {alpha}; below, use EntmaxLoss")
        self.alpha = positive("alpha", alpha)
        self.ignore_index = integer("ignore_index", ignore_index)
        self.reduction = reduction
        self.chunk_size = chunk_size

    def forward(
        self, hidden: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor
    ) -> Tensor:
        """Return the loss; the arguments are those of :func:`linear_entmax_loss`."""
        layer, mapping = Layer.checked(hidden, weight, bias, target), Entmax(self.alpha)
        if torch._C._are_functorch_transforms_active():
            # The chunked function has reverse mode only, so compute the loss of all scores at once.
            loss = FenchelYoungLoss(mapping, self.ignore_index, self.reduction)
            return loss(F.linear(*layer), target)
        size = self.chunk_size or max(1, _CHUNK // max(1, weight.size(0)))
        ignored = target == self.ignore_index
        kept = ~ignored
        check_classes(target.masked_fill(ignored, 0), max(1, weight.size(0)))
        counted: Tensor = LinearEntmaxFunction.apply(
            layer.hidden[kept], layer.weight, layer.bias, target[kept], mapping, size,
            torch.is_grad_enabled(),
        )  # fmt: skip
        losses = counted.new_zeros(target.shape).masked_scatter(kept, counted)
        return reduce_losses(losses, ignored, self.reduction).to(layer.hidden.dtype)

    def extra_repr(self) -> str:
        """Show the settings."""
        names = ("alpha", "ignore_index", "reduction", "chunk_size")
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
