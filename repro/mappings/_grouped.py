"""Fusedmax and oscarmax: simplex projections of group means.

Both project onto the simplex the means of shifted scores over groups of tied entries (Niculae &
Blondel 2017, Propositions 2 and 3). Groups and shifts are locally constant in the scores, so the
derivative depends on the groups alone.
"""

from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.functional import pad

from repro.mappings._arguments import (
    allowed_scores,
    center,
    divided_by_gamma,
    in_double,
    like_scores,
    nonnegative,
    positive,
    to_last,
)
from repro.mappings._autograd import DifferentiableFunction
from repro.mappings._conjugate import tsallis
from repro.mappings._entmax import sparsemax
from repro.mappings._segments import decreasing_blocks, group_means, saturated
from repro.mappings._threshold import sparsemax_powers
from repro.mappings.kernels import dispatch
from repro.mappings.kernels.dispatch import in_torch
from repro.mappings.modules import ProbabilityMap

Variant = Literal["exact", "paper"]


def fusedmax(
    scores: Tensor,
    lam: float = 0.1,
    *,
    gamma: float = 1.0,
    mask: Tensor | None = None,
    dim: int = -1,
) -> Tensor:
    r"""Map scores to a sparse distribution that is constant on contiguous segments.

    .. math:: p = \arg\min_{q \in \Delta^n} \tfrac12 \lVert q - z / \gamma \rVert_2^2
              + \lambda \sum_{i=1}^{n-1} |q_{i+1} - q_i|

    ``scores``, ``mask``, ``dim``, the result and errors are as in :class:`ProbabilityMap`.

    Args:
        lam: ``λ``, at least zero; larger values give fewer segments, zero is sparsemax.
        gamma: strength of the regularizer, positive; larger is flatter.

    The neighbors of a forbidden entry count as adjacent. Entries of a segment are exactly equal.

    References:
        Niculae & Blondel (2017), Propositions 2 (value) and 3 (derivative).
    """
    lam = nonnegative("lam", lam)
    if lam == 0:
        return sparsemax(scores, gamma=gamma, mask=mask, dim=dim)
    rows = to_last(divided_by_gamma(allowed_scores(scores, mask, dim), gamma, dim), dim)
    if scores.size(dim) == 0:
        return scores.clone()
    return like_scores(GroupedFunction.run(rows, lam, "fusedmax_forward")[0], scores, dim)


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

    ``scores``, ``mask``, ``dim``, the result and errors are as in :class:`ProbabilityMap`.

    Args:
        lam: ``λ``, at least zero; larger values give fewer clusters, zero is sparsemax.
        gamma: strength of the regularizer, positive; larger is flatter.
        variant: ``"exact"`` is the minimizer; ``"paper"`` is the published approximation, which is
            not invariant to shifts. Both agree if all scores exceed ``γ λ n`` or none exceeds
            ``-γ λ n``.

    Forbidden entries do not count in ``n``. Entries of a cluster are equal.

    References:
        Niculae & Blondel (2017), §3.2 and Eq. 10, with the erratum to Proposition 2.
    """
    lam = check_oscar(lam, variant)
    if lam == 0:
        return sparsemax(scores, gamma=gamma, mask=mask, dim=dim)
    gamma = positive("gamma", gamma)
    wide = allowed_scores(scores, mask, dim)
    if scores.size(dim) == 0:
        return scores.clone()
    if variant == "paper":
        # Scores must not be centered, since this variant is not invariant to a common shift.
        return like_scores(sparsemax(_oscar_prox(to_last(wide / gamma, dim), lam)), scores, dim)
    rows = to_last(divided_by_gamma(wide, gamma, dim), dim)
    return like_scores(GroupedFunction.run(rows, lam, "oscarmax_forward")[0], scores, dim)


def check_oscar(lam: float, variant: str) -> float:
    """Return ``λ`` as a float; raise ``ValueError`` if it or the variant is not allowed."""
    if variant not in ("exact", "paper"):
        raise ValueError(f"variant must be 'exact' or 'paper', got {variant!r}")
    return nonnegative("lam", lam)


def is_present(centered: Tensor) -> Tensor:
    """Return the mask of allowed entries, given the result of :func:`center`."""
    return ~(centered <= -torch.finfo(centered.dtype).max)


def heights_below(scores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Subtract the largest score of every row, in float64 to keep the digits of differences.

    Returns:
        The differences, the mask of the allowed entries, and the largest scores (not clamped).
    """
    centered, top = center(scores, -1)
    largest = torch.finfo(scores.dtype).max
    heights = in_double(scores.clamp(max=largest)) - in_double(top.clamp(-largest, largest))
    return heights, is_present(centered), top


