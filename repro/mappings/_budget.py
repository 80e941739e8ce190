"""The top-k budget: entries between zero and one that sum to a given number."""

import math

import torch
from torch import Tensor

from repro.mappings._arguments import (
    allowed_scores,
    is_concrete,
    like_scores,
    number,
    per_row,
    to_last,
)
from repro.mappings._bounded import BoundedFunction, Unsolvable, bounded_value, first_row
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
    total = _total(k, wide, dim)
    if dispatch.has_kernel(wide):
        try:
            probs, _ = BoundedFunction.run(to_last(wide, dim), None, total, 1.0, 0.0)
            return like_scores(probs, scores, dim)
        except Unsolvable:
            pass
    rows, ones = _admit(wide, total, dim)
    probs, _ = BoundedFunction.run(rows, ones, total, 1.0, math.inf)
    return like_scores(probs, scores, dim)


def _total(k: float | Tensor, scores: Tensor, dim: int) -> float | Tensor:
    """Check ``k`` and return it as a number or with one value per row, ``(..., 1)``."""
    if isinstance(k, Tensor):
        return to_last(per_row("k", k, scores, dim), dim)
    return _checked(k)


def _admit(scores: Tensor, total: float | Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Rows of scores and bounds for the solver; NaN in rows that could not be refused."""
    rows = to_last(scores, dim)
    ones = (rows != -torch.inf).to(scores.dtype)
    count = ones.sum(-1, keepdim=True)
    bad = ~((total <= count) | (count == 0))
    if isinstance(total, Tensor):
        bad = bad | ~(total > 0)
    if not is_concrete(bad):
        return rows.masked_fill(bad, torch.nan), ones
    if bool(bad.any()):
        asked = (total + torch.zeros_like(count))[bad][0].item()
        raise ValueError(
            f"k must be positive and at most the number of allowed entries, got {asked:g} for "
            f"{count[bad][0].item():g} entries in row {first_row(bad, -1)}"
        )
    return rows, ones


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
        """Return ``max <q, z> - Ω(q)`` over selections, as :meth:`ProbabilityMap.value` does."""
        wide = allowed_scores(scores, mask, dim)
        total = _total(self.k, wide, dim)
        rows, ones = _admit(wide, total, dim)
        upper = None if dispatch.has_kernel(rows) else ones
        return bounded_value(rows, upper, total, 1.0).to(scores.dtype)
