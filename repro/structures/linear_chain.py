"""Tag sequences: the structures of a linear chain."""

import numpy as np
import torch
from torch import Tensor

from repro.structures.forward_backward import sequence_log_partition, sequence_marginals
from repro.structures.kernels.codes import SEQUENCE
from repro.structures.structure import (
    NO_TRANSITIONS,
    Inputs,
    Problem,
    Structure,
    checked_lengths,
    checked_unary,
    gathered,
)


class LinearChain(Structure):
    """One of ``m`` tags for each of ``n`` items (Niculae et al. 2018, §2.2, "Sequence tagging").

    Unary parts ``(B, n, m)``: item ``i`` has tag ``a``. Additional parts ``(n - 1, m, m)``, scored
    for all instances alike, or ``(B, n - 1, m, m)``: item ``i`` has tag ``a``, the next has ``b``.
    Vertices ``(B, n)`` hold the tags. The oracle is Viterbi's algorithm.
    """

    def checked(self, inputs: Inputs) -> Problem:
        """Check scores ``(B, n, m)`` and transitions; see the base class."""
        unary, additional, lengths, mask = inputs
        scores = checked_unary(unary, mask, "B n m")
        batch, n, m = scores.shape
        items = checked_lengths(lengths, batch, (n,))
        # The number of tags up to the last that is allowed anywhere; all if none is.
        tags = torch.zeros(batch, 1, dtype=torch.int64)
        if m > 0:
            allowed = (scores.numpy() != -np.inf).any(1)
            tags = torch.from_numpy(m - allowed[:, ::-1].argmax(1)).unsqueeze(1)
        transitions, shape = NO_TRANSITIONS, (max(n - 1, 0), m, m)
        if additional is not None:
            if additional.shape not in (shape, (batch, *shape)):
                raise ValueError(
                    f"transitions {shape} or {(batch, *shape)} expected, got "
                    f"{tuple(additional.shape)}"
                )
            if additional.dtype != unary.dtype:
                raise ValueError(f"transitions are {additional.dtype}, unary scores {unary.dtype}")
            if additional.numel():
                given = additional.detach().to("cpu", torch.float64)
                transitions = given.reshape(-1, *shape).contiguous()
        return Problem(SEQUENCE, scores, transitions, torch.cat([items, tags], dim=1), n)

    def vertices(self, stored: Tensor, problem: Problem) -> Tensor:
        """Stored as they are."""
        return stored.to(torch.int64)

    def score(self, vertex: Tensor, unary: Tensor, additional: Tensor | None = None) -> Tensor:
        """Sum of the scores of tags and transitions; see the base class."""
        total = gathered(unary, vertex)
        if additional is None or vertex.size(-1) < 2:
            return total
        batch, items = _grid(vertex)
        between = additional if additional.dim() == 4 else additional.unsqueeze(0)
        batch = batch if additional.dim() == 4 else torch.zeros_like(batch)
        before, after = vertex[..., :-1], vertex[..., 1:]
        chosen = between[batch, items, before.clamp(min=0), after.clamp(min=0)]
        return total + torch.where(after >= 0, chosen, 0.0).sum(-1)

    def mixture(self, vertices: Tensor, weights: Tensor, like: Tensor) -> Tensor:
        """Marginals ``(B, n - 1, m, m)`` of transitions of weighted sequences ``(B, K, n)``."""
        shape = (vertices.size(0), *like.shape[-3:])
        marginals = weights.new_zeros(shape)
        if vertices.size(-1) < 2:
            return marginals
        batch, items = _grid(vertices)
        before, after = vertices[..., :-1], vertices[..., 1:]
        shares = torch.where(after >= 0, weights.unsqueeze(-1), 0.0)
        places = (batch, items, before.clamp(min=0), after.clamp(min=0))
        return marginals.index_put(places, shares, accumulate=True)

    def log_partition(
        self, unary: Tensor, additional: Tensor | None = None, lengths: Tensor | None = None
    ) -> Tensor:
        """Compute the log-partition function by the forward algorithm; see the base class."""
        return sequence_log_partition(unary, additional, lengths)

    def marginals(
        self, unary: Tensor, additional: Tensor | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Compute the marginals by the forward-backward algorithm; see the base class."""
        return sequence_marginals(unary, additional, lengths)

    @staticmethod
    def with_ends(
        unary: Tensor,
        start: Tensor | None = None,
        end: Tensor | None = None,
        lengths: Tensor | None = None,
    ) -> Tensor:
        """Add scores of the first and of the last tag, ``(m,)`` or ``(B, m)``, to unary scores.

        The indicator of a first tag is a unary part already, so that its score can be added there:
        the solutions are the same.
        """
        batch, n, _ = unary.shape
        items = torch.arange(n, device=unary.device)
        last = items.new_full((batch, 1), n) if lengths is None else lengths.view(-1, 1)
        if start is not None:
            unary = unary + (items == 0).view(1, n, 1) * start.view(-1, 1, start.size(-1))
        if end is not None:
            unary = unary + (items == last - 1).unsqueeze(-1) * end.view(-1, 1, end.size(-1))
        return unary


def _grid(vertex: Tensor) -> tuple[Tensor, Tensor]:
    """Indices of the instance and of the transition, to be broadcast."""
    batch = torch.arange(vertex.size(0), device=vertex.device)
    items = torch.arange(vertex.size(-1) - 1, device=vertex.device)
    return batch.view(-1, *[1] * (vertex.dim() - 1)), items
