"""Helper of the slow references in float64, against which the mappings are tested."""

import math
from collections.abc import Callable

import torch
from torch import Tensor


def at_threshold(
    response: Callable[[Tensor], Tensor], scores: Tensor, total: float, passes: int = 200
) -> Tensor:
    """Return ``response(z - τ)`` for the ``τ`` at which it sums to the total; zero at ``-inf``."""
    top = scores.double().amax(-1, keepdim=True)
    centered = scores.double() - top
    finite = centered.masked_fill(centered == -torch.inf, 0.0)
    reach = 1 + math.log(scores.size(-1))
    low, high = finite.amin(-1, keepdim=True) - reach, torch.full_like(top, reach)
    for _ in range(passes):
        middle = (low + high) / 2
        enough = response(centered - middle).sum(-1, keepdim=True) >= total
        low, high = torch.where(enough, middle, low), torch.where(enough, high, middle)
    return response(centered - low)
