"""Classifiers of sentence pairs: attention to the premise, and ESIM with aligned sentences."""

from repro.models.entailment.alignment import (
    Aligner,
    Alignment,
    SequentialAligner,
    StructuredAligner,
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
    "SequentialAligner",
    "StructuredAligner",
    "WordAligner",
]
