"""LSTM sequence-to-sequence model with attention and input feeding."""

from repro.models.seq2seq.attention import (
    Attention,
    AttentionNormalizer,
    AttentionState,
    BoundedNormalizer,
    FeedForwardAttention,
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
    LstmShape,
    Seq2Seq,
    TeacherForced,
)

__all__ = [
    "AlignedFertility",
    "Attention",
    "AttentionNormalizer",
    "AttentionState",
    "BoundedNormalizer",
    "ConstantFertility",
    "Decoded",
    "DecoderState",
    "Encoding",
    "FeedForwardAttention",
    "Fertility",
    "FertilityTagger",
    "FreeNormalizer",
    "GlobalAttention",
    "InputFeedingDecoder",
    "LstmEncoder",
    "LstmShape",
    "PredictedFertility",
    "Seq2Seq",
    "TableFertility",
    "TeacherForced",
]
