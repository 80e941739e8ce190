"""Fusedmax: simplex projection after the proximal operator of total variation."""

from torch import Tensor
from torch.nn.functional import pad

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
    is_present,
    project,
)
from repro.mappings._segments import saturated
from repro.mappings.kernels import dispatch
from repro.mappings.kernels.dispatch import launch
from repro.mappings.modules import ProbabilityMap


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

    Args:
        scores: ``z``, floating point, the sequence on ``dim``; ``-inf`` forbids an entry.
        lam: ``λ``, at least zero; larger is fewer segments, zero is sparsemax.
        gamma: strength of the regulariser, positive; larger is flatter.
        mask: boolean, broadcasts; True = allowed. Neighbours of a forbidden entry are adjacent.
        dim: the axis that becomes a distribution.

    Returns:
        ``p``, like ``scores``; sums to one along ``dim``, zero where masked and off the support,
        equal within a segment. A row with nothing allowed is all zeros. NaN stays in its row.

    Raises:
        TypeError: scores are not floating point, or the mask is not boolean.
        ValueError: ``lam`` is negative, ``gamma`` not positive, one of them not finite, or the
            mask does not broadcast.

    References:
        Niculae & Blondel (2017), Propositions 2 (value) and 3 (derivative).
    """
    lam = check_lam(lam)
    if lam == 0:
        return sparsemax(scores, gamma=gamma, mask=mask, dim=dim)
    gamma = check_gamma(gamma)
    wide = allowed_scores(scores, mask, dim)
    if scores.size(dim) == 0:
        return scores.clone()
    rows = to_last(divided_by_gamma(wide, gamma, dim), dim)
    return like_scores(FusedFunction.run(rows, lam)[0], scores, dim)


class Fusedmax(ProbabilityMap):
    r""":func:`fusedmax` with ``Ω(p) = γ (½ ‖p‖² - ½ + λ Σ |p_{i+1} - p_i|)``.

    On a one-hot distribution ``Ω`` is ``γ λ`` times the number of neighbours of its one entry, not
    zero; :meth:`omega_one_hot` says so. Under a mask, :meth:`value` takes differences between
    neighbours that are allowed.
    """

    settings = ("lam", "gamma")

    def __init__(self, lam: float = 0.1, gamma: float = 1.0) -> None:
        super().__init__()
        self.lam = check_lam(lam)
        self.gamma = check_gamma(gamma)

    def forward(self, scores: Tensor, mask: Tensor | None = None, dim: int = -1) -> Tensor:
        """Return :func:`fusedmax`."""
        return fusedmax(scores, self.lam, gamma=self.gamma, mask=mask, dim=dim)

    def omega(self, probs: Tensor, dim: int = -1) -> Tensor:
        """Return ``γ (½ ‖p‖² - ½ + λ Σ |p_{i+1} - p_i|)``, every entry counting as allowed."""
        variation = probs.diff(dim=dim).abs().sum(dim)
        return self.gamma * (tsallis(probs, 1.0, dim) + self.lam * variation)

    def conjugate_centered(self, centred: Tensor, probs: Tensor, dim: int = -1) -> Tensor:
        """Return ``<p, z> - Ω(p)`` on the allowed entries."""
        allowed, permutation = is_present(centred).sort(dim=dim, descending=True, stable=True)
        held = probs.detach().gather(dim, permutation)
        pairs = held.diff(dim=dim).abs() * allowed.narrow(dim, 1, held.size(dim) - 1)
        variation = self.lam * pairs.sum(dim)
        linear = (probs.detach() * centred).sum(dim)
        return linear - self.gamma * (tsallis(held, 1.0, dim) + variation)

    def omega_one_hot(self, centred: Tensor, chosen: Tensor, dim: int = -1) -> Tensor:
        """Return ``γ λ`` times the number of allowed neighbours."""
        present = is_present(centred)
        place = present.cumsum(dim).gather(dim, chosen)
        neighbours = (place > 1).to(centred.dtype) + (place < present.sum(dim, keepdim=True))
        return self.gamma * (self.lam * neighbours.squeeze(dim))


class FusedFunction(GroupedFunction):
    """Fusedmax of the last axis, and its segments."""

    @staticmethod
    def forward(scores: Tensor, lam: float) -> tuple[Tensor, Tensor]:
        """Total variation, means of the segments, projection; in float64."""
        if dispatch.has_kernel(scores):
            return launch("fusedmax_forward", scores, lam)
        levels, present, top = heights_below(scores)
        # An entry that is lower still has no mass either, and then its score does not matter.
        levels = levels.clamp_min_(-(1 + 4 * lam)).masked_fill_(~present, 0.0)
        jumps = saturated(levels, present, lam)
        segments = pad((jumps[..., :-1] != 0).cumsum(-1), (1, 0))
        levels += lam * (jumps - pad(jumps[..., :-1], (1, 0))).to(levels.dtype)
        levels = group_means(levels, present.to(levels.dtype), segments)
        return project(levels, present, top).to(scores.dtype), segments.int()