def project(levels: Tensor, present: Tensor, top: Tensor) -> Tensor:
    """Project onto the simplex along the last axis (Euclidean); zero where not present.

    Args:
        levels: float64, finite unless the row holds a NaN.
        present: boolean, the shape of ``levels``.
        top: the largest score of every row; ``-inf`` if nothing is allowed.
    """
    levels = levels.masked_fill(~present, -torch.inf)
    centered = levels - levels.amax(-1, keepdim=True).clamp(min=-torch.finfo(levels.dtype).max)
    powers = sparsemax_powers(centered.clamp(min=-2.0))
    probs = powers / powers.sum(-1, keepdim=True)
    return probs.masked_fill(top == -torch.inf, 0.0)


@in_torch
def grouped_backward(probs: Tensor, groups: Tensor, grad: Tensor) -> Tensor:
    """Return ``J g``: the sparsemax Jacobian of the group means of ``g``; ``J`` is symmetric."""
    support = (probs > 0).to(grad.dtype)
    kept = grad * support
    mean = kept.sum(-1, keepdim=True) / support.sum(-1, keepdim=True).clamp(min=1)
    return (group_means(kept, support, groups.long()) - mean) * support


class GroupedFunction(DifferentiableFunction):
    """Compute fusedmax and its segments, or oscarmax and its clusters, of the last axis."""

    @staticmethod
    def forward(scores: Tensor, lam: float, operator: str) -> tuple[Tensor, Tensor]:
        """Solve by a kernel or in PyTorch."""
        solved: tuple[Tensor, Tensor] = dispatch.implementation(operator, scores)(scores, lam)
        return solved

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(*output)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        """Apply the Jacobian, which is symmetric and locally constant."""
        probs, groups = ctx.saved_tensors
        call = dispatch.backward_implementation("grouped_backward", probs, grads[0])
        return call(probs, groups, grads[0]), None, None


@in_torch
def fusedmax_forward(scores: Tensor, lam: float) -> tuple[Tensor, Tensor]:
    """Find the segments by total variation, average over them and project; in float64."""
    levels, present, top = heights_below(scores)
    # Entries at this bound have no mass, so clamping lower ones does not change the result.
    levels = levels.clamp_min_(-(1 + 4 * lam)).masked_fill_(~present, 0.0)
    jumps = saturated(levels, present, lam)
    segments = pad((jumps[..., :-1] != 0).cumsum(-1), (1, 0))
    levels += lam * (jumps - pad(jumps[..., :-1], (1, 0))).to(levels.dtype)
    levels = group_means(levels, present.to(levels.dtype), segments)
    return project(levels, present, top).to(scores.dtype), segments.int()


@in_torch
def oscarmax_forward(scores: Tensor, lam: float) -> tuple[Tensor, Tensor]:
    """Solve in float64; on the simplex the penalty is ``-λ Σ k p_[k]`` plus a constant."""
    levels, present, top = heights_below(scores)
    # Entries at this bound have no mass, so clamping lower or forbidden ones changes nothing.
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
    """Return ``argmin_y ½‖y - x‖² + λ Σ_{i<j} max(|y_i|, |y_j|)`` along the last axis.

    Entries of ``-inf``, and finite ones in a row with ``+inf``, are left out and give ``-inf``.
    The order and the clusters of ``|x|`` are locally constant, so autograd gives Proposition 3.
    """
    infinite = scores == torch.inf
    scores = scores.masked_fill(infinite.any(-1, keepdim=True) & ~infinite, -torch.inf)
    absent = scores == -torch.inf
    signs = scores.detach().sign().masked_fill(infinite | absent, 0.0)
    sizes = scores.masked_fill(infinite | absent, 0.0) * signs
    with torch.no_grad():
        ordered, permutation = in_double(sizes).masked_fill(absent, -1.0).sort(-1, descending=True)
        rank = permutation.argsort(-1)
        count = (~absent).sum(-1, keepdim=True)
        weights = lam * (count - 1 - rank).clamp(min=0).to(ordered.dtype)
        lowered = torch.where(ordered < 0, -torch.inf, ordered - weights.gather(-1, permutation))
        clusters = decreasing_blocks(lowered).gather(-1, rank)
    means = group_means(sizes - weights.to(sizes.dtype), (~absent).to(sizes.dtype), clusters)
    return (signs * means.relu()).masked_fill(absent, -torch.inf)


