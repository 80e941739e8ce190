"""One training loop for all tasks, with exact resume."""

from repro.training.checkpoint import Checkpoint, CheckpointError
from repro.training.loop import DivergenceError, Fit, fit
from repro.training.protocol import Trainable, Validation

__all__ = [
    "Checkpoint",
    "CheckpointError",
    "DivergenceError",
    "Fit",
    "Trainable",
    "Validation",
    "fit",
]
