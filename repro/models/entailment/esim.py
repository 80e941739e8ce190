"""ESIM: enhanced sequential inference with any alignment of the two sentences."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from repro.data.nli import NliBatch
from repro.models.entailment.alignment import Aligner, Alignment
from repro.models.entailment.recurrence import (
    BidirectionalLstm,
    initialise,
    length_mask,
    word_embedding,
)
from repro.models.layers import Dropout


@dataclass
class AlignedLabels:
    """Output of the model for a batch.

    Attributes:
        logits: scores of the labels, shape ``(B, labels)``.
        alignment: alignment of the words of both sentences.
    """

    logits: Tensor
    alignment: Alignment


class Esim(nn.Module):
    r"""Encode, align, enhance, compose, pool and classify.

    Encoder states ``a_1 … a_m`` of the premise and ``b_1 … b_n`` of the hypothesis have the
    alignment scores ``g_ij = a_i · b_j``. With the aligned averages

    .. math:: \tilde a_i = \sum_j P_{ij} b_j, \qquad \tilde b_j = \sum_i Q_{ji} a_i,

    each word becomes ``[a; ã; a - ã; a ⊙ ã]``, is projected by one layer with ReLU, and runs
    through a second bidirectional LSTM. Averages and maxima of its states over both sentences go
    through one tanh layer to the labels. Both LSTMs are shared by the two sentences. Dropout is
    applied to the word vectors and before the inputs of the second LSTM and of each layer of the
    classifier.

    Args:
        vectors: word vectors, shape ``(vocabulary, dimension)``.
        trainable_vectors: whether they are trained.
        hidden_size: size of each direction, the projection and the classifier.
        dropout: probability.
        aligner: turns scores into the weights ``P`` and ``Q``.
        labels: number of labels.

    References:
        Chen et al. (2017), Enhanced LSTM for natural language inference, §3; Niculae et al.
        (2018), §5.2.
    """

    def __init__(
        self,
        vectors: Tensor,
        trainable_vectors: bool,
        hidden_size: int,
        dropout: float,
        aligner: Aligner,
        labels: int = 3,
    ) -> None:
        super().__init__()
        self.encoder = BidirectionalLstm(vectors.shape[1], hidden_size)
        self.projection = nn.Linear(8 * hidden_size, hidden_size)
        self.composition = BidirectionalLstm(hidden_size, hidden_size)
        self.hidden = nn.Linear(8 * hidden_size, hidden_size)
        self.output = nn.Linear(hidden_size, labels)
        self.dropout = Dropout(dropout)
        self.aligner = aligner
        initialise(self)
        self.embedding = word_embedding(vectors, trainable_vectors)

    def forward(self, batch: NliBatch) -> AlignedLabels:
        """Score the labels of every pair."""
        premise = self._encode(batch.premise, batch.premise_lengths)
        hypothesis = self._encode(batch.hypothesis, batch.hypothesis_lengths)
        scores = torch.bmm(premise, hypothesis.transpose(1, 2))
        lengths = torch.stack([batch.premise_lengths, batch.hypothesis_lengths], dim=1)
        alignment: Alignment = self.aligner(scores, lengths)
        aligned_premise = torch.bmm(alignment.premise_to_hypothesis, hypothesis)
        aligned_hypothesis = torch.bmm(alignment.hypothesis_to_premise, premise)
        pooled = [
            *self._compose(premise, aligned_premise, batch.premise_lengths),
            *self._compose(hypothesis, aligned_hypothesis, batch.hypothesis_lengths),
        ]
        hidden = torch.tanh(self.hidden(self.dropout(torch.cat(pooled, dim=-1))))
        return AlignedLabels(self.output(self.dropout(hidden)), alignment)

    def _encode(self, ids: Tensor, lengths: Tensor) -> Tensor:
        states: Tensor = self.encoder(self.dropout(self.embedding(ids)), lengths)
        return states

    def _compose(self, states: Tensor, aligned: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Average and maximum of the composed states over the real words."""
        enhanced = torch.cat([states, aligned, states - aligned, states * aligned], dim=-1)
        projected = self.dropout(torch.relu(self.projection(enhanced)))
        composed = self.composition(projected, lengths)
        absent = ~length_mask(lengths, states.shape[1]).unsqueeze(-1)
        average = composed.sum(1) / lengths.unsqueeze(1)
        return average, composed.masked_fill(absent, -torch.inf).amax(1)
