"""Softmax and sparsemax: the two ends of the α-entmax family, with a temperature."""

import math

from torch import Tensor

from repro.mappings._arguments import allowed_scores, cast_like, divided_by_gamma, number
from repro.mappings._entmax import apply_entmax


def softmax(
    scores: Tensor, *, gamma: float = 1.0, mask: Tensor | None = None, dim: int = -1
) -> Tensor:
    r"""Map scores to a dense distribution.

    .. math:: p = \arg\max_{q \in \Delta^n} \langle q, z \rangle - \gamma \sum_j q_j \log q_j
              = \exp(z / \gamma) / \textstyle\sum_j \exp(z_j / \gamma)

    Args:
        scores: ``z``, floating point, ``n`` on ``dim``; ``-inf`` forbids an entry.
        gamma: strength of the regulariser, positive; larger is flatter.
        mask: boolean, broadcasts to ``scores``; True = allowed.
        dim: the axis that becomes a distribution.

    Returns:
        ``p``, like ``scores``; sums to one along ``dim``, positive where allowed. A row with
        nothing allowed is all zeros. NaN stays in its row.

    Raises:
        TypeError: scores are not floating point, or the mask is not boolean.
        ValueError: ``gamma`` is not positive and finite, or the mask does not broadcast.

    References:
        Peters et al. (2019), Eqs. 4 and 7.
    """
    return _tempered(scores, 0.0, gamma, mask, dim)


def sparsemax(
    scores: Tensor, *, gamma: float = 1.0, mask: Tensor | None = None, dim: int = -1
) -> Tensor:
    r"""Project scores onto the probability simplex.

    .. math:: p = \arg\min_{q \in \Delta^n} \tfrac12 \lVert q - z / \gamma \rVert_2^2

    Args:
        scores: ``z``, floating point, ``n`` on ``dim``; ``-inf`` forbids an entry.
        gamma: strength of the regulariser, positive; larger is flatter.
        mask: boolean, broadcasts to ``scores``; True = allowed.
        dim: the axis that becomes a distribution.

    Returns:
        ``p``, like ``scores``; sums to one along ``dim``, exactly zero where masked and off the
        support. A row with nothing allowed is all zeros. NaN stays in its row.

    Raises:
        TypeError: scores are not floating point, or the mask is not boolean.
        ValueError: ``gamma`` is not positive and finite, or the mask does not broadcast.

    References:
        Martins & Astudillo (2016), Eq. 2; Peters et al. (2019), Eq. 5.
    """
    return _tempered(scores, 1.0, gamma, mask, dim)


def check_gamma(gamma: float) -> float:
    """Return ``gamma`` as a Python number; refuse a regulariser that is not strictly convex.

    Raises:
        TypeError: ``gamma`` is no number.
        ValueError: it is not positive and finite.
    """
    gamma = number("gamma", gamma)
    if not 0 < gamma < math.inf:
        raise ValueError(f"gamma must be positive and finite, got {gamma}")
    return gamma


def _tempered(scores: Tensor, order: float, gamma: float, mask: Tensor | None, dim: int) -> Tensor:
    gamma = check_gamma(gamma)
    wide = allowed_scores(scores, mask, dim)
    if scores.size(dim) == 0:
        return scores.clone()
    divided = divided_by_gamma(wide, gamma, dim)
    return cast_like(scores, apply_entmax(divided, order, dim, True))
