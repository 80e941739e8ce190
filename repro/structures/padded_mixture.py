"""Derivative of SparseMAP in plain torch, so that all transforms of ``torch.func`` apply to it.

The selected structures are locally constant (Niculae et al. 2018, Appendix B). With ``θ`` their
scores, their weights are ``y = D θ + const``, and the marginals are linear in the weights.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from repro.structures.structure import Selection, Structure


class PaddedMixture(NamedTuple):
    """Selected structures as padded tensors in double precision, filled with zeros.

    Attributes:
        marginals: ``u``, shape ``(B, ...)`` of the unary scores.
        vertices: integers ``(B, K, V)``, filled with -1.
        weights: ``y``, ``(B, K)``.
        response: ``D = H⁻¹ - H⁻¹ 1 1ᵀ H⁻¹ / 1ᵀ H⁻¹ 1``, ``(B, K, K)``.
    """

    marginals: Tensor
    vertices: Tensor
    weights: Tensor
    response: Tensor


def pad(structure: Structure, selection: Selection, like: Tensor) -> PaddedMixture:
    """Convert a selection to padded tensors on the device of the scores ``like``."""
    counts = selection.counts
    weights = selection.padded(selection.weights)
    inverses = np.zeros((*weights.shape, weights.shape[1]))
    instances = np.repeat(np.arange(len(counts)), counts**2)
    within = np.arange(len(instances)) - selection.inverse_starts[instances]
    inverses[instances, *np.divmod(within, counts[instances])] = selection.inverses
    ones = inverses.sum(-1)
    totals = ones.sum(-1)[:, None, None]
    response = inverses - ones[:, :, None] * ones[:, None, :] / totals
    parts = (torch.from_numpy(array).to(like.device) for array in (weights, response))
    marginals = selection.marginals.reshape(like.shape).to(like.device)
    vertices = padded_vertices(structure, selection).to(like.device)
    return PaddedMixture(marginals, vertices, *parts)


def padded_vertices(structure: Structure, selection: Selection) -> Tensor:
    """Return the vertices ``(B, K, V)`` of the selected structures, filled with -1."""
    stored = torch.from_numpy(selection.padded(selection.vertices, fill=-1))
    return structure.vertices(stored, selection.problem)


def attach(
    structure: Structure, unary: Tensor, additional: Tensor | None, mixture: PaddedMixture
) -> tuple[Tensor, Tensor]:
    """Return marginals like ``unary`` and weights ``(B, K)``, differentiable in the scores."""
    found = respond(structure, unary, additional, mixture.vertices, mixture.response)
    change = found - found.detach()
    moved = structure.unary_mixture(mixture.vertices, change, unary)
    marginals = (mixture.marginals + moved).to(unary.dtype)
    return marginals, (mixture.weights + change).to(unary.dtype)


def respond(
    structure: Structure,
    unary: Tensor,
    additional: Tensor | None,
    vertices: Tensor,
    response: Tensor,
) -> Tensor:
    """Compute ``D θ``, ``(B, K)``, in float64: the weights of ``vertices`` up to a constant."""
    extra = None if additional is None else additional.double()
    theta = structure.score(vertices, unary.double(), extra)
    return (response @ theta.unsqueeze(-1)).squeeze(-1)
