"""Arc-factored dependency parser: bidirectional LSTM and one score for every arc."""

from repro.models.parser.arcs import ArcScorer
from repro.models.parser.model import LstmParser

__all__ = ["ArcScorer", "LstmParser"]
