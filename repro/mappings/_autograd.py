"""Autograd functions of the mappings."""

import inspect
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.autograd import Function, forward_ad


class DifferentiableFunction(Function):
    """Base class of autograd functions with reverse mode and ``vmap``.

    A subclass defines ``forward(*arguments)``, ``setup_context`` and ``backward``. Callers use
    :meth:`run`.
    """

    generate_vmap_rule = True
    direct: ClassVar[Callable[..., Any]]
    """``apply`` without its handling of functorch, which takes longer than a small kernel."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "forward" in cls.__dict__:
            # Function.apply inspects the signature in every call unless it is stored.
            cls.forward.__signature__ = inspect.signature(cls.forward)  # type: ignore[attr-defined]
            cls.direct = super(Function, cls).apply  # type: ignore[misc]

    @classmethod
    def run(cls, *arguments: Any) -> Any:
        """Apply the function with as little overhead of autograd as the call allows."""
        if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
            return cls.apply(*arguments)
        tracked = torch.is_grad_enabled() and any(
            isinstance(given, Tensor) and given.requires_grad for given in arguments
        )
        # `apply` refuses forward mode, whereas `forward` alone would silently drop tangents.
        if tracked or forward_ad._current_level >= 0:
            return cls.direct(*arguments)
        return cls.forward(*arguments)  # a graph node would take as long as a small kernel


def batch_first(info: Any, in_dims: tuple[int | None, ...], *tensors: Tensor) -> list[Tensor]:
    """Return a ``vmap`` rule's tensors with the mapped dimension first, added where missing."""
    return [
        tensor.expand(info.batch_size, *tensor.shape) if at is None else tensor.movedim(at, 0)
        for tensor, at in zip(tensors, in_dims, strict=False)
    ]
