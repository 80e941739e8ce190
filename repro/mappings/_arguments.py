"""Checks and conversions of the arguments of mappings and losses."""

import math
from numbers import Real
from operator import index
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn.functional import pad


def allowed_scores(scores: Tensor, mask: Tensor | None, dim: int) -> Tensor:
    """Check scores and mask; return the scores, in float32 at least, with ``-inf`` where masked.

    Raises:
        TypeError: scores are not a floating point tensor, or the mask is not a boolean one.
        ValueError: scores have no dimension, or the mask does not broadcast to their shape.
        IndexError: ``dim`` is not a dimension of the scores.
    """
    check_floating("scores", scores)
    if scores.dim() == 0:
        raise ValueError("scores must have at least one dimension, got a scalar")
    if not -scores.dim() <= dim < scores.dim():
        raise IndexError(f"dim={dim} is not a dimension of scores of shape {tuple(scores.shape)}")
    wide = scores.float() if scores.dtype in (torch.float16, torch.bfloat16) else scores
    if mask is None:
        return wide
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        raise TypeError(f"mask must be boolean (True = allowed), got {kind(mask)}")
    check_broadcast("mask", mask, scores)
    return wide.masked_fill(~mask, -torch.inf)


def to_last(tensor: Tensor, dim: int) -> Tensor:
    """Move the axis of the distributions to the end, where all algorithms expect it."""
    return tensor if dim in (-1, tensor.dim() - 1) else tensor.movedim(dim, -1)


def prefix_sums(values: Tensor) -> Tensor:
    """Return cumulative sums along the last axis.

    On CUDA they are a scan by doubling: ``cumsum`` of floats has no deterministic implementation
    there, and raises while deterministic ones are required, as in every run.
    """
    if not values.is_cuda:
        return values.cumsum(-1)
    step = 1
    while step < values.size(-1):
        values = values + pad(values[..., :-step], (step, 0))
        step *= 2
    return values


def like_scores(rows: Tensor, scores: Tensor, dim: int) -> Tensor:
    """Move the last axis back to ``dim`` and cast to the dtype of the scores."""
    if dim not in (-1, rows.dim() - 1):
        rows = rows.movedim(-1, dim).contiguous()  # callers may call `.view()` on the result
    return cast_like(scores, rows)


def cast_like(scores: Tensor, result: Tensor) -> Tensor:
    """Cast `result` to the dtype of `scores`; the check avoids the overhead of a no-op `.to()`."""
    return result if result.dtype == scores.dtype else result.to(scores.dtype)


def in_double(tensor: Tensor) -> Tensor:
    """Convert to float64, except on MPS devices, which do not support it."""
    return tensor if tensor.device.type == "mps" else tensor.double()


