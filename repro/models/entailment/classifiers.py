"""Classifiers of sentence pairs: attention to the words of the premise, and ESIM."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from repro.config.schema.nli import PairModelConfig
from repro.data.batching import NliBatch
from repro.data.vocabulary import Vocabulary
from repro.mappings import ProbabilityMap
from repro.models.entailment.alignment import Aligner, Alignment
from repro.models.layers import BidirectionalLstm, Dropout, gru_states, length_mask


@dataclass
class AttendedLabels:
    """Output of :class:`AttentionClassifier` for a batch."""

    logits: Tensor  # scores of the labels, (B, labels)
    attention: Tensor  # weights of the premise words, (B, m), zero at padding


class AttentionClassifier(nn.Module):
    r"""Classifier with two GRUs, attention to the premise given the hypothesis, and a tanh layer.

    Word vectors are projected to the size of the states. The GRU of the hypothesis starts in the
    last state of the GRU of the premise. With states ``h_1 … h_m`` of the premise and the last
    state ``h_N`` of the hypothesis,

    .. math::
        z_t = v^\top \tanh(W^{(pm)} h_t + W^{(hm)} h_N + b^{(m)}), \quad p = \mathrm{mapping}(z),

    .. math::
        r = \sum_t p_t h_t, \quad u = \tanh(W^{(pu)} r + W^{(hu)} h_N + b^{(u)}),

    and the logits are a linear function of ``u``. Dropout is applied to the projected words and
    to ``u``.

    Word ``vectors`` are ``(vocabulary, dimension)``; the paper keeps them fixed. ``hidden_size`` is
    that of projected words, states and ``u``.

    References:
        Niculae and Blondel (2017), §4.1 and appendix C.2; Martins and Astudillo (2016), §4.3;
        Rocktäschel et al. (2016).
    """

    def __init__(
        self, vectors: Tensor, config: PairModelConfig, mapping: ProbabilityMap, labels: int
    ) -> None:
        super().__init__()
        hidden_size = config.hidden_size
        self.projection = nn.Linear(vectors.shape[1], hidden_size, bias=False)
        self.premise_gru = nn.GRU(hidden_size, hidden_size, batch_first=True)
        self.hypothesis_gru = nn.GRU(hidden_size, hidden_size, batch_first=True)
        self.key = nn.Linear(hidden_size, hidden_size, bias=False)
        self.query = nn.Linear(hidden_size, hidden_size)
        self.score = nn.Linear(hidden_size, 1, bias=False)
        self.attended = nn.Linear(hidden_size, hidden_size, bias=False)
        self.combined = nn.Linear(hidden_size, hidden_size)
        self.output = nn.Linear(hidden_size, labels)
        self.dropout = Dropout(config.dropout)
        self.mapping = mapping
        initialize(self)
        self.embedding = word_embedding(vectors, config.trainable_vectors)

    def forward(self, batch: NliBatch) -> AttendedLabels:
        """Score the labels of every pair."""
        premise = gru_states(self.premise_gru, self._words(batch.premise))
        first = last_states(premise, batch.premise_lengths).unsqueeze(0)
        hypothesis = gru_states(self.hypothesis_gru, self._words(batch.hypothesis), first)
        last = last_states(hypothesis, batch.hypothesis_lengths)
        hidden = torch.tanh(self.key(premise) + self.query(last).unsqueeze(1))
        mask = length_mask(batch.premise_lengths, premise.shape[1])
        attention = self.mapping(self.score(hidden).squeeze(-1), mask=mask)
        context = torch.bmm(attention.unsqueeze(1), premise).squeeze(1)
        combined = torch.tanh(self.attended(context) + self.combined(last))
        return AttendedLabels(self.output(self.dropout(combined)), attention)

    def _words(self, ids: Tensor) -> Tensor:
        return self.dropout(self.projection(self.embedding(ids)))


@dataclass
class AlignedLabels:
    """Output of :class:`Esim` for a batch."""

    logits: Tensor  # scores of the labels, (B, labels)
    alignment: Alignment


class Esim(nn.Module):
    r"""Classifier ESIM: encode, align, enhance, compose, pool and classify.

    Alignment scores are the inner products ``g_ij = a_i · b_j`` of the encoder states
    ``a_1 … a_m`` of the premise and ``b_1 … b_n`` of the hypothesis. With the aligned averages

    .. math:: \tilde a_i = \sum_j P_{ij} b_j, \qquad \tilde b_j = \sum_i Q_{ji} a_i,

    each word becomes ``[a; ã; a - ã; a ⊙ ã]``, is projected by one layer with ReLU, and runs
    through a second bidirectional LSTM. Averages and maxima of its states over both sentences go
    through one tanh layer to the labels. Both LSTMs are shared by the two sentences. Dropout is
    applied to the word vectors and to the inputs of the second LSTM and of each layer of the
    classifier.

    Word ``vectors`` are ``(vocabulary, dimension)``; ``hidden_size`` is that of each direction, the
    projection and the classifier; the ``aligner`` turns scores into ``P`` and ``Q``.

    References:
        Chen et al. (2017), Enhanced LSTM for natural language inference, §3; Niculae et al.
        (2018), §5.2.
    """

    def __init__(
        self, vectors: Tensor, config: PairModelConfig, aligner: Aligner, labels: int
    ) -> None:
        super().__init__()
        hidden_size = config.hidden_size
        self.encoder = BidirectionalLstm(vectors.shape[1], hidden_size)
        self.projection = nn.Linear(8 * hidden_size, hidden_size)
        self.composition = BidirectionalLstm(hidden_size, hidden_size)
        self.hidden = nn.Linear(8 * hidden_size, hidden_size)
        self.output = nn.Linear(hidden_size, labels)
        self.dropout = Dropout(config.dropout)
        self.aligner = aligner
        initialize(self)
        self.embedding = word_embedding(vectors, config.trainable_vectors)

    def forward(self, batch: NliBatch) -> AlignedLabels:
        """Score the labels of every pair."""
        premise = self._encode(batch.premise, batch.premise_lengths)
        hypothesis = self._encode(batch.hypothesis, batch.hypothesis_lengths)
        scores = torch.bmm(premise, hypothesis.transpose(1, 2))
        lengths = torch.stack([batch.premise_lengths, batch.hypothesis_lengths], dim=1)
        alignment: Alignment = self.aligner(scores, lengths, batch.host_lengths)
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
        """Return the average and the maximum of the composed states over the real words."""
        enhanced = torch.cat([states, aligned, states - aligned, states * aligned], dim=-1)
        projected = self.dropout(torch.relu(self.projection(enhanced)))
        composed = self.composition(projected, lengths)
        absent = ~length_mask(lengths, states.shape[1]).unsqueeze(-1)
        average = composed.sum(1) / lengths.unsqueeze(1)
        return average, composed.masked_fill(absent, -torch.inf).amax(1)


def word_embedding(matrix: Tensor, trainable: bool) -> nn.Embedding:
    """Create an embedding from the rows of ``matrix``, ``(vocabulary, dimension)``.

    The padding row gets no gradient. Frozen embeddings are stored with the weights, too.
    """
    return nn.Embedding.from_pretrained(
        matrix.clone(), freeze=not trainable, padding_idx=Vocabulary.PAD
    )


def last_states(states: Tensor, lengths: Tensor) -> Tensor:
    """Return the states ``(B, h)`` of the last real words from ``(B, n, h)``; lengths are >= 1."""
    last = torch.arange(states.shape[1], device=states.device) == lengths.unsqueeze(1) - 1
    # A sum over one position, as the gradient of indexing would need sorting on CUDA.
    return (states * last.unsqueeze(-1)).sum(1)


def initialize(model: nn.Module) -> None:
    """Draw Glorot-uniform input and orthogonal recurrent matrices, gate by gate; zero the biases.

    Only linear and recurrent layers change: transition scores, for example, keep their values.
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
                draw = nn.init.orthogonal_ if "weight_hh" in name else nn.init.xavier_uniform_
                for gate in parameter.data.split(module.hidden_size):
                    draw(gate)
