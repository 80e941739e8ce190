r"""Sums over all non-projective dependency trees: the Matrix-Tree theorem.

With arc weights ``w = exp(scores)``, the weights of all trees sum to the determinant of a
Laplacian (Kirchhoff, 1847; Tutte). For several children of the root it is

.. math:: L_{mm} = w_{0m} + \sum_{h \ge 1} w_{hm}, \qquad L_{hm} = -w_{hm},

and for exactly one child the root's weights leave the diagonal and replace the first row.

Two ways lead to the logarithm of the determinant, both in float64:

* LU factors after every column is divided by its largest weight, so that nothing overflows. This is
  used where the condition number says that the result has at least eleven digits.
* Elimination of one word after the other on the logarithms of the weights. The diagonal is never
  stored, but summed anew from the arcs that are left, so nothing is ever subtracted and nothing
  under- or overflows: every digit is right for any finite scores. It takes ``n`` dependent steps,
  so it serves the other instances only: those whose best heads form cycles, at large scores.

References:
    Koo et al. (2007) and Smith & Smith (2007) for trees; Grassmann, Taksar & Heyman (1985) for
    elimination without subtraction. Niculae et al. (2018), §2.2.
"""

from typing import Any

import torch
from torch import Tensor

from repro.mappings._autograd import DifferentiableFunction, keep
from repro.mappings._masking import under_vmap
from repro.structures.log_domain import LOWEST, gradients, log_add, possible

LARGEST_CONDITION = 1e4
"""Beyond this condition number a Laplacian is not factorised."""


def tree_log_partition(
    scores: Tensor, lengths: Tensor | None = None, single_root: bool = False
) -> Tensor:
    r"""The log-partition function of dependency trees, twice differentiable.

    .. math:: \log \sum_{\text{trees } y} \exp \sum_{(h, m) \in y} s_{hm}

    Args:
        scores: ``(B, n+1, n+1)``, floating point; row = head, column = modifier, 0 = the root.
            Column 0 and the diagonal are ignored; ``-inf`` forbids an arc.
        lengths: number of words of each instance, ``(B,)``; ``n`` if None.
        single_root: the root has exactly one child.

    Returns:
        ``(B,)``, in the dtype of the scores; ``-inf`` where no tree is allowed, 0 for no words.

    Raises:
        ValueError: the scores are not floating point or not square.
    """
    if scores.dim() != 3 or scores.size(1) != scores.size(2) or scores.size(1) == 0:
        raise ValueError(f"arcs (B, n+1, n+1) expected, got {tuple(scores.shape)}")
    if not scores.is_floating_point():
        raise ValueError(f"arc scores must be floating point, not {scores.dtype}")
    return _log_partition(_forbid(scores, lengths), lengths, single_root).to(scores.dtype)


def tree_marginals(
    scores: Tensor, lengths: Tensor | None = None, single_root: bool = False
) -> Tensor:
    r"""Probability of every arc under ``p(y) ∝ exp(score of y)``, differentiable.

    It is the gradient of :func:`tree_log_partition`.

    Args:
        scores: as there.
        lengths: as there.
        single_root: as there.

    Returns:
        Like ``scores``; every column of a word sums to one, all else is exactly zero. All zeros
        where no tree is allowed.
    """
    (marginals,) = gradients(lambda s: tree_log_partition(s, lengths, single_root), [scores])
    return marginals


def _forbid(scores: Tensor, lengths: Tensor | None) -> Tensor:
    """The scores in float64, ``-inf`` for the diagonal, column 0 and everything past the length."""
    size = scores.size(-1)
    forbidden = torch.eye(size, dtype=torch.bool, device=scores.device).unsqueeze(0)
    forbidden[..., 0] = True
    if lengths is not None:
        past = ~_words(size - 1, lengths.to(scores.device))
        past = torch.nn.functional.pad(past, (1, 0))
        forbidden = forbidden | past.unsqueeze(-1) | past.unsqueeze(-2)
    return scores.double().masked_fill(forbidden, -torch.inf)


def _words(size: int, lengths: Tensor) -> Tensor:
    """Mask of the ``size`` positions that hold words, ``(B, size)``."""
    return torch.arange(size, device=lengths.device) < lengths.unsqueeze(-1)


def _log_partition(scores: Tensor, lengths: Tensor | None, single_root: bool) -> Tensor:
    batch, size = scores.size(0), scores.size(-1) - 1
    if batch == 0 or size == 0:
        return scores.flatten(1)[:, :0].sum(-1)
    if lengths is None:
        words = torch.ones(batch, size, dtype=torch.bool, device=scores.device)
    else:
        words = _words(size, lengths.to(scores.device))
    laplacian, shift = _laplacian(scores, words, single_root)
    inverse, trusted = _inverse(laplacian)
    if under_vmap(trusted):
        return _eliminated(scores, words, single_root)
    if trusted.all():
        return _log_determinant(laplacian, inverse) + shift
    safe = _replace_by_identity(laplacian, ~trusted)
    factorised = _log_determinant(safe, torch.linalg.inv(safe)) + shift
    rest = (~trusted).nonzero().squeeze(-1)
    eliminated = _eliminated(scores[rest], words[rest], single_root)
    return factorised.masked_fill(~trusted, 0).index_add(0, rest, eliminated)


