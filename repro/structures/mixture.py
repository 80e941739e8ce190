"""The derivative of SparseMAP: a linear map between scores and marginals, and its transpose.

The selected structures are locally constant (Niculae et al. 2018, Appendix B), so the weights are
``y = D Aᵀ η + const`` and the marginals ``u = M y``. :func:`attach` registers this map and its
transpose with autograd, differentiable any number of times. The compiled kernels take less than
half the time of :mod:`repro.structures.padded_mixture`, which is for values that cannot be read.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function

from repro.mappings._arguments import under_vmap
from repro.structures import padded_mixture
from repro.structures.kernels import mixture as kernels
from repro.structures.kernels.codes import PARTS, Array
from repro.structures.structure import Selection, Structure


@dataclass(frozen=True)
class Mixture:
    """Linear map from scores to marginals and weights, given by the selected structures of a batch.

    Args:
        structure: the family of structures.
        selection: the selected structures.
        unary: detached unary scores, of which shape, dtype and device are read.
        additional: detached additional scores, likewise, or ``None``.
    """

    structure: Structure
    selection: Selection
    unary: Tensor
    additional: Tensor | None

    def padded(self, weights: Array) -> Tensor:
        """Pad values ``(N,)``, one per structure, to ``(B, K)`` with zeros."""
        table = torch.from_numpy(self.selection.padded(weights))
        return table.to(self.unary.device, self.unary.dtype)

    def read(
        self, unary: Tensor | None, additional: Tensor | None, weights: Tensor | None
    ) -> Array:
        """Return for each structure the sum of its entries in up to three arrays, ``(N,)``.

        Args:
            unary: values of unary parts.
            additional: values of additional parts.
            weights: values of the structures themselves, ``(B, K)``.
        """
        selection, problem = self.selection, self.selection.problem
        offsets, vertices, sizes = selection.offsets, selection.vertices, problem.sizes.numpy()
        pulled = np.zeros(len(vertices))
        if weights is not None:
            pulled += _array(weights)[selection.places]
        if unary is not None:
            grads = _array(unary).reshape(problem.unary.shape)
            kernels.read_unary(problem.code, sizes, offsets, vertices, grads, pulled)
        if additional is not None:
            grads = _array(additional)
            if problem.code == PARTS:
                entries, columns = _additional_parts(selection, grads.shape[-1])
                rows = grads.reshape(-1, grads.shape[-1], 1)
                kernels.read_unary(PARTS, columns, offsets, entries, rows, pulled)
            else:
                several = grads.reshape(-1, *grads.shape[-3:])
                kernels.read_transitions(sizes, offsets, vertices, several, pulled)
        return pulled

    def respond(self, pulled: Array) -> Array:
        """Compute ``D p``, the change of weights for changes ``p`` of the structures' scores."""
        held = self.selection
        found: Array = kernels.respond(held.offsets, held.inverse_starts, held.inverses, pulled)
        return found

    def write_unary(self, weights: Array) -> Tensor:
        """Sum for each unary part the weights of the structures that contain it."""
        held, problem = self.selection, self.selection.problem
        out, sizes = np.zeros(problem.unary.shape), problem.sizes.numpy()
        kernels.write_unary(problem.code, sizes, held.offsets, held.vertices, weights, out)
        return torch.from_numpy(out).to(self.unary.device, self.unary.dtype)

    def write_additional(self, weights: Array) -> Tensor | None:
        """Sum for each additional part the weights of the structures that contain it, if any."""
        if self.additional is None:
            return None
        out, held = torch.zeros(self.additional.shape, dtype=torch.float64), self.selection
        if out.numel() and held.problem.code == PARTS:
            entries, columns = _additional_parts(held, out.shape[-1])
            rows = out.numpy().reshape(-1, out.shape[-1], 1)
            kernels.write_unary(PARTS, columns, held.offsets, entries, weights, rows)
        elif out.numel():
            sizes, several = held.problem.sizes.numpy(), out.numpy().reshape(-1, *out.shape[-3:])
            kernels.write_transitions(sizes, held.offsets, held.vertices, weights, several)
        return out.to(self.additional.device, self.additional.dtype)

    def push_batched(
        self, unary: Tensor | None, additional: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Map changes of scores to those of marginals and weights in plain torch, for ``vmap``."""
        unary = torch.zeros_like(self.unary) if unary is None else unary
        padded = padded_mixture.pad(self.structure, self.selection, self.unary)
        found = padded_mixture.respond(
            self.structure, unary, additional, padded.vertices, padded.response
        )
        marginals = self.structure.unary_mixture(padded.vertices, found, self.unary)
        return marginals.to(self.unary.dtype), found.to(self.unary.dtype)

    def pull_batched(
        self, marginals: Tensor, weights: Tensor, wanted: tuple[bool, bool]
    ) -> tuple[Tensor | None, Tensor | None]:
        """Map gradients of the results to those of the scores in plain torch, for ``vmap``."""
        padded = padded_mixture.pad(self.structure, self.selection, self.unary)
        pulled = self.structure.score(padded.vertices, marginals.double()) + weights
        found = (padded.response @ pulled.unsqueeze(-1)).squeeze(-1)
        unary = self.structure.unary_mixture(padded.vertices, found, self.unary)
        additional = None
        if wanted[1]:
            assert self.additional is not None
            additional = self.structure.mixture(padded.vertices, found, self.additional)
            assert additional is not None
            additional = additional.sum_to_size(self.additional.shape).to(self.additional.dtype)
        return unary.to(self.unary.dtype) if wanted[0] else None, additional


def _array(tensor: Tensor) -> Array:
    """Convert a tensor to an array in single or double precision for the kernels."""
    tensor = tensor.detach().cpu()
    half = tensor.dtype not in (torch.float32, torch.float64)
    found: Array = (tensor.float() if half else tensor).contiguous().numpy()
    return found


def _additional_parts(selection: Selection, parts: int) -> tuple[Array, Array]:
    """Return the additional parts of structures in the layout of unary ones, and their sizes."""
    sizes = np.tile(np.array([parts, 1], np.int64), (len(selection.counts), 1))
    return np.ascontiguousarray(selection.vertices[:, -parts:]), sizes


class _Forward(Function):
    """Map from scores to marginals and weights: the solution if ``value``, else its derivative."""

    @staticmethod
    def forward(
        ctx: Any, unary: Tensor | None, additional: Tensor | None, mixture: Mixture, value: bool
    ) -> tuple[Tensor, Tensor]:
        ctx.mixture = mixture
        if value:
            marginals = mixture.selection.marginals.reshape(mixture.unary.shape)
            marginals = marginals.to(mixture.unary.device, mixture.unary.dtype)
            return marginals, mixture.padded(mixture.selection.weights)
        found = mixture.respond(mixture.read(unary, additional, None))
        return mixture.write_unary(found).reshape(mixture.unary.shape), mixture.padded(found)

    @staticmethod
    def backward(ctx: Any, marginals: Tensor, weights: Tensor) -> Any:
        wanted = tuple(ctx.needs_input_grad[:2])
        if under_vmap(marginals) or under_vmap(weights):
            return *ctx.mixture.pull_batched(marginals, weights, wanted), None, None
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
        unary = mixture.write_unary(found).reshape(mixture.unary.shape) if wanted[0] else None
        return unary, mixture.write_additional(found) if wanted[1] else None

    @staticmethod
    def backward(ctx: Any, unary: Tensor | None, additional: Tensor | None) -> Any:
        if any(given is not None and under_vmap(given) for given in (unary, additional)):
            return *ctx.mixture.push_batched(unary, additional), None, None
        return *_Forward.apply(unary, additional, ctx.mixture, False), None, None


def attach(
    structure: Structure, unary: Tensor, additional: Tensor | None, selection: Selection
) -> tuple[Tensor, Tensor]:
    """Return marginals like ``unary`` and weights ``(B, K)``, differentiable in the scores."""
    shape = None if additional is None else additional.detach()
    mixture = Mixture(structure, selection, unary.detach(), shape)
    marginals, weights = _Forward.apply(unary, additional, mixture, True)
    return marginals, weights
