"""Search for the most probable outputs of a model, exact where sparsity allows."""

from repro.decoding.beam import BeamResult, beam_search, greedy
from repro.decoding.complete_set import CompleteSet, complete_set
from repro.decoding.ensemble import Ensemble, EnsembleState
from repro.decoding.forced import ForcedDecoding, forced
from repro.decoding.protocol import State, StateT, StepModel, StepOutput
from repro.decoding.search import Hypothesis

__all__ = [
    "BeamResult",
    "CompleteSet",
    "Ensemble",
    "EnsembleState",
    "ForcedDecoding",
    "Hypothesis",
    "State",
    "StateT",
    "StepModel",
    "StepOutput",
    "beam_search",
    "complete_set",
    "forced",
    "greedy",
]
