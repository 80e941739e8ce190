r"""SparseMAP of tag sequences as a flow problem: an initial point for the active set method.

A mixture of sequences is a unit flow through the trellis, with the pairwise marginals ``v`` as the
flow on its arcs. Over flows, SparseMAP is a small convex program,

.. math:: \max_{v \ge 0} \langle η_U, u \rangle + \langle η_F, v \rangle - ½ ‖u‖², \quad
          v_i 1 = u_i, \quad v_i^\top 1 = u_{i+1}, \quad 1^\top u_1 = 1.

The active set method adds one path at a time. If transitions are small compared with the quadratic
term, nearly every flow is positive and the paths only differ in how they combine arcs: a path
changes ``n - 1`` transportation problems at once but rarely improves all of them, so thousands of
exchanges are needed. In the space of flows these problems are separate, and a primal-dual
interior-point method takes about 20 iterations of ``O(n m³)``.

References:
    Mehrotra (1992), On the implementation of a primal-dual interior point method.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.linalg import cholesky_ex, solve_triangular

from repro.mappings._arguments import prefix_sums

ITERATIONS = 60
"""Interior-point iterations; chains of 40 items, 20 tags and scores of 1e-4 take at most 25."""
PRECISION = 1e-11
"""Complementarity gap and infeasibility, relative to the scores, at which iterations stop."""
PATIENCE = 3
"""Iterations without a smaller error after which rounding is assumed to prevent progress."""
_NEARLY_FINAL = 1e-4
"""Error, relative to the scores, above which ``PATIENCE`` does not apply: the first steps of long
chains are short, and the error may rise for ten iterations."""
POSITIVE = 1e-9
"""Flow up to which an arc counts as unused."""
_TO_BOUNDARY = 0.99
"""Fraction of the step to the boundary that is taken."""


@dataclass(frozen=True)
class Trellis:
    """Scores of a batch of chains, with masks of the parts that allowed paths use.

    Attributes:
        unary: ``(B, n, m)``, zero where ``nodes`` is False.
        transitions: ``(B, n-1, m, m)``, zero where ``arcs`` is False.
        nodes: tags on an allowed path, ``(B, n, m)``.
        arcs: pairs of tags on an allowed path, ``(B, n-1, m, m)``.
    """

    unary: Tensor
    transitions: Tensor
    nodes: Tensor
    arcs: Tensor


def trellis(unary: Tensor, transitions: Tensor) -> Trellis:
    """Build a trellis from scores in double precision, ``n > 1``; ``-inf`` forbids a part.

    Unary scores are shifted so that the largest one of each item is zero.
    """
    # Subtracting the largest score of an item changes no solution: each path has one tag there.
    allowed, pairs = unary > -torch.inf, transitions > -torch.inf
    ahead, behind = [allowed[:, 0]], [allowed[:, -1]]
    for i in range(pairs.size(1)):
        ahead.append((pairs[:, i] & ahead[-1].unsqueeze(-1)).any(-2) & allowed[:, i + 1])
        last = pairs.size(1) - 1 - i
        behind.append((pairs[:, last] & behind[-1].unsqueeze(-2)).any(-1) & allowed[:, last])
    nodes = torch.stack(ahead, 1) & torch.stack(behind[::-1], 1)
    arcs = pairs & nodes[:, :-1, :, None] & nodes[:, 1:, None, :]
    lowered = unary - unary.masked_fill(~nodes, -torch.inf).amax(-1, keepdim=True)
    return Trellis(torch.where(nodes, lowered, 0), torch.where(arcs, transitions, 0), nodes, arcs)


class _Iterate(NamedTuple):
    """Flow ``v``; multipliers of ``v_i 1 = u_i``, ``v_iᵀ 1 = u_{i+1}`` and ``1ᵀ u_1 = 1``."""

    flow: Tensor
    tails: Tensor
    heads: Tensor
    total: Tensor

    def moved(self, direction: "_Iterate", length: Tensor) -> "_Iterate":
        """Return the iterate after a step of length ``(B,)`` along a direction."""
        steps = (
            x + length.view(-1, *[1] * (x.dim() - 1)) * d
            for x, d in zip(self, direction, strict=True)
        )
        return _Iterate(*steps)


def flows(chains: Trellis) -> Tensor:
    """Solve SparseMAP for the pairwise marginals ``v``, ``(B, n-1, m, m)``, up to rounding.

    An instance whose Newton system becomes numerically singular keeps its last iterate.
    """
    scale = 1 + chains.transitions.abs().amax((1, 2, 3)) + chains.unary.abs().amax((1, 2))
    # Start from equal flow on all arcs of a step and multipliers with positive reduced costs.
    arcs = chains.arcs.to(chains.unary.dtype)
    flow = arcs / arcs.sum((-1, -2), keepdim=True).clamp(min=1)
    largest = chains.transitions.masked_fill(~chains.arcs, -torch.inf).amax((-1, -2))
    half = largest.clamp(min=-1e300).unsqueeze(-1) / 2 + 1 / chains.unary.size(-1)
    tails = half.expand_as(chains.unary[:, 1:]).clone()
    at = _Iterate(flow, tails, tails.clone(), torch.zeros_like(largest[:, 0]))
    least, final = torch.full_like(scale, torch.inf), scale < 0
    best, idle = at.flow, torch.zeros_like(scale)
    for _ in range(ITERATIONS):
        length, direction, error = _newton(chains, at)
        better = error < least
        best = torch.where(better.view(-1, 1, 1, 1), at.flow, best)
        least = torch.where(better, error, least)
        idle = torch.where(better | (least > _NEARLY_FINAL * scale), 0, idle + 1)
        final = final | ~length.isfinite() | (error <= PRECISION * scale) | (idle > PATIENCE)
        kept = _Iterate(*(x.nan_to_num(0, 0, 0) for x in direction))
        at = at.moved(kept, torch.where(final, 0, length))
        if final.all():
            break
    return best


def _newton(chains: Trellis, at: _Iterate) -> tuple[Tensor, _Iterate, Tensor]:
    """Compute the length and direction of Mehrotra's step, and the error before it, ``(B,)``."""
    nodes, arcs = chains.nodes, chains.arcs
    costs = at.tails.unsqueeze(-1) + at.heads.unsqueeze(-2) - chains.transitions
    costs = torch.where(arcs, costs, 1)
    marginals = chains.unary.clone()
    marginals[:, :-1] += at.tails
    marginals[:, 1:] += at.heads
    marginals[:, 0] -= at.total.unsqueeze(-1)
    marginals = torch.where(nodes, marginals, 0)
    residual_tails = at.flow.sum(-1) - marginals[:, :-1]
    residual_heads = at.flow.sum(-2) - marginals[:, 1:]
    residual_total = 1 - marginals[:, 0].sum(-1)
    ratio = at.flow / costs
    system = _Factors(chains, ratio)
    total_column = torch.zeros_like(residual_tails)
    total_column[:, 0] = nodes[:, 0].to(total_column.dtype)
    product = at.flow * costs

    def right_sides(target: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        change = torch.where(arcs, target / costs, 0)
        return change, residual_tails + change.sum(-1), residual_heads + change.sum(-2)

    def direction_for(flow: Tensor, tails: Tensor, heads: Tensor) -> tuple[_Iterate, Tensor]:
        total = (residual_total - tails[:, 0].sum(-1)) / pivot
        tails = tails + total.view(-1, 1, 1) * unit_tails
        heads = heads + total.view(-1, 1, 1) * unit_heads
        change = torch.where(arcs, tails.unsqueeze(-1) + heads.unsqueeze(-2), 0)
        return _Iterate(flow - ratio * change, tails, heads, total), change

    affine_flow, right_tails, right_heads = right_sides(-product)
    both_tails, both_heads = system.solve(
        torch.stack((right_tails, total_column), -1),
        torch.stack((right_heads, torch.zeros_like(total_column)), -1),
    )
    (tails, unit_tails), (heads, unit_heads) = both_tails.unbind(-1), both_heads.unbind(-1)
    pivot = unit_tails[:, 0].sum(-1) - total_column[:, 0].sum(-1)
    affine, change = direction_for(affine_flow, tails, heads)
    gap = torch.where(arcs, product, 0).sum((1, 2, 3))
    length = _longest(at.flow, affine.flow, costs, change).view(-1, 1, 1, 1)
    product_after = (at.flow + length * affine.flow) * (costs + length * change)
    gap_after = torch.where(arcs, product_after, 0).sum((1, 2, 3))
    center = (gap_after / gap).pow(3) * gap / arcs.sum((1, 2, 3))
    corrected = center.view(-1, 1, 1, 1) - product - affine.flow * change
    step_flow, right_tails, right_heads = right_sides(corrected)
    tails, heads = system.solve(right_tails.unsqueeze(-1), right_heads.unsqueeze(-1))
    step, change = direction_for(step_flow, tails.squeeze(-1), heads.squeeze(-1))
    length = _longest(at.flow, step.flow, costs, change)
    length = torch.where(length < 1, _TO_BOUNDARY * length, length)
    errors = torch.stack((residual_tails.abs().amax((1, 2)), residual_heads.abs().amax((1, 2))))
    return length, step, torch.maximum(errors.amax(0), torch.maximum(gap, residual_total.abs()))


def _longest(flow: Tensor, change: Tensor, costs: Tensor, shift: Tensor) -> Tensor:
    """Return the largest step up to 1 that keeps flows and reduced costs nonnegative, ``(B,)``."""
    limits = [
        torch.where(d < 0, -x / d, torch.inf).amin((1, 2, 3))
        for x, d in ((flow, change), (costs, shift))
    ]
    return torch.minimum(*limits).clamp(max=1)


class _Factors:
    """Block Cholesky factors of the Newton system, whose unknowns are the multipliers.

    With ``W`` the ratios of flows to reduced costs, it has diagonal blocks ``I + diag(W 1)`` for
    tails and ``I + diag(Wᵀ 1)`` for heads, ``W`` between tails and heads of a step, and ``I``
    between the heads of a step and the tails of the next. It is block tridiagonal, since blocks of
    tails and heads alternate.
    """

    def __init__(self, chains: Trellis, ratio: Tensor) -> None:
        ratio = torch.where(chains.arcs, ratio, 0)
        own = torch.diag_embed(torch.stack((1 + ratio.sum(-1), 1 + ratio.sum(-2)), 2).flatten(1, 2))
        joins = torch.diag_embed(chains.nodes[:, 1:].to(ratio.dtype))
        links = torch.stack((ratio, joins), 2).flatten(1, 2)
        # Keep blocks positive definite: rounding errors are relative to the original diagonal.
        own = own * (1 + 2.0**-50)
        self.blocks: list[tuple[Tensor, Tensor]] = []
        for block, link in zip(own.unbind(1), links.unbind(1), strict=True):
            if self.blocks:
                block = block - self.blocks[-1][1].mT @ self.blocks[-1][1]
            lower = cholesky_ex(block)[0]
            self.blocks.append((lower, solve_triangular(lower, link, upper=False)))

    def solve(self, tails: Tensor, heads: Tensor) -> tuple[Tensor, ...]:
        """Solve for multipliers of tails and heads, shaped like the sides ``(B, n-1, m, k)``."""
        sides = torch.stack((tails, heads), 2).flatten(1, 2).unbind(1)
        halves: list[Tensor] = []
        for k, (lower, _) in enumerate(self.blocks):
            side = sides[k] - self.blocks[k - 1][1].mT @ halves[-1] if k else sides[k]
            halves.append(solve_triangular(lower, side, upper=False))
        found: list[Tensor] = []
        for (lower, across), half in zip(reversed(self.blocks), reversed(halves), strict=True):
            side = half - across @ found[-1] if found else half
            found.append(solve_triangular(lower.mT, side, upper=True))
        return torch.stack(found[::-1], 1).unflatten(1, (-1, 2)).unbind(2)


def paths(flow: Tensor, slots: int) -> tuple[Tensor, Tensor]:
    """Decompose pairwise marginals into a mixture of tag sequences.

    The mixture partitions the unit interval. At each step, the interval of a tag is cut in
    proportion to its flows to the next tags, by which the pieces are then sorted. A tag with ``k``
    outgoing arcs needs ``k - 1`` cuts, so there are hardly more sequences than used arcs.

    Args:
        flow: ``(B, n-1, m, m)``; entries up to ``POSITIVE`` are ignored.
        slots: largest number of sequences; those with the least weight are dropped.

    Returns:
        Tags ``(B, slots, n)`` and weights ``(B, slots)``, which are zero in unused slots.
    """
    m = flow.size(-1)
    used = torch.where(flow > POSITIVE, flow, 0)
    there = torch.arange(slots, device=flow.device)
    last = there.clamp(max=m - 1).expand(flow.size(0), -1)
    weights = torch.where(there < m, used[:, 0].sum(-1).gather(1, last), 0)
    tags = last.unsqueeze(-1)
    for i in range(flow.size(1)):
        weights = weights / weights.sum(-1, keepdim=True)
        last = tags[..., -1].contiguous()
        mass = (
            weights.unsqueeze(1)
            @ (last.unsqueeze(-1) == torch.arange(m, device=flow.device)).to(weights.dtype)
        ).squeeze(1)
        before, size = (prefix_sums(mass) - mass).gather(1, last), mass.gather(1, last)
        ends = last + _share(prefix_sums(weights) - before, size)
        row = used[:, i].sum(-1, keepdim=True)
        cuts = torch.arange(m, device=flow.device).unsqueeze(-1)
        cuts = (cuts + _share(prefix_sums(used[:, i]), row)).flatten(1)
        every = torch.cat((ends, cuts), -1).sort(-1).values
        width = every.diff(dim=-1, prepend=torch.zeros_like(every[:, :1]))
        middle = every - width / 2
        old = torch.searchsorted(ends, middle).clamp(max=slots - 1)
        arc = torch.searchsorted(cuts, middle).clamp(max=m * m - 1)
        meets = last.gather(1, old) == arc // m
        width = torch.where(meets, width * mass.gather(1, arc // m), 0)
        chosen = torch.where(width > POSITIVE / 10, width, 0).topk(slots).indices
        after = arc.gather(1, chosen) % m
        # Sorted by the next tag and, within one, by position, which keeps cuts aligned.
        order = (after * every.size(-1) + chosen).argsort(-1)
        chosen, after = chosen.gather(1, order), after.gather(1, order)
        weights = width.gather(1, chosen)
        weights = torch.where(weights > POSITIVE / 10, weights, 0)
        history = old.gather(1, chosen).unsqueeze(-1).expand(-1, -1, i + 1)
        tags = torch.cat((tags.gather(1, history), after.unsqueeze(-1)), -1)
    return tags, weights / weights.sum(-1, keepdim=True)


def _share(part: Tensor, whole: Tensor) -> Tensor:
    """Return ``part / whole`` clamped to [0, 1], and one where ``whole`` is not positive."""
    return torch.where(whole > 0, part / whole, 1).clamp(0, 1)
