"""Classifiers of sentence pairs: attention to the premise, and ESIM with aligned sentences."""

from repro.models.entailment.alignment import Aligner, Alignment, WordAligner
from repro.models.entailment.attention_classifier import AttendedLabels, AttentionClassifier
from repro.models.entailment.esim import AlignedLabels, Esim
from repro.models.entailment.structured_alignment import MatchingAligner, SequentialAligner

__all__ = [
    "AlignedLabels",
    "Aligner",
    "Alignment",
    "AttendedLabels",
    "AttentionClassifier",
    "Esim",
    "MatchingAligner",
    "SequentialAligner",
    "WordAligner",
]
