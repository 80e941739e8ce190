r"""Sums over all non-projective dependency trees: the Matrix-Tree theorem.

With arc weights ``w = exp(scores)``, the weights of all trees sum to the determinant of a
Laplacian (Kirchhoff, 1847; Tutte). For several children of the root it is

.. math:: L_{mm} = w_{0m} + \sum_{h \ge 1} w_{hm}, \qquad L_{hm} = -w_{hm},

and for exactly one child the root's weights leave the diagonal and replace the first row.

The logarithm of the determinant is computed in one of two ways, both in float64:

* LU factorization, after each column is divided by its largest weight to avoid overflow. It is used
  if the condition number guarantees at least eleven digits.
* Elimination of one word after another on the logarithms of the weights. The diagonal is not stored
  but summed from the remaining arcs, so that nothing is subtracted and nothing under- or overflows:
  the result is accurate for any finite scores. It takes ``n`` dependent steps and is therefore kept
  for the other instances, those with large scores whose best heads form cycles, and for
  accelerators, where no value is read.

References:
    Koo et al. (2007) and Smith & Smith (2007) for trees; Grassmann, Taksar & Heyman (1985) for
    elimination without subtraction. Niculae et al. (2018), §2.2.
"""

import torch
from torch import Tensor

from repro.mappings._conjugate import WithGradient
from repro.structures.forward_backward import LOWEST, possible
from repro.structures.problem import device_lengths

LARGEST_CONDITION = 1e4
"""Laplacians with a larger condition number (in the 1-norm) are not factorized."""


def tree_log_partition(
    scores: Tensor, lengths: Tensor | None = None, single_root: bool = False
) -> Tensor:
    r"""Compute the log-partition function of dependency trees, twice differentiable.

    .. math:: \log \sum_{\text{trees } y} \exp \sum_{(h, m) \in y} s_{hm}

    Args:
        scores: ``(B, n+1, n+1)``, floating point; row = head, column = modifier, 0 = the root.
            Column 0 and the diagonal are ignored; ``-inf`` forbids an arc.
        lengths: number of words of each instance, ``(B,)``; ``n`` if None.
        single_root: whether the root has exactly one child.

    Returns:
        ``(B,)``, in the dtype of the scores; ``-inf`` where no tree is allowed, 0 for no words.

    Raises:
        ValueError: the scores are not floating point or not square, or lengths do not fit.
    """
    if scores.dim() != 3 or scores.size(1) != scores.size(2) or scores.size(1) == 0:
        raise ValueError(f"arcs (B, n+1, n+1) expected, got {tuple(scores.shape)}")
    if not scores.is_floating_point():
        raise ValueError(f"arc scores must be floating point, not {scores.dtype}")
    batch, size, device = scores.size(0), scores.size(-1) - 1, scores.device
    words = torch.ones(batch, size, dtype=torch.bool, device=device)
    # Forbidden: the diagonal, column 0 and everything past the length.
    forbidden = torch.eye(size + 1, dtype=torch.bool, device=device).unsqueeze(0)
    forbidden[..., 0] = True
    if lengths is not None:
        sizes = device_lengths(lengths, batch, (size,), device)
        words = torch.arange(size, device=device) < sizes
        past = torch.nn.functional.pad(~words, (1, 0))
        forbidden = forbidden | past.unsqueeze(-1) | past.unsqueeze(-2)
    wide = scores.double().masked_fill(forbidden, -torch.inf)
    if batch == 0 or size == 0:
        return wide.flatten(1)[:, :0].sum(-1).to(scores.dtype)  # zeros, attached to the graph
    if device.type != "cpu":  # elimination suits all scores; to choose would read values
        return _eliminated(wide, words, single_root).to(scores.dtype)
    laplacian, shift = _laplacian(wide, words, single_root)
    inverse, failed = torch.linalg.inv_ex(laplacian)
    condition = _column_norm(laplacian.detach()) * _column_norm(inverse.detach())
    trusted = (failed == 0) & (condition < LARGEST_CONDITION)
    if trusted.all():
        return (_log_determinant(laplacian, inverse) + shift).to(scores.dtype)
    # Identity for the others: a singular matrix, even if masked, would have NaN for a gradient.
    identity = torch.eye(size, dtype=laplacian.dtype, device=device)
    safe = torch.where((~trusted).view(-1, 1, 1), identity, laplacian)
    factorized = _log_determinant(safe, torch.linalg.inv(safe)) + shift
    rest = (~trusted).nonzero().squeeze(-1)
    eliminated = _eliminated(wide[rest], words[rest], single_root)
    total = factorized.masked_fill(~trusted, 0).index_add(0, rest, eliminated)
    return total.to(scores.dtype)


