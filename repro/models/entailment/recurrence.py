"""Word vectors and recurrent layers over padded batches, without packing."""

import torch
from torch import Tensor, nn

from repro.data.vocabulary import Vocabulary
from repro.models.layers import lstm_precision


def length_mask(lengths: Tensor, size: int) -> Tensor:
    """Bool, shape ``(B, size)``; true at the first ``lengths`` places of each row."""
    return torch.arange(size, device=lengths.device) < lengths.unsqueeze(1)


def word_embedding(matrix: Tensor, trainable: bool) -> nn.Embedding:
    """Look up the rows of ``matrix``, ``(vocabulary, dimension)``; padding stays zero.

    Where it is not trainable, it is stored with the model all the same.
    """
    return nn.Embedding.from_pretrained(
        matrix.clone(), freeze=not trainable, padding_idx=Vocabulary.PAD
    )


def last_states(states: Tensor, lengths: Tensor) -> Tensor:
    """The state of each row's last real word.

    Args:
        states: shape ``(B, n, h)``.
        lengths: shape ``(B,)``, each at least 1.

    Returns:
        Shape ``(B, h)``.
    """
    index = (lengths - 1).view(-1, 1, 1).expand(-1, 1, states.shape[-1])
    return states.gather(1, index).squeeze(1)


class BidirectionalLstm(nn.Module):
    """One LSTM from left to right and one from right to left, the latter from the last real word.

    Rows are reversed within their lengths by indexing, so that a batch needs no packing and no
    value on the host.

    Args:
        input_size: size of the inputs.
        hidden_size: size of each direction.
    """

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.rightward = nn.LSTM(input_size, hidden_size, batch_first=True)
        self.leftward = nn.LSTM(input_size, hidden_size, batch_first=True)

    def forward(self, inputs: Tensor, lengths: Tensor) -> Tensor:
        """Return the states of both directions, zero at padding.

        Args:
            inputs: shape ``(B, n, input)``.
            lengths: shape ``(B,)``.

        Returns:
            Shape ``(B, n, 2 hidden)``.
        """
        mask = length_mask(lengths, inputs.shape[1])
        with lstm_precision(inputs.device):
            inputs = inputs.type_as(self.rightward.all_weights[0][0])
            rightward, _ = self.rightward(inputs)
            leftward, _ = self.leftward(_reverse(inputs, lengths, mask))
        both = torch.cat([rightward, _reverse(leftward, lengths, mask)], dim=-1)
        return both * mask.unsqueeze(-1)


def initialise(model: nn.Module) -> None:
    """Glorot-uniform matrices, an orthogonal recurrent matrix for each gate, and zero biases.

    Embeddings and modules that keep parameters of their own, such as transition scores, stay as
    they are.
    """
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.RNNBase):
            for name, parameter in module.named_parameters():
                if name.startswith("bias"):
                    nn.init.zeros_(parameter)
                    continue
                for gate in parameter.data.split(module.hidden_size):
                    if name.startswith("weight_hh"):
                        nn.init.orthogonal_(gate)
                    else:
                        nn.init.xavier_uniform_(gate)


def _reverse(inputs: Tensor, lengths: Tensor, mask: Tensor) -> Tensor:
    """Reverse the real places of each row; padding stays where it is."""
    places = torch.arange(inputs.shape[1], device=inputs.device).expand_as(mask)
    index = torch.where(mask, lengths.unsqueeze(1) - 1 - places, places)
    return inputs.gather(1, index.unsqueeze(-1).expand_as(inputs))
