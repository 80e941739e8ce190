"""LSTM sequence-to-sequence model with attention and input feeding."""

from repro.models.seq2seq.attention import (
    Attended,
    BoundedWeighting,
    FreeWeighting,
    GlobalAttention,
    Weighting,
)
from repro.models.seq2seq.decoder import DecoderState, InputFeedingDecoder
from repro.models.seq2seq.encoder import Encoding, LstmEncoder
from repro.models.seq2seq.fertility import (
    AlignedFertility,
    ConstantFertility,
    Fertility,
    FertilityTagger,
    PredictedFertility,
    TableFertility,
)
from repro.models.seq2seq.model import Seq2Seq, TeacherForced

__all__ = [
    "AlignedFertility",
    "Attended",
    "BoundedWeighting",
    "ConstantFertility",
    "DecoderState",
    "Encoding",
    "Fertility",
    "FertilityTagger",
    "FreeWeighting",
    "GlobalAttention",
    "InputFeedingDecoder",
    "LstmEncoder",
    "PredictedFertility",
    "Seq2Seq",
    "TableFertility",
    "TeacherForced",
    "Weighting",
]