class Fusedmax(ProbabilityMap):
    r"""Module form of :func:`fusedmax`, with ``Ω(p) = γ (½ ‖p‖² - ½ + λ Σ |p_{i+1} - p_i|)``.

    On one-hot distributions ``Ω`` is not zero but ``γ λ`` times the number of neighbors of the
    entry that is one; see :meth:`omega_one_hot`. Under a mask, :meth:`value` takes the differences
    between consecutive allowed entries.
    """

    settings = ("lam", "gamma")

    def __init__(self, lam: float = 0.1, gamma: float = 1.0) -> None:
        super().__init__()
        self.lam = nonnegative("lam", lam)
        self.gamma = positive("gamma", gamma)

    def forward(self, scores: Tensor, mask: Tensor | None = None, dim: int = -1) -> Tensor:
        """Return :func:`fusedmax` of the scores."""
        return fusedmax(scores, self.lam, gamma=self.gamma, mask=mask, dim=dim)

    def omega(self, probs: Tensor, dim: int = -1) -> Tensor:
        """Return ``γ (½ ‖p‖² - ½ + λ Σ |p_{i+1} - p_i|)``, as if all entries were allowed."""
        variation = probs.diff(dim=dim).abs().sum(dim)
        return self.gamma * (tsallis(probs, 1.0, dim) + self.lam * variation)

    def conjugate_centered(self, centered: Tensor, probs: Tensor, dim: int = -1) -> Tensor:
        """Return ``<p, z> - Ω(p)``, with differences between consecutive allowed entries."""
        allowed, permutation = is_present(centered).sort(dim=dim, descending=True, stable=True)
        held = probs.detach().gather(dim, permutation)
        pairs = held.diff(dim=dim).abs() * allowed.narrow(dim, 1, held.size(dim) - 1)
        variation = self.lam * pairs.sum(dim)
        linear = (probs.detach() * centered).sum(dim)
        return linear - self.gamma * (tsallis(held, 1.0, dim) + variation)

    def omega_one_hot(self, centered: Tensor, chosen: Tensor, dim: int = -1) -> Tensor:
        """Return ``Ω(e_y)``: ``γ λ`` times the number of allowed neighbors of ``y``."""
        present = is_present(centered)
        rank = present.cumsum(dim).gather(dim, chosen)
        neighbors = (rank > 1).to(centered.dtype) + (rank < present.sum(dim, keepdim=True))
        return self.gamma * (self.lam * neighbors.squeeze(dim))


class Oscarmax(ProbabilityMap):
    r"""Module form of :func:`oscarmax`.

    ``Ω(p) = γ (½ ‖p‖² - ½ + λ (Σ_{i<j} max(p_i, p_j) - (n - 1)))`` is zero on one-hot distributions
    and does not change if entries of mass zero are left out.
    """

    settings = ("lam", "gamma", "variant")

    def __init__(self, lam: float = 0.01, gamma: float = 1.0, variant: Variant = "exact") -> None:
        super().__init__()
        self.lam = check_oscar(lam, variant)
        self.gamma = positive("gamma", gamma)
        self.variant: Variant = variant

    def forward(self, scores: Tensor, mask: Tensor | None = None, dim: int = -1) -> Tensor:
        """Return :func:`oscarmax` of the scores."""
        return oscarmax(
            scores, self.lam, gamma=self.gamma, variant=self.variant, mask=mask, dim=dim
        )

    def omega(self, probs: Tensor, dim: int = -1) -> Tensor:
        """Return ``γ (½ ‖p‖² - ½ - λ Σ_k (k - 1) p_[k])``, ``p_[k]`` the ``k``-th largest."""
        ordered = probs.movedim(dim, -1).sort(-1, descending=True).values
        ranks = torch.arange(ordered.size(-1), dtype=probs.dtype, device=probs.device)
        return self.gamma * (tsallis(probs, 1.0, dim) - self.lam * (ordered * ranks).sum(-1))

    def conjugate_centered(self, centered: Tensor, probs: Tensor, dim: int = -1) -> Tensor:
        """Return ``<p, z> - Ω(p)``.

        Raises:
            ValueError: the variant is ``"paper"``, whose result is not a maximizer.
        """
        if self.variant == "paper":
            raise ValueError("only variant='exact' of oscarmax is a maximizer and has a value")
        return super().conjugate_centered(centered, probs, dim)
