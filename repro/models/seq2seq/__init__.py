"""LSTM sequence-to-sequence model with attention and input feeding."""

from repro.models.seq2seq.attention import (
    AttentionNormalizer,
    AttentionState,
    BoundedNormalizer,
    FreeNormalizer,
    GlobalAttention,
)
from repro.models.seq2seq.fertility import (
    AlignedFertility,
    ConstantFertility,
    Fertility,
    FertilityTagger,
    PredictedFertility,
    TableFertility,
)
from repro.models.seq2seq.model import (
    Decoded,
    DecoderState,
    Encoding,
    InputFeedingDecoder,
    LstmEncoder,
    Seq2Seq,
    TeacherForced,
)

__all__ = [
    "AlignedFertility",
    "AttentionNormalizer",
    "AttentionState",
    "BoundedNormalizer",
    "ConstantFertility",
    "Decoded",
    "DecoderState",
    "Encoding",
    "Fertility",
    "FertilityTagger",
    "FreeNormalizer",
    "GlobalAttention",
    "InputFeedingDecoder",
    "LstmEncoder",
    "PredictedFertility",
    "Seq2Seq",
    "TableFertility",
    "TeacherForced",
]
