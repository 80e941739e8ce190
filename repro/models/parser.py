"""Arc-factored dependency parser: a bidirectional LSTM and a score for every arc."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from repro.config.schema.parsing import ParserConfig
from repro.data.vocabulary import Vocabulary
from repro.models.layers import lstm_precision, lstm_states


class ArcScorer(nn.Module):
    r"""Multilayer perceptron that scores every pair of states.

    .. math:: s_{ij} = v^\top \tanh(W_1 h_i + W_2 h_j + b)

    The first layer acts on the concatenation ``[h_i; h_j]``. It is split in two, so that each state
    is multiplied once and not once for every pair.

    References:
        Kiperwasser & Goldberg (2016), §5.
    """

    def __init__(self, state_size: int, hidden_size: int) -> None:
        super().__init__()
        self.head = nn.Linear(state_size, hidden_size)
        self.modifier = nn.Linear(state_size, hidden_size, bias=False)
        self.score = nn.Linear(hidden_size, 1, bias=False)

    def forward(self, states: Tensor) -> Tensor:
        """Score every arc between states ``(batch, n + 1, state_size)``, the root first.

        Returns:
            Shape ``(batch, n + 1, n + 1)``: row head, column modifier. The diagonal, column 0
            and padding have scores too, which decoders must ignore.
        """
        hidden = self.head(states).unsqueeze(2) + self.modifier(states).unsqueeze(1)
        scores: Tensor = self.score(torch.tanh(hidden)).squeeze(-1)
        return scores


class LstmParser(nn.Module):
    """Parser that scores every arc from the LSTM states of its head and its modifier.

    In training, a word that occurs ``f`` times in the training data (``word_frequency``) becomes
    the unknown word with probability ``word_dropout / (word_dropout + f)``.

    References:
        Kiperwasser & Goldberg (2016), §3.2 and §5, without pretrained embeddings.
    """

    word_frequency: Tensor

    def __init__(self, config: ParserConfig, word_frequency: Sequence[int], tags: int) -> None:
        super().__init__()
        self.word_dropout = config.word_dropout
        counts = torch.tensor(word_frequency, dtype=torch.float32)
        self.register_buffer("word_frequency", counts, persistent=False)
        self.words = nn.Embedding(len(word_frequency), config.word_size, padding_idx=Vocabulary.PAD)
        self.tags = nn.Embedding(tags, config.tag_size, padding_idx=Vocabulary.PAD)
        size, out = config.word_size + config.tag_size, config.lstm_size
        self.lstm = nn.LSTM(size, out, config.layers, bidirectional=True, batch_first=True)
        self.arcs = ArcScorer(2 * out, config.arc_size)
        initialize(self)

    def forward(self, words: Tensor, tags: Tensor, lengths: Tensor) -> Tensor:
        """Score every arc of a batch: ``(batch, n + 1, n + 1)``, row head, column modifier.

        Ids of words and tags are ``(batch, n + 1)``; position 0 is the root, and ``lengths`` count
        words only.
        """
        if self.training:
            words = self.drop_words(words)
        embedded = torch.cat([self.words(words), self.tags(tags)], dim=-1)
        with lstm_precision(words.device):
            states, _ = lstm_states(self.lstm, embedded, lengths + 1)
        scores: Tensor = self.arcs(states)
        return scores

    def drop_words(self, words: Tensor) -> Tensor:
        """Replace words by the unknown word at random, rarer words more often."""
        # Ids up to EOS are special symbols, which are kept.
        rate = self.word_dropout / (self.word_dropout + self.word_frequency[words] + 1e-30)
        rate = rate * (words > Vocabulary.EOS)
        dropped = torch.rand(words.shape, device=words.device) < rate
        return words.masked_fill(dropped, Vocabulary.UNK)


def initialize(model: LstmParser) -> None:
    """Draw unit-variance embeddings and Glorot-uniform weights; zero biases, but 1 at forget gates.

    Every gate of the LSTM is drawn as a matrix of its own, and the layers of the arc scorer have
    the gain of tanh. Scores must vary from the start: if they are small compared with its cost, the
    structured hinge loss keeps pushing down whichever arc is best, and the scores stay flat.
    """
    for module in (model.words, model.tags):
        nn.init.normal_(module.weight)
        module.weight.data[Vocabulary.PAD].zero_()
    for name, parameter in model.lstm.named_parameters():
        gates = parameter.data.chunk(4)  # in PyTorch's order: input, forget, cell, output
        for gate in gates:
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(gate)
            else:
                nn.init.zeros_(gate)
        if name.startswith("bias_ih"):
            nn.init.ones_(gates[1])
    for layer in (model.arcs.head, model.arcs.modifier, model.arcs.score):
        nn.init.xavier_uniform_(layer.weight, nn.init.calculate_gain("tanh"))
    nn.init.zeros_(model.arcs.head.bias)