def center(scores: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Subtract the largest score of every row of ``n >= 1`` scores along ``dim``.

    The result is finite unless a score is NaN: ``+inf`` entries tie at the maximum, and ``-inf``
    becomes the lowest finite number, too low for any support.

    Returns:
        The centered scores, at most zero, and the maxima with size 1 on ``dim`` (not clamped).
    """
    top = scores.amax(dim, keepdim=True)
    largest = torch.finfo(scores.dtype).max
    shift = top.clamp(-largest, largest)
    return scores.clamp(max=largest).sub_(shift).clamp_min_(-largest), top


def divided_by_gamma(scores: Tensor, gamma: float, dim: int) -> Tensor:
    """Return ``(z - max z) / γ``, whose distribution under ``Ω`` is that of ``z`` under ``γ Ω``.

    Dividing first could overflow, and would round each quotient relative to its own magnitude,
    which can far exceed the difference of two quotients. The shift changes no distribution and
    therefore has no gradient. ``±inf`` and NaN stay, and an entry becomes ``-inf`` only if
    :func:`center` would treat it as forbidden. For ``γ = 1`` the scores are returned unchanged.

    Raises:
        ValueError: ``γ`` is not positive and finite.
    """
    gamma = positive("gamma", gamma)
    if gamma == 1 or scores.size(dim) == 0:
        return scores
    largest = torch.finfo(scores.dtype).max
    shift = scores.detach().amax(dim, keepdim=True).clamp(-largest, largest)
    centered = scores - shift
    # Half the lowest number is below any support, and not so low that center() clamps it.
    tiny = torch.finfo(scores.dtype).tiny  # below it γ would be rounded to zero
    scaled = (centered / max(gamma, tiny)).clamp(min=-largest / 2)
    return scaled.masked_fill(centered <= -largest, -torch.inf)


def is_concrete(tensor: Tensor) -> bool:
    """Return whether values can be read for free: on the CPU, outside compilation and ``vmap``.

    Batched gradients (``is_grads_batched``, ``vectorize=True``) count as ``vmap``.
    """
    if torch.compiler.is_compiling() or not tensor.is_cpu or type(tensor) is FakeTensor:
        return False
    while torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        if torch._C._functorch.is_batchedtensor(tensor):
            return False
        tensor = torch._C._functorch.get_unwrapped(tensor)
    return not torch._C._functorch.is_legacy_batchedtensor(tensor)


def kind(value: object) -> str:
    """Return the name of a tensor's dtype, or of the type of any other object."""
    return str(value.dtype) if isinstance(value, Tensor) else type(value).__name__


def check_floating(name: str, value: Tensor) -> None:
    """Raise ``TypeError`` unless an argument is a floating point tensor."""
    if not isinstance(value, Tensor) or not value.is_floating_point():
        raise TypeError(f"{name} must be a floating point tensor, got {kind(value)}")


def check_broadcast(name: str, value: Tensor, scores: Tensor) -> None:
    """Raise ``ValueError`` unless an argument expands to the shape of the scores."""
    if value.shape == scores.shape:
        return
    pairs = zip(reversed(value.shape), reversed(scores.shape), strict=False)
    if value.dim() > scores.dim() or not all(a in (1, b) for a, b in pairs):
        raise ValueError(
            f"{name} of shape {tuple(value.shape)} does not broadcast to scores of shape "
            f"{tuple(scores.shape)}"
        )


def check_per_row(name: str, value: Tensor, scores: Tensor, dim: int) -> None:
    """Raise ``ValueError`` unless a parameter broadcasts to one value per row."""
    check_broadcast(name, value, scores)
    from_right = dim - scores.dim() if dim >= 0 else dim
    if value.dim() >= -from_right and value.size(from_right) != 1:
        raise ValueError(f"{name} of shape {tuple(value.shape)} must have size 1 on dim {dim}")


def check_classes(target: Tensor, size: int) -> None:
    """Raise ``IndexError`` unless all targets are classes; skipped if reading values has a cost."""
    if is_concrete(target) and bool(((target < 0) | (target >= size)).any()):
        raise IndexError(f"targets must be in [0, {size}) or the ignored value")


def per_row(name: str, value: Tensor, scores: Tensor, dim: int) -> Tensor:
    """Check a parameter and expand it to the shape of the scores with size 1 on ``dim``."""
    check_per_row(name, value, scores, dim)
    return value.to(scores.dtype).expand_as(scores.narrow(dim, 0, 1))


def as_column(values: Tensor, rows: Tensor) -> Tensor:
    """Return one value for each row as ``(..., 1)``; a single one for all rows stays as it is."""
    return values if values.numel() == 1 else values.reshape(*rows.shape[:-1], 1)


def number(name: str, value: Any) -> float:
    """Convert a setting, a Python or NumPy number or a tensor without dimensions, to a float.

    Raises:
        TypeError: the value is something else, or a tensor that requires a gradient, which it
            would not receive.
    """
    if type(value) is float:
        return value
    if isinstance(value, Tensor):
        real = value.dim() == 0 and not value.is_complex() and not value.requires_grad
    else:
        real = isinstance(value, Real)
    if not real:
        raise TypeError(f"{name} must be a number, got {_described(value)}")
    return float(value)


def integer(name: str, value: Any) -> int:
    """Convert a setting, a Python or NumPy integer or an integer tensor of one element, to an int.

    Raises:
        TypeError: the value is something else.
    """
    try:
        if not isinstance(value, bool):
            return index(value)
    except (TypeError, RuntimeError):
        pass
    raise TypeError(f"{name} must be an integer, got {_described(value)}")


def _described(value: Any) -> str:
    if not isinstance(value, Tensor):
        return repr(value)
    gradient = " that requires a gradient" if value.requires_grad else ""
    return f"a tensor of shape {tuple(value.shape)} and {kind(value)}{gradient}"


def positive(name: str, value: Any) -> float:
    """Return a setting as a float; raise ``ValueError`` unless it is positive and finite."""
    value = number(name, value)
    if not 0 < value < math.inf:
        raise ValueError(f"{name} must be positive and finite, got {value}")
    return value


def nonnegative(name: str, value: Any) -> float:
    """Return a setting as a float; raise ``ValueError`` unless it is finite and at least zero."""
    value = number(name, value)
    if not 0 <= value < math.inf:
        raise ValueError(f"{name} must be at least 0 and finite, got {value}")
    return value
