"""The whole sequence-to-sequence model: teacher forcing for training, steps for decoding."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from repro.data.vocabulary import Vocabulary
from repro.decoding.protocol import StepOutput
from repro.mappings import ProbabilityMap
from repro.models.layers import Dropout, length_mask
from repro.models.seq2seq.attention import AttentionNormalizer, GlobalAttention
from repro.models.seq2seq.decoder import DecoderState, InputFeedingDecoder
from repro.models.seq2seq.encoder import LstmEncoder
from repro.models.seq2seq.fertility import Fertility


@dataclass
class TeacherForced:
    """Scores and attention of a batch whose previous symbols are the gold ones."""

    scores: Tensor  # before the output mapping, (batch, target, vocabulary)
    attention: Tensor  # (batch, target, source)


class Seq2Seq(nn.Module):
    """LSTM encoder, input-feeding LSTM decoder, any attention and output mapping.

    Args:
        source_vocabulary: number of source symbols.
        target_vocabulary: number of target symbols.
        embedding_size: size of source and target symbols.
        hidden_size: size of every state; even where the encoder reads in both directions.
        layers: number of layers of the encoder and of the decoder.
        dropout: probability, on embeddings, between layers and on the attentional output.
        normalizer: turns attention scores into weights.
        output_mapping: turns output scores into probabilities; the loss trains the scores.
        coverage_vector: attention scores see the cumulative attention through a learned vector.
        fertility: bounds of the cumulative attention, for a bounded normalizer.
        bidirectional: whether the encoder reads in both directions.

    References:
        Peters et al. (2019), §2; Malaviya et al. (2018), §2 to §4.
    """

    def __init__(
        self,
        source_vocabulary: int,
        target_vocabulary: int,
        embedding_size: int,
        hidden_size: int,
        layers: int,
        dropout: float,
        normalizer: AttentionNormalizer,
        output_mapping: ProbabilityMap,
        coverage_vector: bool = False,
        fertility: Fertility | None = None,
        bidirectional: bool = True,
    ) -> None:
        super().__init__()
        self.encoder = LstmEncoder(
            source_vocabulary, embedding_size, hidden_size, layers, dropout, bidirectional
        )
        attention = GlobalAttention(hidden_size, hidden_size, normalizer, coverage_vector)
        self.decoder = InputFeedingDecoder(embedding_size, hidden_size, layers, dropout, attention)
        self.embedding = nn.Embedding(target_vocabulary, embedding_size, padding_idx=0)
        self.dropout = Dropout(dropout)
        self.scores = nn.Linear(hidden_size, target_vocabulary)
        self.output_mapping = output_mapping
        self.fertility = fertility

    def forward(self, source: Tensor, source_lengths: Tensor, target: Tensor) -> TeacherForced:
        """Score every target symbol given the gold symbols before it.

        Args:
            source: shape ``(batch, source)``.
            source_lengths: shape ``(batch,)``.
            target: gold symbols ending in ``</s>``, padded, shape ``(batch, target)``.
        """
        outputs, attention = self.outputs(source, source_lengths, target)
        return TeacherForced(self.scores(outputs), attention)

    def outputs(
        self, source: Tensor, source_lengths: Tensor, target: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return what :meth:`forward` scores, ``(batch, target, hidden)``, and the attention."""
        state = self.start(source, length_mask(source_lengths, source.shape[1]))
        begin = target.new_full((target.shape[0], 1), Vocabulary.BOS)
        previous = torch.cat([begin, target[:, :-1]], dim=1)
        decoded = self.decoder(state, self.dropout(self.embedding(previous)))
        return decoded.outputs, decoded.attention

    def start(self, source: Tensor, source_mask: Tensor) -> DecoderState:
        """Encode, and return the decoder's initial state (one row for each sentence)."""
        fertility = None if self.fertility is None else self.fertility(source, source_mask)
        encoding = self.encoder(source, source_mask.sum(1))
        return self.decoder.start(encoding, source_mask, fertility)

    def step(self, state: DecoderState, previous: Tensor) -> StepOutput[DecoderState]:
        """Return probabilities of the next symbol; see ``repro.decoding.protocol.StepModel``."""
        embedded = self.dropout(self.embedding(previous))
        decoded = self.decoder(state, embedded.unsqueeze(1))
        probs = self.output_mapping(self.scores(decoded.outputs.squeeze(1))).float()
        return StepOutput(probs, decoded.attention.squeeze(1), decoded.state)
