"""The derivative of SparseMAP: a linear map between scores and marginals, and its transpose.

The selected structures are locally constant (Niculae et al. 2018, Appendix B), so the weights are
``y = D Aᵀ η + const`` and the marginals ``u = M y``. :func:`marginals_of` and :func:`weights_of`
register these maps and their transposes with autograd, differentiable any number of times.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function

from repro.structures.kernels import mixture as kernels
from repro.structures.kernels.codes import Array
from repro.structures.problem import Layout, Selection, on_device, on_host
from repro.structures.structure import Structure


@dataclass(frozen=True)
class Mixture:
    """Linear map from scores to marginals and weights, given by the selected structures of a batch.

    Args:
        structure: the family of structures.
        selection: the selected structures.
        unary: detached unary scores; only their shape, dtype and device are used.
        additional: detached additional scores, used likewise, or ``None``.
    """

    structure: Structure
    selection: Selection
    unary: Tensor
    additional: Tensor | None

    def padded(self, weights: Array) -> Tensor:
        """Pad values ``(N,)``, one per structure, to ``(B, K)`` with zeros."""
        table = torch.from_numpy(self.selection.padded(weights))
        return on_device(table, self.unary.device, self.unary.dtype)

    @cached_property
    def layouts(self) -> list[Layout]:
        """Layouts of unary parts and, if there are any, of additional parts."""
        return self.structure.layouts(self.selection)

    def read(
        self, unary: Tensor | None, additional: Tensor | None, weights: Tensor | None
    ) -> Array:
        """Sum, for each structure, the values of its parts and its entry in ``weights (B, K)``."""
        held, total = self.selection, np.zeros(len(self.selection.weights))
        if weights is not None:
            total += _array(weights)[held.places]
        for values, layout in zip((unary, additional), self.layouts, strict=False):
            if values is not None:
                code, sizes, vertices, shape = layout
                grads = _array(values).reshape(shape)
                kernels.transfer(code, sizes, held.offsets, vertices, grads, total, False)
        return total

    def respond(self, pulled: Array) -> Array:
        """Compute ``D p``, the change of weights for changes ``p`` of the structures' scores."""
        held = self.selection
        found: Array = kernels.respond(held.offsets, held.inverse_starts, held.inverses, pulled)
        return found

    def write(self, like: Tensor, layout: Layout, weights: Array) -> Tensor:
        """Return the total weight of the structures with each part, in the shape of ``like``."""
        code, sizes, vertices, shape = layout
        out = np.zeros(shape)
        kernels.transfer(code, sizes, self.selection.offsets, vertices, out, weights, True)
        return on_device(torch.from_numpy(out).view(like.shape), like.device, like.dtype)


def _array(tensor: Tensor) -> Array:
    """Convert a tensor to an array in single or double precision for the kernels."""
    wide = torch.promote_types(tensor.dtype, torch.float32)
    found: Array = on_host(tensor, wide).contiguous().numpy()
    return found


class _Forward(Function):
    """Map from scores to marginals or weights: the solution if ``value``, else its derivative."""

    @staticmethod
    def forward(
        ctx: Any,
        unary: Tensor | None,
        additional: Tensor | None,
        mixture: Mixture,
        value: bool,
        of_parts: bool,
    ) -> Tensor:
        ctx.mixture, ctx.of_parts = mixture, of_parts
        if value:
            weights = mixture.selection.weights
        else:
            weights = mixture.respond(mixture.read(unary, additional, None))
        if of_parts:
            return mixture.write(mixture.unary, mixture.layouts[0], weights)
        return mixture.padded(weights)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        wanted = tuple(ctx.needs_input_grad[:2])
        moved = _Transposed.apply(grads[0], ctx.mixture, ctx.of_parts, wanted)
        return *moved, None, None, None


class _Transposed(Function):
    """Transposed map from gradients of marginals or weights to gradients of scores."""

    @staticmethod
    def forward(
        ctx: Any, grad: Tensor, mixture: Mixture, of_parts: bool, wanted: tuple[bool, bool]
    ) -> tuple[Tensor | None, Tensor | None]:
        ctx.mixture, ctx.of_parts = mixture, of_parts
        ctx.set_materialize_grads(False)
        pulled = mixture.read(grad, None, None) if of_parts else mixture.read(None, None, grad)
        found = mixture.respond(pulled)
        unary = mixture.write(mixture.unary, mixture.layouts[0], found) if wanted[0] else None
        if mixture.additional is None or not wanted[1]:
            return unary, None
        return unary, mixture.write(mixture.additional, mixture.layouts[1], found)

    @staticmethod
    def backward(ctx: Any, unary: Tensor | None, additional: Tensor | None) -> Any:
        moved = _Forward.apply(unary, additional, ctx.mixture, False, ctx.of_parts)
        return moved, None, None, None


def marginals_of(mixture: Mixture, unary: Tensor, additional: Tensor | None) -> Tensor:
    """Return marginals like ``unary``, differentiable in the scores."""
    found: Tensor = _Forward.apply(unary, additional, mixture, True, True)
    return found


def weights_of(mixture: Mixture, unary: Tensor, additional: Tensor | None) -> Tensor:
    """Return weights ``(B, K)``, differentiable in the scores."""
    found: Tensor = _Forward.apply(unary, additional, mixture, True, False)
    return found
