"""One score for every pair of head and modifier."""

import torch
from torch import Tensor, nn


class ArcScorer(nn.Module):
    r"""A layer of hidden units over pairs of states.

    .. math:: s_{ij} = v^\top \tanh(W_1 h_i + W_2 h_j + b)

    This is the multilayer perceptron on the joined states ``[h_i; h_j]`` with its first layer
    split, so that each state is multiplied once and not once for every pair.

    Args:
        state_size: size of the states.
        hidden_size: size of the hidden layer.

    References:
        Kiperwasser & Goldberg (2016), §5.
    """

    def __init__(self, state_size: int, hidden_size: int) -> None:
        super().__init__()
        self.head = nn.Linear(state_size, hidden_size)
        self.modifier = nn.Linear(state_size, hidden_size, bias=False)
        self.score = nn.Linear(hidden_size, 1, bias=False)

    def forward(self, states: Tensor) -> Tensor:
        """Score every arc.

        Args:
            states: shape ``(batch, n + 1, state_size)``; the root first.

        Returns:
            Shape ``(batch, n + 1, n + 1)``: row head, column modifier. The diagonal, column 0
            and padding hold scores as well; whoever searches for a tree leaves them out.
        """
        hidden = self.head(states).unsqueeze(2) + self.modifier(states).unsqueeze(1)
        scores: Tensor = self.score(torch.tanh(hidden)).squeeze(-1)
        return scores