def _log_determinant(matrix: Tensor, inverse: Tensor) -> Tensor:
    """Return the logarithm of a positive determinant, whose gradient is the transposed inverse."""
    factors = torch.linalg.lu_factor_ex(matrix.detach())[0]
    value = factors.diagonal(dim1=-2, dim2=-1).abs().log().sum(-1)
    slope = inverse.mT.flatten(1)
    total: Tensor = WithGradient.run(matrix.flatten(1), slope, value, -1, None)
    return total


def _column_norm(matrix: Tensor) -> Tensor:
    return matrix.abs().sum(-2).amax(-1)


def _laplacian(scores: Tensor, words: Tensor, single_root: bool) -> tuple[Tensor, Tensor]:
    """Return a scaled Laplacian ``S`` and a shift, with ``log det L = log det S + shift``."""
    arc_scores = scores[:, 1:, 1:] if single_root else scores[:, :, 1:]
    shift = _finite(arc_scores.detach().amax(-2, keepdim=True))
    arcs = (scores[:, 1:, 1:] - shift).exp()
    root = scores[:, 0, 1:] - shift.squeeze(-2)
    padding = torch.diag_embed((~words).to(scores.dtype))
    total = shift.sum((-1, -2))
    if not single_root:
        return torch.diag_embed(arcs.sum(-2) + root.exp()) - arcs + padding, total
    largest = _finite(root.detach().amax(-1, keepdim=True))
    other_rows = (torch.diag_embed(arcs.sum(-2)) - arcs + padding)[:, 1:]
    first = (root - largest).exp().unsqueeze(-2) + padding[:, :1]
    return torch.cat((first, other_rows), -2), total + largest.squeeze(-1)


def _finite(largest: Tensor) -> Tensor:
    return largest.masked_fill(largest == -torch.inf, 0)


def _eliminated(scores: Tensor, words: Tensor, single_root: bool) -> Tensor:
    """Compute the log-partition function by eliminating the words on log-weights.

    The word with the best remaining head is eliminated next. With a single root, only the last word
    may have the root as its head; this order keeps a word without any other head until then.
    """
    arcs = scores[:, 1:, 1:].clamp(min=LOWEST)
    root = scores[:, 0, 1:].clamp(min=LOWEST)
    total, exists = scores.new_zeros(len(scores)), torch.ones_like(words[:, 0])
    loops = torch.eye(words.size(-1), dtype=torch.bool, device=words.device)
    for _ in range(words.size(-1)):
        open_root = (words.sum(-1) == 1) if single_root else torch.ones_like(exists)
        # Choose the word with the best head among the words left and, if it is open, the root.
        best = arcs.detach().masked_fill(loops | ~words.unsqueeze(-1), LOWEST).amax(-2)
        with_root = torch.maximum(best, root.detach())
        best = torch.where(open_root.unsqueeze(-1), with_root, best)
        chosen = best.masked_fill(~words, -torch.inf).argmax(-1)
        unfinished = words.any(-1)
        words = words.scatter(-1, chosen.unsqueeze(-1), False)
        # Its log-pivot; the remaining log-weights then include the paths through the word.
        place = chosen.view(-1, 1, 1)
        into = arcs.gather(2, place.expand(-1, arcs.size(1), 1)).squeeze(2)
        into = into.masked_fill(~words, LOWEST)
        out = arcs.gather(1, place.expand(-1, 1, arcs.size(2)))
        rooted = root.gather(1, chosen.unsqueeze(-1))
        heads = torch.cat((into, rooted.masked_fill(~open_root.unsqueeze(-1), LOWEST)), -1)
        pivot = heads.logsumexp(-1)
        arcs = _log_add(arcs, (into - pivot.unsqueeze(-1)).unsqueeze(-1) + out)
        root = _log_add(root, rooted - pivot.unsqueeze(-1) + out.squeeze(1))
        exists = exists & (~unfinished | possible(pivot))
        total = total + pivot.masked_fill(~unfinished, 0)
    return total.masked_fill(~exists, -torch.inf)


def _log_add(first: Tensor, second: Tensor) -> Tensor:
    """Return ``logaddexp`` of two tensors; the second derivative of torch's function overflows."""
    return torch.stack(torch.broadcast_tensors(first, second)).logsumexp(0)
