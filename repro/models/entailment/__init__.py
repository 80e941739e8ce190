"""Classifiers of sentence pairs: attention to the premise, and ESIM with aligned sentences."""

from repro.models.entailment.alignment import (
    Aligner,
    Alignment,
    MatchingAligner,
    SequentialAligner,
    WordAligner,
)
from repro.models.entailment.classifiers import (
    AlignedLabels,
    AttendedLabels,
    AttentionClassifier,
    Esim,
)

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
