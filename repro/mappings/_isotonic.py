"""Isotonic regression, all rows of a batch at once, by parallel pooling of adjacent violators."""

from typing import Any

import torch
from torch import Tensor
from torch.library import custom_op
from torch.nn.functional import pad

from repro.mappings._grouped import group_means
from repro.mappings._masking import is_concrete
from repro.mappings.kernels.dispatch import AVAILABLE


@custom_op("repro::decreasing_blocks", mutates_args=())
def decreasing_blocks(values: Tensor) -> Tensor:
    """Solve ``min_y ‖y - u‖²`` subject to ``y_1 >= y_2 >= ...`` along the last axis.

    Two neighbouring blocks whose means do not decrease have the same value in the solution (the
    lemma of pool-adjacent-violators), so all such pairs are pooled in one sweep. Every sweep but
    the last pools at least one pair.

    Args:
        values: ``u``, float64, ``n >= 1`` on the last axis.

    Returns:
        ``long``, the shape of ``values``: the number of the block of every position, from zero.
        ``y`` is the mean of its block.
    """
    if AVAILABLE and values.device.type == "cpu":
        from repro.mappings.kernels.cpu import segments

        return segments.decreasing_blocks(values)
    weights = torch.ones_like(values)
    inner = values.size(-1) - 1
    starts = torch.ones_like(values[..., 1:], dtype=torch.long)
    blocks = _numbered(starts)
    for _ in range(inner):
        means = group_means(values, weights, blocks)
        falls = (means[..., 1:] < means[..., :-1]).long()
        kept = starts * falls
        if is_concrete(values) and torch.equal(kept, starts):
            break
        starts = kept
        blocks = _numbered(starts)
    return blocks


@decreasing_blocks.register_fake
def _(values: Tensor) -> Tensor:
    return torch.empty_like(values, dtype=torch.long)


@decreasing_blocks.register_vmap
def _(info: Any, in_dims: tuple[int], values: Tensor) -> tuple[Tensor, int]:
    return decreasing_blocks(values.movedim(in_dims[0], 0)), 0


def _numbered(starts: Tensor) -> Tensor:
    """Block numbers from the flags of the positions, but the first, at which a block starts."""
    return pad(starts.cumsum(-1), (1, 0))
