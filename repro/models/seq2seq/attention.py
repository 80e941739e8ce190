"""Global attention with bilinear scores and any mapping from scores to weights."""

import torch
from torch import Tensor, nn

from repro.mappings import ProbabilityMap


class GlobalAttention(nn.Module):
    r"""Attend to a memory with a query.

    .. math:: z_j = s^\top W h_j, \quad \pi = \mathrm{mapping}(z), \quad c = \sum_j \pi_j h_j

    References:
        Peters et al. (2019), §2, Eq. 1; Luong et al. (2015), "general".
    """

    def __init__(self, query_size: int, memory_size: int, mapping: ProbabilityMap) -> None:
        super().__init__()
        self.key = nn.Linear(memory_size, query_size, bias=False)
        self.mapping = mapping

    def keys(self, memory: Tensor) -> Tensor:
        """``W h_j`` for every position; computed once for a sentence, used at every step."""
        return self.key(memory)

    def forward(
        self, query: Tensor, keys: Tensor, memory: Tensor, mask: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the context and the weights.

        Args:
            query: shape ``(batch, query)``.
            keys: ``keys(memory)``, shape ``(batch, source, query)``.
            memory: shape ``(batch, source, memory)``.
            mask: shape ``(batch, source)``, true at real positions.

        Returns:
            Context ``(batch, memory)`` and weights ``(batch, source)``; the weights sum to one.
        """
        scores = torch.bmm(keys, query.unsqueeze(-1)).squeeze(-1)
        weights = self.mapping(scores, mask=mask)
        context = torch.bmm(weights.unsqueeze(1), memory).squeeze(1)
        return context, weights
