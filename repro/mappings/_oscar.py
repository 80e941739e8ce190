"""Oscarmax: isotonic regression of sorted scores, then simplex projection."""

from typing import Literal

import torch
from torch import Tensor

from repro.mappings._arguments import (
    allowed_scores,
    check_gamma,
    divided_by_gamma,
    like_scores,
    to_last,
)
from repro.mappings._conjugate import tsallis
from repro.mappings._entmax import sparsemax
from repro.mappings._grouped import (
    GroupedFunction,
    check_lam,
    group_means,
    heights_below,
    project,
)
from repro.mappings._segments import decreasing_blocks
from repro.mappings.kernels import dispatch
from repro.mappings.kernels.dispatch import launch
from repro.mappings.modules import ProbabilityMap

Variant = Literal["exact", "paper"]


def oscarmax(
    scores: Tensor,
    lam: float = 0.01,
    *,
    gamma: float = 1.0,
    variant: Variant = "exact",
    mask: Tensor | None = None,
    dim: int = -1,
) -> Tensor:
    r"""Map scores to a sparse distribution whose entries form clusters of equal mass.

    .. math:: p = \arg\min_{q \in \Delta^n} \tfrac12 \lVert q - z / \gamma \rVert_2^2
              + \lambda \sum_{i<j} \max(|q_i|, |q_j|)

    Args:
        scores: ``z``, floating point, ``n`` on ``dim``; ``-inf`` forbids an entry.
        lam: ``λ``, at least zero; larger is fewer clusters, zero is sparsemax.
        gamma: strength of the regulariser, positive; larger is flatter.
        variant: ``"exact"`` is the minimiser, ``"paper"`` the published approximation, which
            depends on a common shift; equal if all scores exceed ``γ λ n``, or none ``-γ λ n``.
        mask: boolean, broadcasts; True = allowed. Forbidden entries do not count in ``n``.
        dim: the axis that becomes a distribution.

    Returns:
        ``p``, like ``scores``; sums to one along ``dim``, zero where masked and off the support,
        equal within a cluster. A row with nothing allowed is all zeros. NaN stays in its row.

    Raises:
        TypeError: scores are not floating point, or the mask is not boolean.
        ValueError: ``lam``, ``gamma`` or the variant is out of range, or the mask does not fit.

    References:
        Niculae & Blondel (2017), §3.2 and Eq. 10, with the erratum to Proposition 2.
    """
    lam = check_oscar(lam, variant)
    if lam == 0:
        return sparsemax(scores, gamma=gamma, mask=mask, dim=dim)
    gamma = check_gamma(gamma)
    wide = allowed_scores(scores, mask, dim)
    if scores.size(dim) == 0:
        return scores.clone()
    if variant == "paper":
        # Depends on a common shift, which must not be taken away.
        return like_scores(sparsemax(_oscar_prox(to_last(wide / gamma, dim), lam)), scores, dim)
    rows = to_last(divided_by_gamma(wide, gamma, dim), dim)
    return like_scores(OscarFunction.run(rows, lam)[0], scores, dim)


def check_oscar(lam: float, variant: str) -> float:
    """Return ``λ`` as :func:`check_lam` does; raise ``ValueError`` for an unknown variant."""
    if variant not in ("exact", "paper"):
        raise ValueError(f"variant must be 'exact' or 'paper', got {variant!r}")
    return check_lam(lam)


