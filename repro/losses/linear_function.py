"""The derivative of the fused linear layer and loss.

Of the distributions only the supports are kept, so that the gradients gather a few rows of the
weight per token. A chunk with large supports is solved once more in the backward pass.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn import functional as F

from repro.losses.fenchel_young import FenchelYoungLoss
from repro.mappings import Entmax
from repro.mappings._masking import centre

_DENSITY = 1 / 64
"""Share of nonzero probabilities up to which the support of a chunk is kept."""


class Support(NamedTuple):
    """Nonzero probabilities with their places."""

    tokens: Tensor
    columns: Tensor
    shares: Tensor

    def compact(self) -> "Support":
        """A copy with places in half the space.

        Made when the scores are gone: kept among them it would split the memory that they leave.
        """
        return Support(self.tokens.int(), self.columns.int(), self.shares.clone())


class Layer(NamedTuple):
    """Hidden states of tokens and the layer that scores them."""

    hidden: Tensor
    weight: Tensor
    bias: Tensor | None

    @property
    def dtype(self) -> torch.dtype:
        """The type that sums are held in."""
        return torch.float64 if self.hidden.dtype == torch.float64 else torch.float32

    def scores(self, rows: slice) -> Tensor:
        """Scores of some tokens."""
        return F.linear(self.hidden[rows], self.weight, self.bias).to(self.dtype)

    def allowed(self) -> Tensor:
        """Mask of the columns that label smoothing covers: one, else zero."""
        if self.bias is None:
            return self.hidden.new_ones(self.weight.size(0), dtype=self.dtype)
        return (self.bias > -torch.inf).to(self.dtype)

    def mean_weight(self) -> Tensor:
        """Mean of the allowed columns' weights."""
        allowed = self.allowed()
        weight = self.weight if allowed.all() else self.weight[allowed > 0]
        return weight.sum(0, dtype=self.dtype) / allowed.sum().clamp(min=1)

    def lead(self, target: Tensor) -> Tensor:
        """``z_y`` less the mean allowed score, which is linear in the hidden state too."""
        direction = self.weight[target].to(self.dtype) - self.mean_weight()
        ahead = (self.hidden.to(self.dtype) * direction).sum(-1)
        if self.bias is None:
            return ahead
        allowed = self.allowed()
        bias = torch.where(allowed > 0, self.bias.to(self.dtype), 0)
        return ahead + bias[target] - bias.sum() / allowed.sum().clamp(min=1)


class LinearEntmaxFunction(Function):
    """Losses of single tokens; differentiable once in hidden states, weight and bias."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor,
        mapping: Entmax, smoothing: float, size: int, differentiable: bool,
    ) -> Tensor:  # fmt: skip
        """Go through the chunks; keep their supports if a gradient may be asked for."""
        layer = Layer(hidden, weight, bias)
        losses = hidden.new_empty(len(target), dtype=layer.dtype)
        found, again = [], []
        for start in range(0, len(target), size):
            rows = slice(start, min(start + size, len(target)))
            losses[rows], support = _solve(layer, rows, target[rows], mapping)
            if support is None:
                again.append(rows)
            elif differentiable:
                found.append(support.compact())
        if smoothing:
            losses = (losses + smoothing * layer.lead(target)).clamp_(min=0)
        ctx.settings = mapping, smoothing, again
        ctx.save_for_backward(hidden, weight, bias, target, *_joined(found, losses))
        return losses

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Sum ``g (p - q)`` against the weight and the hidden states."""
        if torch.is_grad_enabled():
            raise RuntimeError(
                "linear_entmax_loss has no second derivative (create_graph=True); "
                "take EntmaxLoss of the layer's scores"
            )
        hidden, weight, bias, target, *support = ctx.saved_tensors
        mapping, smoothing, again = ctx.settings
        layer, grad = Layer(hidden, weight, bias), grads[0]
        if torch._C._functorch.is_legacy_batchedtensor(grad):
            moved = _batched_gradients(layer, target, mapping, smoothing, grad)
            return *moved, None, None, None, None, None
        sums = _Gradients(layer, ctx.needs_input_grad)
        sums.add(slice(None), _kept_errors(Support(*support), grad, len(weight)))
        for rows in again:
            sums.add(rows, mapping(layer.scores(rows)).mul_(grad[rows, None]))
        tokens, shape = torch.arange(len(target), device=target.device), (len(target), len(weight))
        sums.add(slice(None), _sparse(tokens, target, (smoothing - 1) * grad, shape))
        if smoothing:
            sums.add_uniform(-smoothing * grad)
        return *sums.finish(), None, None, None, None, None


