"""Classifier of sentence pairs that attends from the hypothesis to the words of the premise."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from repro.data.nli import NliBatch
from repro.mappings import ProbabilityMap
from repro.models.entailment.recurrence import initialise, last_states, length_mask, word_embedding
from repro.models.layers import Dropout


@dataclass
class AttendedLabels:
    """Output of the classifier for a batch.

    Attributes:
        logits: scores of the labels, shape ``(B, labels)``.
        attention: weights of the premise's words, shape ``(B, m)``; zero at padding.
    """

    logits: Tensor
    attention: Tensor


class AttentionClassifier(nn.Module):
    r"""Two GRUs, attention to the premise given the hypothesis, and a tanh combination.

    Word vectors are projected to the size of the states. The hypothesis' GRU starts in the last
    state of the premise's. With ``h_1 … h_m`` the states of the premise and ``h_N`` the last state
    of the hypothesis,

    .. math::
        z_t = v^\top \tanh(W^{(pm)} h_t + W^{(hm)} h_N + b^{(m)}), \quad p = \mathrm{mapping}(z),

    .. math::
        r = \sum_t p_t h_t, \quad u = \tanh(W^{(pu)} r + W^{(hu)} h_N + b^{(u)}),

    and the logits are a linear function of ``u``. Dropout is applied to the projected words and
    to ``u``: inputs and outputs of the network.

    Args:
        vectors: word vectors, shape ``(vocabulary, dimension)``.
        trainable_vectors: whether they are trained; the paper keeps them fixed.
        hidden_size: size of projected words, states and ``u``.
        dropout: probability.
        mapping: turns scores into attention weights.
        labels: number of labels.

    References:
        Niculae and Blondel (2017), §4.1 and appendix C.2; Martins and Astudillo (2016), §4.3;
        Rocktäschel et al. (2016).
    """

    def __init__(
        self,
        vectors: Tensor,
        trainable_vectors: bool,
        hidden_size: int,
        dropout: float,
        mapping: ProbabilityMap,
        labels: int = 3,
    ) -> None:
        super().__init__()
        self.projection = nn.Linear(vectors.shape[1], hidden_size, bias=False)
        self.premise_gru = nn.GRU(hidden_size, hidden_size, batch_first=True)
        self.hypothesis_gru = nn.GRU(hidden_size, hidden_size, batch_first=True)
        self.key = nn.Linear(hidden_size, hidden_size, bias=False)
        self.query = nn.Linear(hidden_size, hidden_size)
        self.score = nn.Linear(hidden_size, 1, bias=False)
        self.attended = nn.Linear(hidden_size, hidden_size, bias=False)
        self.combined = nn.Linear(hidden_size, hidden_size)
        self.output = nn.Linear(hidden_size, labels)
        self.dropout = Dropout(dropout)
        self.mapping = mapping
        initialise(self)
        self.embedding = word_embedding(vectors, trainable_vectors)

    def forward(self, batch: NliBatch) -> AttendedLabels:
        """Score the labels of every pair."""
        premise, _ = self.premise_gru(self._words(batch.premise))
        first = last_states(premise, batch.premise_lengths).unsqueeze(0)
        hypothesis, _ = self.hypothesis_gru(self._words(batch.hypothesis), first)
        last = last_states(hypothesis, batch.hypothesis_lengths)
        hidden = torch.tanh(self.key(premise) + self.query(last).unsqueeze(1))
        mask = length_mask(batch.premise_lengths, premise.shape[1])
        attention = self.mapping(self.score(hidden).squeeze(-1), mask=mask)
        context = torch.bmm(attention.unsqueeze(1), premise).squeeze(1)
        combined = torch.tanh(self.attended(context) + self.combined(last))
        return AttendedLabels(self.output(self.dropout(combined)), attention)

    def _words(self, ids: Tensor) -> Tensor:
        return self.dropout(self.projection(self.embedding(ids)))
