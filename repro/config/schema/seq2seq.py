"""Sequence-to-sequence models and their search, shared by every task that predicts sequences."""

from dataclasses import dataclass, field

from omegaconf import MISSING

from repro.config.schema.checks import late, require, require_choice
from repro.config.schema.groups import DecodingConfig, ModelConfig

FERTILITIES = ("constant", "guided", "predicted")


@dataclass
class Seq2SeqConfig(ModelConfig):
    """An LSTM sequence-to-sequence model with attention and input feeding.

    Attributes:
        embedding_size: of source and target symbols.
        hidden_size: of every state.
        layers: of the encoder and of the decoder.
        dropout: probability.
        initial_bound: parameters start uniformly between its negative and itself. Sums over ``n``
            inputs have a spread of ``initial_bound * sqrt(n / 3)`` times theirs: a small model
            needs a larger bound than 0.1, which belongs to sizes of 500.
    """

    embedding_size: int = MISSING
    hidden_size: int = MISSING
    layers: int = MISSING
    dropout: float = MISSING
    initial_bound: float = late(0.1)

    def __post_init__(self) -> None:
        """Refuse sizes that no model has."""
        for key in ("embedding_size", "hidden_size", "layers"):
            require(getattr(self, key) > 0, f"model.{key}", getattr(self, key), "a number > 0")
        require(self.hidden_size % 2 == 0, "model.hidden_size", self.hidden_size, "an even number")
        require(0 <= self.dropout < 1, "model.dropout", self.dropout, "a number in [0, 1)")
        require(self.initial_bound > 0, "model.initial_bound", self.initial_bound, "a number > 0")


@dataclass
class FertilityConfig:
    """How much attention a source word may get in all; read by bounded mappings only.

    Attributes:
        strategy: ``constant``; ``guided``: the largest number of links that an aligner found for
            the word in the training data; ``predicted``: what a tagger expects.
        value: of every word (constant).
        margin: added to what the tagger expects.
        classes: the tagger tells ``0 .. classes - 1`` apart; more counts as the last.
        embedding_size: of the tagger.
        hidden_size: of the tagger, both directions together.
        epochs: that the tagger is trained for, before the model.
        batch_size: of the tagger's training, in sentences.
        learning_rate: of the tagger's training, with Adam.
    """

    strategy: str = "predicted"
    value: float = 2.0
    margin: float = 1.0
    classes: int = 10
    embedding_size: int = 128
    hidden_size: int = 128
    epochs: int = 5
    batch_size: int = 64
    learning_rate: float = 0.001

    def __post_init__(self) -> None:
        """Refuse an unknown strategy and values without meaning."""
        require_choice("model.fertility.strategy", self.strategy, FERTILITIES)
        positive = ("value", "classes", "embedding_size", "hidden_size", "epochs", "batch_size")
        for key in (*positive, "learning_rate"):
            value = getattr(self, key)
            require(value > 0, f"model.fertility.{key}", value, "a number > 0")
        require(self.margin >= 0, "model.fertility.margin", self.margin, "a number >= 0")
        even = self.hidden_size % 2 == 0
        require(even, "model.fertility.hidden_size", self.hidden_size, "an even number")


@dataclass
class TranslatorConfig(Seq2SeqConfig):
    """A model of whole sentences, whose attention may remember what it has attended.

    Attributes:
        coverage_vector: attention scores see the cumulative attention through a learned vector.
        fertility: bounds of the cumulative attention.
    """

    coverage_vector: bool = False
    fertility: FertilityConfig = field(default_factory=FertilityConfig)


@dataclass
class SearchConfig(DecodingConfig):
    """Beam search; ``max_length`` counts the end symbol, ``batch_size`` sentences."""

    beam_size: int = MISSING
    max_length: int = MISSING
    batch_size: int = MISSING

    def __post_init__(self) -> None:
        """Refuse a search that cannot find anything."""
        for key in ("beam_size", "max_length", "batch_size"):
            require(getattr(self, key) > 0, f"decoding.{key}", getattr(self, key), "a number > 0")


@dataclass
class BeamConfig(SearchConfig):
    """Beam search and the enumeration of complete sets of at most ``max_hypotheses``."""

    max_hypotheses: int = MISSING

    def __post_init__(self) -> None:
        """Refuse an enumeration without a hypothesis."""
        super().__post_init__()
        limit = self.max_hypotheses
        require(limit > 0, "decoding.max_hypotheses", limit, "a number > 0")


@dataclass
class RescoredBeamConfig(SearchConfig):
    """Beam search whose hypotheses are rescored by length and coverage.

    Attributes:
        length_penalty: ``α``; 0 for none.
        coverage_penalty: ``β``; 0 for none.
        coverage_floor: ``ε``, the least coverage of a word.
        tune_penalties: choose ``α`` and ``β`` on the validation data from ``penalty_grid``.
        penalty_grid: values of both.
        replace_unknown: put the most attended source word where the model says "unknown".
    """

    length_penalty: float = 0.0
    coverage_penalty: float = 0.0
    coverage_floor: float = 0.1
    tune_penalties: bool = False
    penalty_grid: list[float] = field(default_factory=lambda: [0.0, 0.2, 0.4, 0.6, 0.8, 1.0])
    replace_unknown: bool = False

    def __post_init__(self) -> None:
        """Refuse penalties that reward, and a floor whose logarithm is none."""
        super().__post_init__()
        for key in ("length_penalty", "coverage_penalty"):
            value = getattr(self, key)
            require(value >= 0, f"decoding.{key}", value, "a number >= 0")
        ok = 0 < self.coverage_floor <= 1
        require(ok, "decoding.coverage_floor", self.coverage_floor, "a number in (0, 1]")
        ok = bool(self.penalty_grid) and min(self.penalty_grid) >= 0
        require(ok, "decoding.penalty_grid", self.penalty_grid, "numbers >= 0")


SCHEMAS: dict[str, dict[str, type]] = {
    "model": {"seq2seq": Seq2SeqConfig, "translator": TranslatorConfig},
    "decoding": {"beam": BeamConfig, "rescored_beam": RescoredBeamConfig},
}
