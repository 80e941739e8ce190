"""Smooth functions with a removable singularity at zero, accurate and differentiable there."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

_SWITCH = 0.5
_TERMS = 16


def _with_series(theta: Tensor, direct: Callable[[Tensor], Tensor], terms: list[float]) -> Tensor:
    """``direct`` away from zero, the power series near it; neither branch leaks NaN gradients."""
    near = theta.abs() < _SWITCH
    small = torch.where(near, theta, 0.0)
    series = torch.full_like(small, terms[-1])
    for term in reversed(terms[:-1]):
        series = series * small + term
    return torch.where(near, series, direct(torch.where(near, 1.0, theta)))


def decay_ratio(theta: Tensor) -> Tensor:
    """``(1 - e^{-θ}) / θ``, one at zero."""
    terms = [(-1) ** k / math.factorial(k + 1) for k in range(_TERMS)]
    return _with_series(theta, lambda t: -torch.expm1(-t) / t, terms)


def growth_curvature(theta: Tensor) -> Tensor:
    """``(e^θ - 1 - θ) / θ²``, one half at zero."""
    terms = [1 / math.factorial(k + 2) for k in range(_TERMS)]
    return _with_series(theta, lambda t: (torch.expm1(t) - t) / t.square(), terms)


def decay_curvature(theta: Tensor) -> Tensor:
    """``(1 - e^{-θ} (1 + θ)) / θ²``, one half at zero."""
    terms = [(-1) ** k * (k + 1) / math.factorial(k + 2) for k in range(_TERMS)]
    return _with_series(theta, lambda t: (1 - torch.exp(-t) * (1 + t)) / t.square(), terms)
