"""Parameters of mappings and losses: numbers, and tensors with one value per row."""

from numbers import Real
from operator import index
from typing import Any

from torch import Tensor

from repro.mappings._masking import check_broadcast, kind


def number(name: str, value: Any) -> float:
    """Return a setting as a Python number.

    Args:
        name: name of the setting, for messages.
        value: a real number of Python or numpy, or a tensor without dimensions.

    Raises:
        TypeError: it is something else, or a tensor that requires a gradient, which a setting does
            not get.
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
    """Return a setting as a Python integer.

    Args:
        name: name of the setting, for messages.
        value: an integer of Python or numpy, or an integer tensor with one element.

    Raises:
        TypeError: it is something else.
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


def per_row(name: str, value: Tensor, scores: Tensor, dim: int) -> Tensor:
    """Expand a parameter to the shape of the scores with size 1 on ``dim``.

    Raises:
        ValueError: it does not broadcast to the scores, or has more than one value per row.
    """
    check_per_row(name, value, scores, dim)
    return value.to(scores.dtype).expand_as(scores.narrow(dim, 0, 1))


def check_per_row(name: str, value: Tensor, scores: Tensor, dim: int) -> None:
    """Refuse a parameter that has not one value for each row.

    Raises:
        ValueError: it does not broadcast to the scores, or has more than one value per row.
    """
    check_broadcast(name, value, scores)
    from_right = dim - scores.dim() if dim >= 0 else dim
    if value.dim() >= -from_right and value.size(from_right) != 1:
        raise ValueError(f"{name} of shape {tuple(value.shape)} must have size 1 on dim {dim}")
