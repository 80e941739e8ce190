"""The derivative of SparseMAP: a linear map between scores and marginals, and its transpose.

The selected structures are locally constant (Niculae et al. 2018, Appendix B), so the weights are
``y = D Aᵀ η + const`` and the marginals ``u = M y``. :func:`attach` registers this map and its
transpose with autograd, differentiable any number of times.
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
from repro.structures.problem import Layout, Selection
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
        return table.to(self.unary.device, self.unary.dtype)

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
                kernels.read(code, sizes, held.offsets, vertices, grads, total)
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
        kernels.write(code, sizes, self.selection.offsets, vertices, weights, out)
        return torch.from_numpy(out).view(like.shape).to(like.device, like.dtype)


def _array(tensor: Tensor) -> Array:
    """Convert a tensor to an array in single or double precision for the kernels."""
    tensor = tensor.detach().cpu()
    half = tensor.dtype not in (torch.float32, torch.float64)
    found: Array = (tensor.float() if half else tensor).contiguous().numpy()
    return found


class _Forward(Function):
    """Map from scores to marginals and weights: the solution if ``value``, else its derivative."""

    @staticmethod
    def forward(
        ctx: Any, unary: Tensor | None, additional: Tensor | None, mixture: Mixture, value: bool
    ) -> tuple[Tensor, Tensor]:
        ctx.mixture = mixture
        if value:
            weights = mixture.selection.weights
        else:
            weights = mixture.respond(mixture.read(unary, additional, None))
        marginals = mixture.write(mixture.unary, mixture.layouts[0], weights)
        return marginals, mixture.padded(weights)

    @staticmethod
    def backward(ctx: Any, marginals: Tensor, weights: Tensor) -> Any:
        wanted = tuple(ctx.needs_input_grad[:2])
        return *_Transposed.apply(marginals, weights, ctx.mixture, wanted), None, None


class _Transposed(Function):
    """Transposed map from gradients of marginals and weights to gradients of scores."""

    @staticmethod
    def forward(
        ctx: Any,
        marginals: Tensor | None,
        weights: Tensor | None,
        mixture: Mixture,
        wanted: tuple[bool, bool],
    ) -> tuple[Tensor | None, Tensor | None]:
        ctx.mixture = mixture
        ctx.set_materialize_grads(False)
        found = mixture.respond(mixture.read(marginals, None, weights))
        unary = mixture.write(mixture.unary, mixture.layouts[0], found) if wanted[0] else None
        if mixture.additional is None or not wanted[1]:
            return unary, None
        return unary, mixture.write(mixture.additional, mixture.layouts[1], found)

    @staticmethod
    def backward(ctx: Any, unary: Tensor | None, additional: Tensor | None) -> Any:
        return *_Forward.apply(unary, additional, ctx.mixture, False), None, None


def attach(
    structure: Structure, unary: Tensor, additional: Tensor | None, selection: Selection
) -> tuple[Tensor, Tensor]:
    """Return marginals like ``unary`` and weights ``(B, K)``, differentiable in the scores."""
    detached = None if additional is None else additional.detach()
    mixture = Mixture(structure, selection, unary.detach(), detached)
    marginals, weights = _Forward.apply(unary, additional, mixture, True)
    return marginals, weights