class Oscarmax(ProbabilityMap):
    r""":func:`oscarmax` with ``Ω(p) = γ (½ ‖p‖² - ½ + λ (Σ_{i<j} max(p_i, p_j) - (n - 1)))``.

    ``Ω`` is zero on one-hot distributions, and the same whether entries of mass zero count or not.
    """

    settings = ("lam", "gamma", "variant")

    def __init__(self, lam: float = 0.01, gamma: float = 1.0, variant: Variant = "exact") -> None:
        super().__init__()
        self.lam = check_oscar(lam, variant)
        self.gamma = check_gamma(gamma)
        self.variant: Variant = variant

    def forward(self, scores: Tensor, mask: Tensor | None = None, dim: int = -1) -> Tensor:
        """Return :func:`oscarmax`."""
        return oscarmax(
            scores, self.lam, gamma=self.gamma, variant=self.variant, mask=mask, dim=dim
        )

    def omega(self, probs: Tensor, dim: int = -1) -> Tensor:
        """Return ``γ (½ ‖p‖² - ½ - λ Σ_k (k - 1) p_[k])``, ``p_[k]`` the ``k``-th largest."""
        ordered = probs.movedim(dim, -1).sort(-1, descending=True).values
        ranks = torch.arange(ordered.size(-1), dtype=probs.dtype, device=probs.device)
        return self.gamma * (tsallis(probs, 1.0, dim) - self.lam * (ordered * ranks).sum(-1))

    def conjugate_centered(self, centred: Tensor, probs: Tensor, dim: int = -1) -> Tensor:
        """Return ``<p, z> - Ω(p)``.

        Raises:
            ValueError: the variant is ``"paper"``, which does not maximise anything.
        """
        if self.variant == "paper":
            raise ValueError("only variant='exact' of oscarmax is a maximiser and has a value")
        return super().conjugate_centered(centred, probs, dim)


class OscarFunction(GroupedFunction):
    """Oscarmax of the last axis, and its clusters."""

    @staticmethod
    def forward(scores: Tensor, lam: float) -> tuple[Tensor, Tensor]:
        """Solve in float64; on the simplex the penalty is ``-λ Σ k p_[k]`` plus a constant."""
        if dispatch.has_kernel(scores):
            return launch("oscarmax_forward", scores, lam)
        levels, present, top = heights_below(scores)
        # Anything lower has no mass, so that its score, and whether it exists, do not matter.
        levels = levels.clamp_min_(-2 - lam * scores.size(-1))
        ordered, permutation = levels.sort(-1, descending=True)
        ranks = torch.arange(scores.size(-1), dtype=levels.dtype, device=levels.device)
        raised = ordered + lam * ranks
        blocks = decreasing_blocks(raised)
        means = group_means(raised, torch.ones_like(raised), blocks)
        rank = permutation.argsort(-1)
        levels, clusters = means.gather(-1, rank), blocks.gather(-1, rank)
        return project(levels, present, top).to(scores.dtype), clusters.int()


def _oscar_prox(scores: Tensor, lam: float) -> Tensor:
    """``argmin_y ½‖y - x‖² + λ Σ_{i<j} max(|y_i|, |y_j|)`` along the last axis.

    ``-inf`` is left out and stays ``-inf``; if there is a ``+inf``, every finite entry is left out.
    The order and the clusters of ``|x|`` are locally constant, so autograd gives Proposition 3.
    """
    infinite = scores == torch.inf
    scores = scores.masked_fill(infinite.any(-1, keepdim=True) & ~infinite, -torch.inf)
    absent = scores == -torch.inf
    signs = scores.detach().sign().masked_fill(infinite | absent, 0.0)
    sizes = scores.masked_fill(infinite | absent, 0.0) * signs
    with torch.no_grad():
        ordered, permutation = sizes.double().masked_fill(absent, -1.0).sort(-1, descending=True)
        rank = permutation.argsort(-1)
        count = (~absent).sum(-1, keepdim=True)
        weights = lam * (count - 1 - rank).clamp(min=0).double()
        lowered = torch.where(ordered < 0, -torch.inf, ordered - weights.gather(-1, permutation))
        clusters = decreasing_blocks(lowered).gather(-1, rank)
    means = group_means(sizes - weights.to(sizes.dtype), (~absent).to(sizes.dtype), clusters)
    return (signs * means.relu()).masked_fill(absent, -torch.inf)
