"""Autograd functions of the mappings, with the choice between kernels and PyTorch."""

import inspect
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.autograd import Function, forward_ad

from repro.mappings.kernels import dispatch


class DifferentiableFunction(Function):
    """Base class of autograd functions with reverse mode, forward mode and ``vmap``.

    A subclass defines ``forward(*arguments)``, ``setup_context`` (which calls :func:`keep`),
    ``backward`` and ``tangent``, which returns the tangents of the outputs, given those of the
    inputs. Callers use :meth:`run`, whose first argument must be a tensor: its device and dtype
    decide whether kernels are used.

    ``torch.compile`` refuses functions with a ``jvp``. Therefore ``tangent`` becomes the ``jvp`` of
    a second class, which is used in eager mode.
    """

    generate_vmap_rule = True
    forward_mode: ClassVar[type[Function]]
    direct: ClassVar[Callable[..., Any]]
    """``apply`` without its handling of functorch, which takes longer than a small kernel."""

    tangent: ClassVar[Callable[..., Any]]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "jvp" in cls.__dict__ or "forward" not in cls.__dict__:
            return
        # Function.apply inspects the signature in every call unless it is stored.
        cls.forward.__signature__ = inspect.signature(cls.forward)  # type: ignore[attr-defined]
        rule = {"jvp": staticmethod(cls.tangent)}
        cls.forward_mode = type(f"ForwardMode{cls.__name__}", (cls,), rule)
        cls.direct = super(Function, cls.forward_mode).apply  # type: ignore[misc]

    @classmethod
    def run(cls, *arguments: Any) -> Any:
        """Apply the function with as little overhead of autograd as the call allows."""
        if torch.compiler.is_compiling():
            return cls.apply(*arguments)
        if not dispatch.has_kernel(arguments[0]):
            return cls.forward_mode.apply(*arguments)
        tracked = forward_ad._current_level >= 0
        if not tracked and torch.is_grad_enabled():
            # The first argument is usually the one that needs a gradient.
            tracked = arguments[0].requires_grad or any(
                isinstance(given, Tensor) and given.requires_grad for given in arguments[1:]
            )
        if tracked:
            return cls.direct(*arguments)
        return cls.forward(*arguments)  # a graph node would take as long as a small kernel


def keep(ctx: Any, *tensors: Tensor | None) -> None:
    """Save tensors for ``backward`` and, unless compiling, for ``tangent``."""
    ctx.save_for_backward(*tensors)
    if not torch.compiler.is_compiling():
        ctx.save_for_forward(*tensors)


def batch_first(info: Any, in_dims: tuple[int | None, ...], *tensors: Tensor) -> list[Tensor]:
    """Return a ``vmap`` rule's tensors with the mapped dimension first, added where missing."""
    return [
        tensor.expand(info.batch_size, *tensor.shape) if at is None else tensor.movedim(at, 0)
        for tensor, at in zip(tensors, in_dims, strict=False)
    ]
