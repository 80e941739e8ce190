"""LSTM sequence-to-sequence model with attention and input feeding."""

from repro.models.seq2seq.attention import GlobalAttention
from repro.models.seq2seq.decoder import DecoderState, InputFeedingDecoder
from repro.models.seq2seq.encoder import BiLstmEncoder, Encoding
from repro.models.seq2seq.model import Seq2Seq, TeacherForced

__all__ = [
    "BiLstmEncoder",
    "DecoderState",
    "Encoding",
    "GlobalAttention",
    "InputFeedingDecoder",
    "Seq2Seq",
    "TeacherForced",
]