def _batched_gradients(
    layer: Layer, target: Tensor, mapping: Entmax, smoothing: float, grad: Tensor
) -> list[Tensor | None]:
    """Gradients of the layer for a batch of incoming gradients, from all scores at once.

    Sums in place and sparse matrices, of which the usual way consists, have no batched form.
    """
    loss = FenchelYoungLoss(mapping, reduction="none", label_smoothing=smoothing)
    with torch.enable_grad():
        parts = [part.detach().requires_grad_() for part in layer if part is not None]
        bias = None if layer.bias is None else parts[2]
        losses = loss(Layer(parts[0], parts[1], bias).scores(slice(None)), target)
        found: list[Tensor | None] = [*torch.autograd.grad(losses, parts, grad)]
    return found if len(found) == 3 else [*found, None]


class _Gradients:
    """Sums of gradients, in the wide type; none of what needs no gradient."""

    def __init__(self, layer: Layer, needed: Sequence[bool]) -> None:
        self.layer = layer
        self.weight_values = layer.weight.to(layer.dtype)
        self.hidden_values = layer.hidden.to(layer.dtype)
        self.hidden = torch.zeros_like(self.hidden_values) if needed[0] else None
        self.weight = torch.zeros_like(self.weight_values) if needed[1] else None
        self.bias = self.weight_values.new_zeros(len(layer.weight), 1) if needed[2] else None

    def add(self, rows: slice, errors: Tensor) -> None:
        """Add what errors of scores, dense or sparse, mean for the three arguments."""
        hidden = self.hidden_values[rows]
        if self.hidden is not None:
            self.hidden[rows].addmm_(errors, self.weight_values)
        if self.weight is not None:
            self.weight.addmm_(errors.t(), hidden)
        if self.bias is not None:
            self.bias.addmm_(errors.t(), hidden.new_ones(len(hidden), 1))

    def add_uniform(self, grad: Tensor) -> None:
        """Add the same error for every allowed column of a token."""
        allowed = self.layer.allowed()
        even = allowed / allowed.sum().clamp(min=1)
        if self.hidden is not None:
            self.hidden.addr_(grad, self.layer.mean_weight())
        if self.weight is not None:
            self.weight.addr_(even, grad @ self.hidden_values)
        if self.bias is not None:
            self.bias.add_((even * grad.sum()).unsqueeze(-1))

    def finish(self) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """The gradients in the type of the arguments."""
        dtype = self.layer.hidden.dtype
        bias = None if self.bias is None else self.bias.squeeze(-1)
        hidden, weight, bias = (
            None if total is None else total.to(dtype) for total in (self.hidden, self.weight, bias)
        )
        return hidden, weight, bias


def _solve(
    layer: Layer, rows: slice, target: Tensor, mapping: Entmax
) -> tuple[Tensor, Support | None]:
    """Losses of one chunk, and its support unless that is large."""
    scores = layer.scores(rows)
    probs = mapping(scores)
    support = _small_support(probs)
    top = scores.amax(-1)
    chosen = scores.gather(-1, target.unsqueeze(-1)).squeeze(-1)
    if support is None:
        best = mapping.conjugate_centered(centre(scores, -1)[0], probs, -1)
    else:
        # max_Ω of the centred rows, summed over their supports.
        tokens, columns, shares = support
        below = _below(scores[tokens, columns], top[tokens])
        terms = shares * below - mapping.omega(shares.unsqueeze(-1))
        best = torch.zeros_like(top).index_add_(0, tokens, terms)
        support = support._replace(tokens=support.tokens + rows.start)
    gap = best - _below(chosen, top)
    return gap.clamp_(min=0).masked_fill_(chosen == -torch.inf, torch.inf), support


def _small_support(probs: Tensor) -> Support | None:
    if torch.count_nonzero(probs) > _DENSITY * probs.numel():
        return None
    tokens, columns = probs.nonzero(as_tuple=True)
    return Support(tokens, columns, probs[tokens, columns])


def _below(scores: Tensor, top: Tensor) -> Tensor:
    """Single scores, centred as their rows are."""
    return centre(torch.stack((scores, top), -1), -1)[0][..., 0]


def _joined(found: Sequence[Support], losses: Tensor) -> Support:
    """One support for all tokens."""
    if not found:
        nowhere = losses.new_empty(0, dtype=torch.int32)
        return Support(nowhere, nowhere, losses.new_empty(0))
    return Support(*(torch.cat(parts) for parts in zip(*found, strict=True)))


def _kept_errors(support: Support, grad: Tensor, width: int) -> Tensor:
    tokens, columns = support.tokens.long(), support.columns
    return _sparse(tokens, columns, support.shares * grad[tokens], (len(grad), width))


def _sparse(tokens: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    places = torch.stack((tokens, columns.long()))
    return torch.sparse_coo_tensor(places, values, shape, check_invariants=False)
