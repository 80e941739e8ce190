"""The device's mixtures of tag sequences as solutions, with derivatives in plain torch.

The selected sequences stay the same near the scores, and their weights are ``y = D θ + const`` with
``θ`` the scores of the sequences and ``D`` the matrix of Niculae et al. (2018), Proposition 1: the
inverse of the KKT matrix without its border. Marginals are linear in the weights. So gradients of
any order come from two products, on the device.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from repro.structures.device import ActiveSets, SequenceScores, solve, systems
from repro.structures.kernels.codes import SEQUENCE
from repro.structures.padded_mixture import respond
from repro.structures.selection import Selection
from repro.structures.structure import InfeasibleError, Problem, Structure


@dataclass(frozen=True)
class Mixed:
    """Mixtures with the active sequences first.

    Attributes:
        tags: ``(B, K, n)``, -1 where there is none.
        weights: ``(B, K)``, zero where there is none.
        response: ``D``, ``(B, K, K)``.
    """

    tags: Tensor
    weights: Tensor
    response: Tensor


def solves(problem: Problem, unary: Tensor) -> bool:
    """Return whether this solver serves a problem: tag sequences whose scores are on a device."""
    return problem.code == SEQUENCE and unary.is_cuda and len(unary) > 0


def solve_on_device(
    structure: Structure,
    problem: Problem,
    unary: Tensor,
    additional: Tensor | None,
    tol: float,
    rounds: int,
) -> tuple[Selection, Tensor, Tensor]:
    """Solve SparseMAP of tag sequences where the unary scores are.

    Args:
        structure: structure of the problem.
        problem: the checked scores, with masks and lengths.
        unary: ``(B, n, m)``, for its device, dtype and derivative.
        additional: transitions or None, likewise.
        tol: gap at which an instance is solved.
        rounds: calls of the oracle at most.

    Returns:
        The selected sequences, marginals like ``unary`` and weights ``(B, K)``; the last two are
        differentiable.

    Raises:
        ValueError: scores are NaN or +inf.
        InfeasibleError: an instance has no allowed sequence.
    """
    scores = _scores(problem, unary.device)
    with torch.no_grad():
        state = solve(scores, rounds, tol)
        mixed = _sorted(state, scores.inside)
    selection = _selection(problem, scores, state, mixed)
    change = respond(structure, unary, additional, mixed.tags, mixed.response)
    weights = mixed.weights + (change - change.detach())
    marginals = scores.marginals(mixed.tags.clamp(min=0), weights)
    return selection, marginals.to(unary.dtype), weights.to(unary.dtype)


def _scores(problem: Problem, device: torch.device) -> SequenceScores:
    """The checked scores on the device; those of each item are lowered by their largest."""
    unary = problem.unary.to(device)
    lengths = problem.sizes[:, :1].to(device)
    inside = torch.arange(unary.size(1), device=device) < lengths
    pairs = None
    if problem.additional.numel():
        pairs = problem.additional.to(device).double().expand(unary.size(0), -1, -1, -1)
    _refuse(unary, pairs, inside)
    largest = unary.amax(-1, keepdim=True)
    return SequenceScores(unary - largest.clamp(min=-1e300), pairs, inside)


def _refuse(unary: Tensor, pairs: Tensor | None, inside: Tensor) -> None:
    """Raise where a score that counts is NaN or +inf."""
    wrong = (~(unary < torch.inf) & inside.unsqueeze(-1)).flatten(1).any(-1)
    if pairs is not None:
        later = inside[:, 1:, None, None]
        wrong = wrong | (~(pairs < torch.inf) & later).flatten(1).any(-1)
    if wrong.any():
        raise ValueError(f"instance {int(wrong.nonzero()[0])}: a score is NaN or +inf")


def _sorted(state: ActiveSets, inside: Tensor) -> Mixed:
    """Bring the active slots to the front, and cut off what no instance needs."""
    needed = int(state.active.sum(-1).max())
    order = (~state.active).long().argsort(dim=-1, stable=True)[:, :needed]
    there = state.active.gather(-1, order)
    places = order.unsqueeze(-1)
    tags = state.tags.gather(1, places.expand(-1, -1, state.tags.size(-1)))
    tags = tags.masked_fill(~(there.unsqueeze(-1) & inside.unsqueeze(1)), -1)
    response = torch.linalg.inv_ex(systems(state))[0]
    response = response.gather(1, places.expand(-1, -1, response.size(-1)))
    response = response.gather(2, order.unsqueeze(1).expand(-1, needed, -1))
    both = there.unsqueeze(-1) & there.unsqueeze(-2)
    return Mixed(tags, state.weights.gather(-1, order), response.masked_fill(~both, 0))


def _selection(
    problem: Problem, scores: SequenceScores, state: ActiveSets, mixed: Mixed
) -> Selection:
    """Copy the known solution to the CPU; the inverses are not needed there."""
    impossible = (scores.score(mixed.tags[:, 0].clamp(min=0)) == -torch.inf).nonzero()
    if impossible.numel():
        first = int(impossible[0])
        raise InfeasibleError(
            f"instance {first}: no structure is allowed: too many scores are -inf"
        )
    active = state.active.sum(-1).cpu()
    there = torch.arange(mixed.tags.size(1)) < active.unsqueeze(-1)
    return Selection(
        problem=problem,
        marginals=scores.marginals(mixed.tags.clamp(min=0), mixed.weights).cpu(),
        vertices=mixed.tags.cpu()[there].numpy().astype(np.int32),
        weights=mixed.weights.cpu()[there].numpy(),
        inverses=np.empty(0),
        counts=active.numpy(),
        rounds=state.iterations.cpu().numpy(),
        gaps=state.gap.cpu().numpy(),
        converged=state.converged.cpu().numpy(),
    )
