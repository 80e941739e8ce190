"""One training loop for all tasks, with exact resume."""

from repro.training.checkpoint import CheckpointError, TrainingProgress
from repro.training.loop import DivergenceError, Fit, fit
from repro.training.protocol import Trainable, Validation

__all__ = [
    "CheckpointError",
    "DivergenceError",
    "Fit",
    "Trainable",
    "TrainingProgress",
    "Validation",
    "fit",
]
