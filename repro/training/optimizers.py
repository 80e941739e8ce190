"""Optimisers and the rules by which their learning rate decays."""

from collections.abc import Iterable, Mapping
from typing import Any

from torch import nn, optim

from repro.config.schema import TrainingConfig
from repro.training.checkpoint import TrainingProgress


def build_optimizer(config: TrainingConfig, parameters: Iterable[nn.Parameter]) -> optim.Optimizer:
    """The optimiser of a configuration."""
    if config.optimizer == "sgd":
        return optim.SGD(parameters, lr=config.learning_rate, weight_decay=config.weight_decay)
    return optim.Adam(
        parameters, lr=config.learning_rate, weight_decay=config.weight_decay, fused=True
    )


def is_decay_due(
    config: TrainingConfig, progress: TrainingProgress, row: Mapping[str, Any]
) -> bool:
    """Return whether the learning rate decays at a row of the history.

    Args:
        config: names the rule.
        progress: progress of training, the row's validation included; ``epoch`` still counts
            the epochs before it.
        row: it has a ``dev_loss`` if there was a validation.
    """
    if config.schedule == "decay_after_epoch":
        return progress.epoch + 1 >= config.decay_from
    if "dev_loss" not in row:
        return False
    if config.schedule == "decay_if_not_best":
        return progress.best_step != progress.step
    return progress.previous_loss is not None and row["dev_loss"] > progress.previous_loss
