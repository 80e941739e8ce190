r"""SparseMAP of tag sequences on the device of the scores: a batched active set in plain torch.

All instances iterate together; those that have finished do not change any more. One iteration
solves the KKT systems of the active sets (Niculae et al., 2018, Eq. 9), moves to the solutions or
as far as the weights stay nonnegative (Eq. 10), and calls Viterbi's algorithm for the structures to
add. Every few iterations, the host reads back whether all have finished and how many slots are
used; with a fixed number of slots it reads nothing.

Active sets stay affinely independent, so that each system has a unique solution. A structure ``s``
whose tags are an affine combination ``w`` of the active ones may still improve the objective, which
is linear in the direction ``e_s - w``: the weights move until one is zero, whose structure leaves.

References:
    Niculae et al. (2018), Algorithm 2; Nocedal & Wright (1999), §16.4.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from repro.structures.arc_flow import flows, paths, trellis
from repro.structures.kernels.codes import SEQUENCE
from repro.structures.padded_mixture import respond
from repro.structures.structure import InfeasibleError, Problem, Selection, Structure

CHECK_EVERY = 4
"""Iterations between checks whether all instances have finished and enough slots are free."""
MORE = 50
"""Iterations beyond the number of parts after which unfinished instances continue from flows. As
each iteration factorizes a system, the interior-point method pays off earlier than on the CPU."""
SLOTS = 12
"""Initial number of slots for structures, which is doubled when they run out."""
PATIENCE = 20
"""Steps of length zero after which rounding is assumed to prevent progress of an instance."""
INDEPENDENT = 1e-9
"""Squared distance from the affine hull, in parts, above which a structure is independent of it."""
NONZERO = 1e-10
"""Coefficient of an affine combination above which it is not attributed to rounding."""


def _indicator(index: Tensor, size: int) -> Tensor:
    """Return a boolean one-hot encoding; unlike ``one_hot``, it does not synchronize."""
    return index.unsqueeze(-1) == torch.arange(size, device=index.device)


def viterbi(unary: Tensor, transitions: Tensor | None, inside: Tensor) -> Tensor:
    """Find the best tags ``(B, n)``, 0 past the length, for the whole batch at once.

    Arguments are the attributes of :class:`SequenceScores`.
    """
    if transitions is None:
        return unary.argmax(-1) * inside
    reached, pointers = unary[:, 0], []
    stay = torch.arange(unary.size(-1), device=unary.device)
    for position in range(1, unary.size(1)):
        best, previous = (reached.unsqueeze(-1) + transitions[:, position - 1]).max(-2)
        here = inside[:, position, None]
        reached = torch.where(here, best + unary[:, position], reached)
        pointers.append(torch.where(here, previous, stay))
    tags = [reached.argmax(-1, keepdim=True)]
    for previous in reversed(pointers):
        tags.append(previous.gather(-1, tags[-1]))
    return torch.cat(tags[::-1], -1) * inside


@dataclass
class ActiveSets:
    """Active sets of a batch: a mixture of tag sequences in ``K`` slots for each instance.

    Attributes:
        tags: the sequences in the slots, ``(B, K, n)``.
        weights: weights of the sequences, ``(B, K)``, zero in free slots.
        active: which slots are in use, ``(B, K)``.
        gram: numbers of tags shared by two sequences, ``(B, K, K)``.
        scores: scores of the sequences, ``(B, K)``.
        gap: Frank-Wolfe gap at the last optimum over the active set, ``(B,)``.
        limit: gap at which an instance is solved, ``(B,)``.
        iterations: number of iterations, ``(B,)``.
        stalls: number of steps of length zero, ``(B,)``.
        finished: which instances are solved, stalled or infeasible, ``(B,)``.
    """

    tags: Tensor
    weights: Tensor
    active: Tensor
    gram: Tensor
    scores: Tensor
    gap: Tensor
    limit: Tensor
    iterations: Tensor
    stalls: Tensor
    finished: Tensor

    @property
    def converged(self) -> Tensor:
        """Return whether the gap is within the limit, ``(B,)``."""
        return self.gap <= self.limit

    def where(self, rows: Tensor, other: "ActiveSets") -> "ActiveSets":
        """Replace the instances selected by a mask ``(B,)`` by those of another state."""
        chosen = {}
        for name, own in vars(self).items():
            mask = rows.view(-1, *[1] * (own.dim() - 1))
            chosen[name] = torch.where(mask, getattr(other, name), own)
        return ActiveSets(**chosen)


@dataclass(frozen=True)
class SequenceScores:
    """Scores of a batch of tag sequences in float64.

    Attributes:
        unary: ``(B, n, m)``, ``-inf`` forbids a tag.
        transitions: ``(B, n-1, m, m)``, from row to column, or None.
        inside: which positions are not padding, ``(B, n)``.
    """

    unary: Tensor
    transitions: Tensor | None
    inside: Tensor

    def best(self, marginals: Tensor | None = None) -> Tensor:
        """Find the best sequences for the unary scores minus ``marginals``, ``(B, n)``."""
        unary = self.unary if marginals is None else self.unary - marginals
        return viterbi(unary, self.transitions, self.inside)

    def score(self, tags: Tensor) -> Tensor:
        """Compute the score of one sequence per instance, ``(B,)``."""
        chosen = self.unary.gather(-1, tags.unsqueeze(-1)).squeeze(-1)
        total = chosen.masked_fill(~self.inside, 0).sum(-1)
        if self.transitions is None or tags.size(-1) < 2:
            return total
        tails = self.transitions.gather(
            2, tags[:, :-1, None, None].expand(-1, -1, 1, self.unary.size(-1))
        ).squeeze(2)
        pairs = tails.gather(-1, tags[:, 1:, None]).squeeze(-1)
        return total + pairs.masked_fill(~self.inside[:, 1:], 0).sum(-1)

    def rounding(self, tags: Tensor) -> Tensor:
        """Estimate the rounding error of the scores of sequences like these, ``(B,)``."""
        pairs = None if self.transitions is None else self.transitions.abs()
        sizes = SequenceScores(self.unary.abs(), pairs, self.inside).score(tags)
        return 2.0**-50 * (sizes + self.inside.sum(-1))

    def marginals(self, tags: Tensor, weights: Tensor) -> Tensor:
        """Compute ``M y``, the tag probabilities of the mixture, ``(B, n, m)``."""
        # A product with indicators: the order of sums in scatter_add_ on CUDA is not fixed.
        indicators = _indicator(tags.mT, self.unary.size(-1)).to(weights.dtype)
        mixed = (weights[:, None, None] @ indicators).squeeze(-2)
        return mixed * self.inside.unsqueeze(-1)


def solve(
    scores: SequenceScores, max_iter: int, tol: float, slots: int | None = None
) -> ActiveSets:
    """Run the active set algorithm on all instances.

    Instances that need many iterations continue from the mixture found by
    :mod:`repro.structures.arc_flow`, as on the CPU.

    Args:
        scores: the scores; an instance without allowed sequences finishes at once.
        max_iter: largest number of iterations.
        tol: an instance is solved when no structure improves its linearised objective by more.
        slots: number of slots for structures; ``n (m - 1) + 2`` always suffice. If given, nothing
            is read back from the device, so that a CUDA graph can be captured, and the number of
            iterations is exactly ``max_iter``. Otherwise slots are added as needed, and iterations
            end when all instances have finished.
    """
    positions, tags = scores.unary.shape[1:]
    state = _singletons(scores, scores.best(), SLOTS if slots is None else slots)
    state.limit.clamp_(min=tol)
    chained = scores.transitions is not None and positions > 1
    for step in range(max_iter):
        if slots is None and step % CHECK_EVERY == 0:
            finished, used = torch.stack(
                (state.finished.all(), state.active.sum(-1).max())
            ).tolist()
            if finished:
                break
            if used + CHECK_EVERY > state.active.size(-1):
                _widen(state, 2 * state.active.size(-1))
        if chained and step == positions * tags + MORE:
            state = _restart(scores, state, read_back=slots is None)
        _iterate(scores, state)
    return state


def _singletons(scores: SequenceScores, tags: Tensor, room: int) -> ActiveSets:
    """Return active sets with one sequence each, ``(B, n)``, in the first of ``room`` slots."""
    batch, positions = tags.shape
    value, empty = scores.score(tags), ~scores.inside.any(-1)
    nothing = scores.unary.new_zeros(batch, room)
    state = ActiveSets(
        tags=tags.new_zeros(batch, room, positions),
        weights=nothing.clone(),
        active=torch.zeros_like(nothing, dtype=torch.bool),
        gram=nothing.new_zeros(batch, room, room),
        scores=nothing.clone(),
        gap=torch.where(empty, 0.0, torch.inf).to(nothing),
        limit=scores.rounding(tags),
        iterations=tags.new_zeros(batch),
        stalls=tags.new_zeros(batch),
        finished=(value == -torch.inf) | empty,
    )
    state.tags[:, 0], state.scores[:, 0] = tags, value
    state.gram[:, 0, 0] = scores.inside.sum(-1)
    state.weights[:, 0], state.active[:, 0] = 1, True
    return state


def _restart(scores: SequenceScores, state: ActiveSets, read_back: bool) -> ActiveSets:
    """Replace the mixtures of unfinished instances by near-optimal ones.

    If ``read_back``, the number of sequences is read on the host; otherwise the largest possible
    number is added.
    """
    inside, transitions = scores.inside, scores.transitions
    assert transitions is not None
    positions, tags = scores.unary.shape[1:]
    room = max(state.active.size(-1), positions * (tags - 1) + 2 if read_back else 0)
    _widen(state, room)
    # Allow one tag only past the length, so that padding does not affect the solution.
    first = torch.zeros_like(scores.unary[0, 0])
    first[1:] = -torch.inf
    unary = torch.where(inside.unsqueeze(-1), scores.unary, first)
    transitions = torch.where(inside[:, 1:, None, None], transitions, 0)
    flow = flows(trellis(unary, transitions), stop_early=False)
    found, weights = paths(flow, 3 * positions * tags)
    order = weights.argsort(dim=-1, descending=True, stable=True)
    weights = weights.gather(1, order)
    found = found.gather(1, order.unsqueeze(-1).expand_as(found)) * inside.unsqueeze(1)
    usable = weights.isfinite().all(-1) & ~state.finished
    weights = torch.where(usable.unsqueeze(-1), weights, 0)
    count = int((weights > 0).sum(-1).max()) if read_back else weights.size(-1)
    # The heaviest sequence comes first; the others are added one by one.
    fresh = _singletons(scores, found[:, 0], room)
    fresh.weights[:, 0] = weights[:, 0]
    fresh.gap, fresh.limit = state.gap, state.limit
    fresh.iterations, fresh.finished = state.iterations, state.finished
    for k in range(1, count):
        factors = torch.linalg.lu_factor_ex(systems(fresh))[:2]
        new = _compare(scores, fresh, found[:, k], weights[:, k])
        _add(fresh, factors, new, new.share > 0)
    return state.where(usable, fresh)


def _widen(state: ActiveSets, slots: int) -> None:
    """Add free slots until there are ``slots``."""
    more = slots - state.active.size(-1)
    state.tags = pad(state.tags, (0, 0, 0, more))
    state.gram = pad(state.gram, (0, more, 0, more))
    state.weights = pad(state.weights, (0, more))
    state.active = pad(state.active, (0, more))
    state.scores = pad(state.scores, (0, more))


def _iterate(scores: SequenceScores, state: ActiveSets) -> None:
    """Run one iteration of every instance that has not finished."""
    running = ~state.finished
    factors = torch.linalg.lu_factor_ex(systems(state))[:2]
    target, level = _solve_systems(factors, state.scores * state.active)
    # The largest step up to one that keeps weights nonnegative, and the slot that limits it.
    direction = target - state.weights
    falls = state.active & (state.weights + direction < 0)
    smallest, blocking = torch.where(falls, state.weights / -direction, torch.inf).min(-1)
    step = smallest.clamp(max=1)
    arrived = running & (step >= 1)
    state.weights += torch.where(running, step, 0).unsqueeze(-1) * direction
    _remove(state, blocking, running & ~arrived)
    state.iterations += running
    found = scores.best(scores.marginals(state.tags, state.weights))
    new = _compare(scores, state, found, torch.zeros_like(level))
    gap = new.score - (new.shared * state.weights).sum(-1) - level
    state.gap = torch.where(arrived, gap, state.gap)
    state.stalls += running & (step == 0)
    open_ = arrived & (gap > state.limit)
    state.finished = state.finished | (arrived & ~open_) | (state.stalls > PATIENCE)
    _add(state, factors, new, open_ & ~state.finished)


def systems(state: ActiveSets) -> Tensor:
    """Return the KKT matrices ``(B, K + 1, K + 1)``; free slots have rows of the identity."""
    active = state.active.to(state.gram.dtype)
    inner = state.gram * active.unsqueeze(-1) * active.unsqueeze(-2)
    inner = inner + torch.diag_embed(1 - active)
    upper = torch.cat((inner, active.unsqueeze(-1)), -1)
    last = pad(active, (0, 1)).unsqueeze(-2)
    return torch.cat((upper, last), -2)


def _solve_systems(factors: tuple[Tensor, Tensor], right: Tensor) -> tuple[Tensor, Tensor]:
    """Solve for weights that sum to one, ``(B, K)``, and multipliers, ``(B,)``."""
    sides = pad(right, (0, 1), value=1.0).unsqueeze(-1)
    solution = torch.linalg.lu_solve(*factors, sides).squeeze(-1)
    return solution[:, :-1], solution[:, -1]


def _remove(state: ActiveSets, slot: Tensor, where: Tensor) -> None:
    """Free one slot of some instances, and clip weights that rounding has made negative."""
    gone = _indicator(slot, state.active.size(-1)) & where.unsqueeze(-1)
    state.active = state.active & ~gone
    state.weights = state.weights.masked_fill(~state.active, 0).clamp(min=0)


class _Candidate(NamedTuple):
    """Sequence for each instance that may be added to its active set.

    Attributes:
        tags: the sequence, ``(B, n)``.
        shared: numbers of tags shared with the sequences in the slots, ``(B, K)``; 0 if free.
        score: score of the sequence, ``(B,)``.
        size: number of tags of the sequence, ``(B,)``.
        share: initial weight of the sequence, ``(B,)``.
    """

    tags: Tensor
    shared: Tensor
    score: Tensor
    size: Tensor
    share: Tensor


def _compare(scores: SequenceScores, state: ActiveSets, tags: Tensor, share: Tensor) -> _Candidate:
    """Compare sequences ``(B, n)`` with initial weights ``(B,)`` to the active sets."""
    same = (state.tags == tags.unsqueeze(1)) & scores.inside.unsqueeze(1)
    shared = (same.sum(-1) * state.active).to(state.weights.dtype)
    return _Candidate(tags, shared, scores.score(tags), scores.inside.sum(-1), share)


def _add(state: ActiveSets, factors: tuple[Tensor, Tensor], new: _Candidate, where: Tensor) -> None:
    """Add a sequence to the active sets of some instances.

    A sequence is dependent if its tags are an affine combination of those of active ones. Weight is
    then moved between it and the combination, towards the higher score and without changing the
    marginals, until a weight is zero.
    """
    combination, level = _solve_systems(factors, new.shared)
    apart = new.size - (combination * new.shared).sum(-1) - level
    dependent = where & (apart <= INDEPENDENT * new.size)
    gain = new.score - (combination * state.scores * state.active).sum(-1)
    towards = (gain > 0) | (new.share == 0)
    change = torch.where(towards.unsqueeze(-1), combination, -combination)
    ratios = torch.where(change > NONZERO, state.weights / change, torch.inf)
    step, pushed = ratios.min(-1)
    absorbed = dependent & ~towards & (step >= new.share)
    step = torch.where(dependent, torch.where(absorbed, new.share, step), 0)
    state.weights = state.weights - step.unsqueeze(-1) * change
    _remove(state, pushed, dependent & ~absorbed)
    # Write the sequence, its score and its row of the Gram matrix into the first free slot.
    joins = where & ~absorbed
    slot = _indicator(state.active.int().argmin(-1), state.active.size(-1)) & joins.unsqueeze(-1)
    row = new.shared * state.active + slot * new.size.unsqueeze(-1)
    state.tags = torch.where(slot.unsqueeze(-1), new.tags.unsqueeze(1), state.tags)
    state.scores = torch.where(slot, new.score.unsqueeze(-1), state.scores)
    state.gram = torch.where(slot.unsqueeze(-1), row.unsqueeze(1), state.gram)
    state.gram = torch.where(slot.unsqueeze(1), row.unsqueeze(-1), state.gram)
    weight = new.share + torch.where(towards, step, -step)
    state.weights = state.weights + torch.where(slot, weight.unsqueeze(-1), 0)
    state.active = state.active | slot


def solves(problem: Problem, unary: Tensor) -> bool:
    """Return whether this solver serves a problem: tag sequences with scores on a CUDA device."""
    return problem.code == SEQUENCE and unary.is_cuda and len(unary) > 0


def solve_on_device(
    structure: Structure,
    problem: Problem,
    unary: Tensor,
    additional: Tensor | None,
    tol: float,
    rounds: int,
) -> tuple[Selection, Tensor, Tensor]:
    """Solve SparseMAP of tag sequences on the device of the unary scores.

    Args:
        structure: structure of the problem.
        problem: the checked scores, with masks and lengths.
        unary: scores ``(B, n, m)`` that give the device, the dtype and the autograd graph.
        additional: transitions with their autograd graph, or None.
        tol: gap at which an instance is solved.
        rounds: largest number of iterations.

    Returns:
        The selected sequences, marginals like ``unary`` and weights ``(B, K)``; the last two are
        differentiable.

    Raises:
        ValueError: scores are NaN or +inf.
        InfeasibleError: an instance has no allowed sequence.
    """
    device, batch = unary.device, len(unary)
    given = problem.unary.to(device)
    inside = torch.arange(given.size(1), device=device) < problem.sizes[:, :1].to(device)
    wrong = (~(given < torch.inf) & inside.unsqueeze(-1)).flatten(1).any(-1)
    pairs = None
    if problem.additional.numel():
        pairs = problem.additional.to(device).double().expand(batch, -1, -1, -1)
        later = inside[:, 1:, None, None]
        wrong = wrong | (~(pairs < torch.inf) & later).flatten(1).any(-1)
    if wrong.any():
        raise ValueError(f"instance {int(wrong.nonzero()[0])}: a score is NaN or +inf")
    # Subtracting the largest score of each item changes no solution, but reduces rounding.
    largest = given.amax(-1, keepdim=True).clamp(min=-1e300)
    scores = SequenceScores(given - largest, pairs, inside)
    with torch.no_grad():
        state = solve(scores, rounds, tol)
        # Move the active slots to the front, and cut off slots that no instance uses.
        needed = int(state.active.sum(-1).max())
        order = (~state.active).long().argsort(dim=-1, stable=True)[:, :needed]
        filled = state.active.gather(-1, order)
        places = order.unsqueeze(-1)
        tags = state.tags.gather(1, places.expand(-1, -1, state.tags.size(-1)))
        tags = tags.masked_fill(~(filled.unsqueeze(-1) & scores.inside.unsqueeze(1)), -1)
        response = torch.linalg.inv_ex(systems(state))[0]
        response = response.gather(1, places.expand(-1, -1, response.size(-1)))
        response = response.gather(2, order.unsqueeze(1).expand(-1, needed, -1))
        response = response.masked_fill(~(filled.unsqueeze(-1) & filled.unsqueeze(-2)), 0)
        held = state.weights.gather(-1, order)
    impossible = (scores.score(tags[:, 0].clamp(min=0)) == -torch.inf).nonzero()
    if impossible.numel():
        first = int(impossible[0])
        raise InfeasibleError(
            f"instance {first}: no structure is allowed: too many scores are -inf"
        )
    # The copy on the CPU goes without inverses: the derivative is taken on the device.
    active = state.active.sum(-1).cpu()
    there = torch.arange(tags.size(1)) < active.unsqueeze(-1)
    selection = Selection(
        problem=problem,
        marginals=scores.marginals(tags.clamp(min=0), held).cpu(),
        vertices=tags.cpu()[there].numpy().astype(np.int32),
        weights=held.cpu()[there].numpy(),
        inverses=np.empty(0),
        counts=active.numpy(),
        rounds=state.iterations.cpu().numpy(),
        gaps=state.gap.cpu().numpy(),
        converged=state.converged.cpu().numpy(),
    )
    change = respond(structure, unary, additional, tags, response)
    weights = held + (change - change.detach())
    marginals = scores.marginals(tags.clamp(min=0), weights)
    return selection, marginals.to(unary.dtype), weights.to(unary.dtype)
