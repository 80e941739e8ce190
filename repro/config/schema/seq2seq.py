"""Sequence-to-sequence models and their search, shared by every task that predicts sequences."""

from dataclasses import dataclass, field

from omegaconf import MISSING

from repro.config.schema.checks import choice, number
from repro.config.schema.groups import DecodingConfig, ModelConfig
from repro.config.schema.loss import FenchelYoungLossConfig
from repro.config.schema.mapping import MappingConfig
from repro.config.schema.run import RunConfig


@dataclass
class SequenceModelConfig(ModelConfig):
    """A model that predicts sequences; ``name`` is its key in a ``MODELS`` of ``repro.models``."""


@dataclass
class Seq2SeqConfig(SequenceModelConfig):
    """An LSTM sequence-to-sequence model with attention and input feeding."""

    embedding_size: int = number("(0, inf)")  # size of the embeddings of source and target symbols
    hidden_size: int = number("(0, inf)", even=True)  # size of every state
    layers: int = number("(0, inf)")  # number of layers of the encoder and of the decoder
    # Dropout probability between layers and on attentional outputs.
    dropout: float = number("[0, 1)")
    # Dropout probability on embeddings, `null` for `dropout`. The papers' programs have none.
    embedding_dropout: float | None = number("[0, 1)", None)
    # Whether the encoder reads in both directions, with half of the units each.
    bidirectional: bool = True
    # Scores of source symbols, `general` (bilinear) or `mlp` (one hidden layer, Malaviya et al.,
    # 2018, footnote 2).
    attention: str = choice(("general", "mlp"), "general")
    # Whether the attentional output has a bias, as Peters et al. (2019) print; the papers' programs
    # have none.
    output_bias: bool = True
    # Parameters are drawn uniformly from `[-init_range, init_range]`. A sum over `n` inputs has
    # `init_range * sqrt(n / 3)` times their standard deviation: a small model needs a larger value
    # than 0.1, which suits sizes of 500.
    init_range: float = number("(0, inf)", 0.1)


@dataclass
class FertilityConfig:
    """Upper bound on the total attention to a source word; read by bounded mappings only.

    The defaults are those of Malaviya et al. (2018), §4, and of their released code.
    """

    # `constant`; `guided`: the largest number of links that an aligner found for the word in the
    # training data; `predicted`: the expectation under a tagger; `actual`: the links of the word in
    # the sentence pair itself, in test data as well.
    strategy: str = choice(("constant", "guided", "predicted", "actual"), "predicted")
    value: float = number("(0, inf)", 2.0)  # fertility of every word (constant)
    margin: float = number("[0, inf)", 1.0)  # added to predicted and to actual fertilities
    # Links of the aligner to count, `forward` (from source to target) or `grow-diag-final-and`.
    links: str = choice(("forward", "grow-diag-final-and"), "forward")
    least: int = number("[0, inf)", 1)  # fertility of a word with fewer links (predicted, actual)
    # For the strategy `predicted`: `aligned` trains the model with the actual fertilities of each
    # sentence, and uses the tagger for new text only; `expected` uses the tagger in training as
    # well.
    training_bounds: str = choice(("aligned", "expected"), "aligned")
    # The tagger predicts `least .. least + classes - 1`; more counts as the last.
    classes: int = number("(0, inf)", 10)
    # Weight of the fertility `least` in the loss of the tagger; that of every other is 1.
    first_class_weight: float = number("(0, inf)", 0.5)
    embedding_size: int = number("(0, inf)", 256)  # size of the tagger's embeddings
    # Size of the tagger's states, both directions together.
    hidden_size: int = number("(0, inf)", 512, even=True)
    layers: int = number("(0, inf)", 2)  # number of layers of the tagger
    dropout: float = number("[0, 1)", 0.2)  # dropout of the tagger, between its layers
    epochs: int = number("(0, inf)", 10)  # epochs of training the tagger, before the model
    batch_size: int = number("(0, inf)", 64)  # batch size of the tagger's training, in sentences
    # Learning rate of the tagger's training, with Adam.
    learning_rate: float = number("(0, inf)", 0.001)


@dataclass
class TranslatorConfig(Seq2SeqConfig):
    """A model of whole sentences, whose attention may depend on the attention so far."""

    # Attention scores depend on the cumulative attention, by a learned vector.
    coverage_vector: bool = False
    # What the vector is multiplied with in bilinear scores: `query` as printed by Malaviya et al.
    # (2018), §5; `memory` as in their released program.
    coverage_of: str = choice(("query", "memory"), "query")
    # Bounds on the cumulative attention.
    fertility: FertilityConfig = field(default_factory=FertilityConfig)


@dataclass
class SearchConfig(DecodingConfig):
    """Beam search; ``max_length`` counts the end symbol, ``batch_size`` sentences."""

    beam_size: int = number("[1, 1000]")
    max_length: int = number("(0, inf)")
    batch_size: int = number("(0, inf)")


@dataclass
class BeamConfig(SearchConfig):
    """Beam search and the enumeration of complete sets of up to ``max_hypotheses``."""

    max_hypotheses: int = number("(0, inf)")


@dataclass
class RescoredBeamConfig(SearchConfig):
    """Beam search whose hypotheses are rescored by length and coverage."""

    # Fewest symbols of a hypothesis, including the end symbol, as in `max_length`.
    min_length: int = number("[0, inf)", 0)
    length_penalty: float = number("[0, inf)", 0.0)  # `α`; 0 for none
    coverage_penalty: float = number("[0, inf)", 0.0)  # `β`; 0 for none
    coverage_floor: float = number("(0, 1]", 0.1)  # `ε`, the least coverage of a word
    tune_penalties: bool = False  # choose `α` and `β` on the validation data from `penalty_grid`
    # Values of `α` and of `β` to try.
    penalty_grid: list[float] = number("[0, inf)", [0.0, 0.2, 0.4, 0.6, 0.8, 1.0])


@dataclass
class Seq2SeqRun(RunConfig):
    """A run of a task that predicts sequences."""

    mapping: MappingConfig = MISSING
    loss: FenchelYoungLossConfig = MISSING
    model: SequenceModelConfig = MISSING
    decoding: SearchConfig = MISSING


SCHEMAS: dict[str, dict[str, type]] = {
    "model": {"seq2seq": Seq2SeqConfig, "translator": TranslatorConfig},
    "decoding": {"beam": BeamConfig, "rescored_beam": RescoredBeamConfig},
}
