"""The top-k budget: entries between zero and one that sum to a given number."""

import math

import torch
from torch import Tensor

from repro.mappings._arguments import allowed_scores, is_concrete, number, per_row
from repro.mappings._bounded import Unsolvable, apply_bounded, bounded_value, first_row
from repro.mappings._conjugate import tsallis
from repro.mappings.kernels import dispatch
from repro.mappings.modules import ProbabilityMap


def budget(
    scores: Tensor, k: float | Tensor, *, mask: Tensor | None = None, dim: int = -1
) -> Tensor:
    r"""Select entries softly, ``k`` in all.

    .. math:: p = \arg\max_{0 \le q \le 1,\, \sum_j q_j = k} \langle q, z \rangle
              - \tfrac12 \lVert q \rVert_2^2, \qquad p_j = \max(0, \min(1, z_j - \tau))

    ``k = 1`` is sparsemax. For an integer ``k`` and scores far apart the ``k`` largest get one.

    Args:
        scores: ``z``, floating point, ``n`` on ``dim``; ``-inf`` forbids an entry.
        k: a positive number, or a tensor that broadcasts to ``scores`` with size 1 on ``dim``
            (one value per row), at most the number of allowed entries; it receives gradients.
        mask: boolean, broadcasts to ``scores``; True = allowed.
        dim: the axis along which entries are selected.

    Returns:
        ``p``, like ``scores``; between zero and one, sums to ``k`` along ``dim``, exactly zero
        where masked. A row with nothing allowed is all zeros. NaN stays in its row.

    Raises:
        TypeError: scores are not floating point, or the mask is not boolean.
        ValueError: ``k`` is not positive or above the number of allowed entries, or a shape does
            not broadcast. On accelerators, in ``torch.compile`` or ``vmap`` such rows are NaN.

    References:
        The problem of Malaviya et al. (2018), Eq. 6, with all bounds one and total ``k``.
    """
    wide = allowed_scores(scores, mask, dim)
    if scores.size(dim) == 0:
        return scores.clone()
    if dispatch.has_kernel(wide):
        total = per_row("k", k, wide, dim) if isinstance(k, Tensor) else _checked(k)
        try:
            return apply_bounded(wide, None, total, 1.0, dim, 0.0)[0].to(scores.dtype)
        except Unsolvable:
            pass
    wide, ones, total = _admit(wide, k, dim)
    return apply_bounded(wide, ones, total, 1.0, dim)[0].to(scores.dtype)


def _admit(scores: Tensor, k: float | Tensor, dim: int) -> tuple[Tensor, Tensor, float | Tensor]:
    """Scores, bounds and total for the solver; NaN in rows that could not be refused."""
    total = per_row("k", k, scores, dim) if isinstance(k, Tensor) else _checked(k)
    ones = (scores != -torch.inf).to(scores.dtype)
    count = ones.sum(dim, keepdim=True)
    bad = ~((total <= count) | (count == 0))
    if isinstance(total, Tensor):
        bad = bad | ~(total > 0)
    if not is_concrete(bad):
        return scores.masked_fill(bad, torch.nan), ones, total
    if bool(bad.any()):
        number, left = ((total + torch.zeros_like(count))[bad][0].item(), count[bad][0].item())
        raise ValueError(
            f"k must be positive and at most the number of allowed entries, got {number:g} for "
            f"{left:g} entries in row {first_row(bad, dim)}"
        )
    return scores, ones, total


def _checked(k: float) -> float:
    k = number("k", k)
    if not 0 < k < math.inf:
        raise ValueError(f"k must be positive and finite, got {k}")
    return k


class Budget(ProbabilityMap):
    """:func:`budget` with ``Ω(p) = ½ Σ p (p - 1)``, zero on every selection of entries.

    Args:
        k: how much to select: a number, or a tensor with size 1 on the axis of the entries, kept
            as a buffer.
    """

    settings = ("k",)

    k: float | Tensor

    def __init__(self, k: float | Tensor) -> None:
        super().__init__()
        if isinstance(k, Tensor):
            self.register_buffer("k", k)
        else:
            self.k = _checked(k)

    def forward(self, scores: Tensor, mask: Tensor | None = None, dim: int = -1) -> Tensor:
        """Return :func:`budget`."""
        return budget(scores, self.k, mask=mask, dim=dim)

    def omega(self, probs: Tensor, dim: int = -1) -> Tensor:
        """Return ``½ Σ p (p - 1)``."""
        return tsallis(probs, 1.0, dim)

    def value(self, scores: Tensor, mask: Tensor | None = None, dim: int = -1) -> Tensor:
        """Return ``max <q, z> - Ω(q)`` over selections; its gradient is ``p``.

        Args:
            scores: ``z``, floating point, ``n >= 1`` on ``dim``; ``-inf`` forbids an entry.
            mask: boolean, broadcasts to ``scores``; True = allowed.
            dim: the axis along which entries are selected.

        Returns:
            The shape of ``scores`` without ``dim``; ``-inf`` for a row with nothing allowed.
        """
        wide, ones, total = _admit(allowed_scores(scores, mask, dim), self.k, dim)
        upper = None if dispatch.has_kernel(wide) else ones
        return bounded_value(wide, upper, total, 1.0, dim).to(scores.dtype)
