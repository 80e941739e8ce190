r"""Sums over all tag sequences: the forward algorithm in the log semiring.

.. math:: \alpha_1(b) = s_1(b), \qquad
          \alpha_i(b) = s_i(b) + \log \sum_a \exp\big(\alpha_{i-1}(a) + t_{i-1}(a, b)\big)

Marginals are the gradient of the log-partition function, so reverse differentiation of this
recursion is the backward algorithm. All sums are in float64; every step is vectorized over batch
and tags.

References:
    Rabiner (1989). Niculae et al. (2018), §2.2.
"""

import torch
from torch import Tensor

from repro.structures.problem import device_lengths

LOWEST = -1e30
"""Substitute for ``log(0)``: finite, so that differences of logarithms are not NaN."""


def possible(logarithm: Tensor) -> Tensor:
    """Return a mask of logarithms that do not stand for ``log(0)``; True for NaN."""
    return ~(logarithm.detach() <= LOWEST / 2)


def sequence_log_partition(
    unary: Tensor, transitions: Tensor | None = None, lengths: Tensor | None = None
) -> Tensor:
    r"""Compute the log-partition function of tag sequences, twice differentiable.

    .. math:: \log \sum_{y_1 \dots y_n} \exp \Big(\sum_i s_i(y_i) + \sum_i t_i(y_i, y_{i+1})\Big)

    Args:
        unary: ``s``, shape ``(B, n, m)``, floating point; ``-inf`` forbids a tag.
        transitions: ``t``, shape ``(n-1, m, m)`` or ``(B, n-1, m, m)``, from row to column;
            zero if None.
        lengths: number of positions of each instance, ``(B,)``; ``n`` if None.

    Returns:
        ``(B,)``, in the dtype of ``unary``; ``-inf`` where no sequence is allowed, 0 for no
        positions.

    Raises:
        ValueError: shapes or lengths do not fit, or the scores are not floating point.
    """
    if unary.dim() != 3 or not unary.is_floating_point():
        raise ValueError(
            f"unary scores (B, n, m), floating point, expected, got {tuple(unary.shape)} of "
            f"{unary.dtype}"
        )
    batch, positions, tags = unary.shape
    shape = (max(positions - 1, 0), tags, tags)
    if transitions is not None and transitions.shape not in (shape, (batch, *shape)):
        raise ValueError(
            f"transitions {shape} or {(batch, *shape)} expected, got {tuple(transitions.shape)}"
        )
    wide = unary.double().clamp(min=LOWEST)
    if transitions is None:
        transitions = wide.new_zeros(shape)
    steps = transitions.double().clamp(min=LOWEST).expand(batch, -1, -1, -1)
    lengths = device_lengths(lengths, batch, (positions,), unary.device).squeeze(1)
    if positions == 0:
        total = wide.new_zeros(batch) + wide.sum() + steps.sum()
    else:
        reached = wide[:, 0]
        for position in range(1, positions):
            before = reached.unsqueeze(-1) + steps[:, position - 1]
            following = wide[:, position] + before.logsumexp(-2)
            inside = (position < lengths).unsqueeze(-1)
            reached = torch.where(inside, following, reached)
        total = reached.logsumexp(-1).masked_fill(lengths == 0, 0)
    return total.masked_fill(~possible(total), -torch.inf).to(unary.dtype)
