"""Arc-factored dependency parser: bidirectional LSTM and one score for every arc."""

from repro.models.parser.model import ArcScorer, LstmParser

__all__ = ["ArcScorer", "LstmParser"]
