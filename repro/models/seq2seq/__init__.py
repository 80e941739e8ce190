"""LSTM sequence-to-sequence model with attention and input feeding."""

from repro.models.seq2seq.attention import (
    Attended,
    BoundedWeighting,
    FreeWeighting,
    GlobalAttention,
    Weighting,
)
from repro.models.seq2seq.decoder import DecoderState, InputFeedingDecoder
from repro.models.seq2seq.encoder import BiLstmEncoder, Encoding
from repro.models.seq2seq.fertility import (
    ConstantFertility,
    Fertility,
    FertilityTagger,
    PredictedFertility,
    TableFertility,
)
from repro.models.seq2seq.model import Seq2Seq, TeacherForced

__all__ = [
    "Attended",
    "BiLstmEncoder",
    "BoundedWeighting",
    "ConstantFertility",
    "DecoderState",
    "Encoding",
    "Fertility",
    "FertilityTagger",
    "FreeWeighting",
    "GlobalAttention",
    "InputFeedingDecoder",
    "PredictedFertility",
    "Seq2Seq",
    "TableFertility",
    "TeacherForced",
    "Weighting",
]
