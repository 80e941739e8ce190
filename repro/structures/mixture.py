"""The derivative of SparseMAP: a linear map between scores and marginals, and its transpose.

Near the scores the selected structures stay the same (Niculae et al. 2018, Appendix B), so that
weights are ``y = D Aᵀ η + const`` and marginals ``u = M y``. :func:`attach` ties this map to torch,
in both directions and any number of times. The compiled kernels take less than half the time of
:mod:`repro.structures.padded_mixture`, which serves where values of tensors cannot be read.
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
    """The selected structures of a batch as a linear map.

    Args:
        structure: what was solved.
        selection: the selected structures.
        unary: empty tensor with the type and device of the scores.
        additional: the same for additional scores, in their shape, on no storage; or ``None``.
    """

    structure: Structure
    selection: Selection
    unary: Tensor
    additional: Tensor | None

    def padded(self, weights: Array) -> Tensor:
        """Numbers ``(N,)`` of structures as ``(B, K)``, zero where there is none."""
        table = torch.from_numpy(self.selection.padded(weights))
        return table.to(self.unary.device, self.unary.dtype)

    def read(
        self, unary: Tensor | None, additional: Tensor | None, weights: Tensor | None
    ) -> Array:
        """Sum for each structure its parts of two arrays and its own weight."""
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
                behind, columns = _behind(selection, grads.shape[-1])
                rows = grads.reshape(-1, grads.shape[-1], 1)
                kernels.read_unary(PARTS, columns, offsets, behind, rows, pulled)
            else:
                several = grads.reshape(-1, *grads.shape[-3:])
                kernels.read_transitions(sizes, offsets, vertices, several, pulled)
        return pulled

    def respond(self, pulled: Array) -> Array:
        """``D p``."""
        held = self.selection
        found: Array = kernels.respond(held.offsets, held.squares, held.inverses, pulled)
        return found

    def write_unary(self, weights: Array) -> Tensor:
        """Sum up what structures give to unary parts."""
        held, problem = self.selection, self.selection.problem
        out, sizes = np.zeros(problem.unary.shape), problem.sizes.numpy()
        kernels.write_unary(problem.code, sizes, held.offsets, held.vertices, weights, out)
        return torch.from_numpy(out).to(self.unary.device, self.unary.dtype)

    def write_additional(self, weights: Array) -> Tensor | None:
        """Sum up what structures give to additional parts; ``None`` where there are none."""
        if self.additional is None:
            return None
        out, held = torch.zeros(self.additional.shape, dtype=torch.float64), self.selection
        if out.numel() and held.problem.code == PARTS:
            behind, columns = _behind(held, out.shape[-1])
            rows = out.numpy().reshape(-1, out.shape[-1], 1)
            kernels.write_unary(PARTS, columns, held.offsets, behind, weights, rows)
        elif out.numel():
            sizes, several = held.problem.sizes.numpy(), out.numpy().reshape(-1, *out.shape[-3:])
            kernels.write_transitions(sizes, held.offsets, held.vertices, weights, several)
        return out.to(self.additional.device, self.additional.dtype)

    def push_batched(
        self, unary: Tensor | None, additional: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Changes of marginals and weights from changes under ``vmap``, whose values are hidden."""
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
        """Gradients of scores from gradients under ``vmap``, whose values are hidden."""
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
    """Values of a tensor for the kernels."""
    tensor = tensor.detach().cpu()
    half = tensor.dtype not in (torch.float32, torch.float64)
    found: Array = (tensor.float() if half else tensor).contiguous().numpy()
    return found


def _behind(selection: Selection, parts: int) -> tuple[Array, Array]:
    """The additional parts of structures as if they were unary, and their sizes."""
    sizes = np.tile(np.array([parts, 1], np.int64), (len(selection.counts), 1))
    return np.ascontiguousarray(selection.vertices[:, -parts:]), sizes


class _Forward(Function):
    """Forward derivative: scores to marginals and weights; the first call returns their values."""

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
    """Transposed derivative: gradients of marginals and weights to gradients of scores."""

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
    """Marginals like ``unary`` and weights ``(B, K)``, differentiable in both groups of scores."""
    shape = None if additional is None else additional.detach()
    mixture = Mixture(structure, selection, unary.detach(), shape)
    marginals, weights = _Forward.apply(unary, additional, mixture, True)
    return marginals, weights
