"""Sequence-to-sequence models and their search, shared by every task that predicts sequences."""

from dataclasses import dataclass

from omegaconf import MISSING

from repro.config.schema.checks import require
from repro.config.schema.groups import DecodingConfig, ModelConfig


@dataclass
class Seq2SeqConfig(ModelConfig):
    """An LSTM sequence-to-sequence model with attention and input feeding."""

    embedding_size: int = MISSING
    hidden_size: int = MISSING
    layers: int = MISSING
    dropout: float = MISSING

    def __post_init__(self) -> None:
        """Refuse sizes that no model has."""
        for key in ("embedding_size", "hidden_size", "layers"):
            require(getattr(self, key) > 0, f"model.{key}", getattr(self, key), "a number > 0")
        require(self.hidden_size % 2 == 0, "model.hidden_size", self.hidden_size, "an even number")
        require(0 <= self.dropout < 1, "model.dropout", self.dropout, "a number in [0, 1)")


@dataclass
class BeamConfig(DecodingConfig):
    """Beam search and the enumeration of complete sets of hypotheses."""

    beam_size: int = MISSING
    max_length: int = MISSING
    batch_size: int = MISSING
    max_hypotheses: int = MISSING


SCHEMAS: dict[str, dict[str, type]] = {
    "model": {"seq2seq": Seq2SeqConfig},
    "decoding": {"beam": BeamConfig},
}