def _inverse(laplacian: Tensor) -> tuple[Tensor, Tensor]:
    """The inverse, and for which instances it can be trusted."""
    inverse, failed = torch.linalg.inv_ex(laplacian)
    condition = _column_norm(laplacian.detach()) * _column_norm(inverse.detach())
    return inverse, (failed == 0) & (condition < LARGEST_CONDITION)


def _log_determinant(matrix: Tensor, inverse: Tensor) -> Tensor:
    """Logarithm of a positive determinant; its derivative is the transposed inverse."""
    factors = torch.linalg.lu_factor_ex(matrix.detach())[0]
    value = factors.diagonal(dim1=-2, dim2=-1).abs().log().sum(-1)
    total: Tensor = _WithSlope.run(matrix, inverse.mT, value)
    return total


def _replace_by_identity(matrix: Tensor, chosen: Tensor) -> Tensor:
    identity = torch.eye(matrix.size(-1), dtype=matrix.dtype, device=matrix.device)
    return torch.where(chosen.view(-1, 1, 1), identity, matrix)


def _column_norm(matrix: Tensor) -> Tensor:
    return matrix.abs().sum(-2).amax(-1)


def _laplacian(scores: Tensor, words: Tensor, single_root: bool) -> tuple[Tensor, Tensor]:
    """The scaled Laplacian, and the logarithm of what it was divided by."""
    deciding = scores[:, 1:, 1:] if single_root else scores[:, :, 1:]
    shift = _finite(deciding.detach().amax(-2, keepdim=True))
    arcs = (scores[:, 1:, 1:] - shift).exp()
    root = scores[:, 0, 1:] - shift.squeeze(-2)
    padding = torch.diag_embed((~words).to(scores.dtype))
    total = shift.sum((-1, -2))
    if not single_root:
        return torch.diag_embed(arcs.sum(-2) + root.exp()) - arcs + padding, total
    largest = _finite(root.detach().amax(-1, keepdim=True))
    below = (torch.diag_embed(arcs.sum(-2)) - arcs + padding)[:, 1:]
    first = (root - largest).exp().unsqueeze(-2) + padding[:, :1]
    return torch.cat((first, below), -2), total + largest.squeeze(-1)


def _finite(largest: Tensor) -> Tensor:
    return largest.masked_fill(largest == -torch.inf, 0)


def _eliminated(scores: Tensor, words: Tensor, single_root: bool) -> Tensor:
    """The log-partition function by elimination of the words on log-weights.

    Words are taken in the order of their best remaining head, so that a word that only the root
    can lead comes last: only the last word may have the root as its head if there is one root.
    """
    arcs = scores[:, 1:, 1:].clamp(min=LOWEST)
    root = scores[:, 0, 1:].clamp(min=LOWEST)
    total, exists = scores.new_zeros(len(scores)), torch.ones_like(words[:, 0])
    for _ in range(words.size(-1)):
        open_root = (words.sum(-1) == 1) if single_root else torch.ones_like(exists)
        chosen = _easiest(arcs.detach(), root.detach(), words, open_root)
        unfinished = words.any(-1)
        words = words.scatter(-1, chosen.unsqueeze(-1), False)
        pivot, arcs, root = _eliminate(arcs, root, chosen, words, open_root)
        exists = exists & (~unfinished | possible(pivot))
        total = total + pivot.masked_fill(~unfinished, 0)
    return total.masked_fill(~exists, -torch.inf)


def _easiest(arcs: Tensor, root: Tensor, words: Tensor, open_root: Tensor) -> Tensor:
    """The word whose best head among the words left, and the root where it is open, is best."""
    loops = torch.eye(words.size(-1), dtype=torch.bool, device=words.device)
    best = arcs.masked_fill(loops | ~words.unsqueeze(-1), LOWEST).amax(-2)
    best = torch.where(open_root.unsqueeze(-1), torch.maximum(best, root), best)
    return best.masked_fill(~words, -torch.inf).argmax(-1)


def _eliminate(
    arcs: Tensor, root: Tensor, chosen: Tensor, words: Tensor, open_root: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The chosen word's log-pivot, and the log-weights that then include the ways through it."""
    place = chosen.view(-1, 1, 1)
    into = arcs.gather(2, place.expand(-1, arcs.size(1), 1)).squeeze(2).masked_fill(~words, LOWEST)
    out = arcs.gather(1, place.expand(-1, 1, arcs.size(2)))
    rooted = root.gather(1, chosen.unsqueeze(-1))
    heads = torch.cat((into, rooted.masked_fill(~open_root.unsqueeze(-1), LOWEST)), -1)
    pivot = heads.logsumexp(-1)
    arcs = log_add(arcs, (into - pivot.unsqueeze(-1)).unsqueeze(-1) + out)
    root = log_add(root, rooted - pivot.unsqueeze(-1) + out.squeeze(1))
    return pivot, arcs, root


class _WithSlope(DifferentiableFunction):
    """A value computed elsewhere, and its derivative, which stays attached for the second one."""

    @staticmethod
    def forward(point: Tensor, slope: Tensor, value: Tensor) -> Tensor:
        """``value``."""
        return value.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        """Keep the derivative, attached."""
        keep(ctx, inputs[1])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """``g`` times the slope."""
        (slope,) = ctx.saved_tensors
        return grads[0].view(-1, 1, 1) * slope, None, None

    @staticmethod
    def tangent(ctx: Any, *tangents: Tensor | None) -> Tensor | None:
        """The slope times the tangent of the point."""
        (slope,) = ctx.saved_tensors
        return None if tangents[0] is None else (slope * tangents[0]).sum((-1, -2))
