"""Training: ``conf/training``, the same keys for every task."""

from dataclasses import dataclass
from math import inf

from omegaconf import MISSING

from repro.config.schema.checks import late, require, require_choice

OPTIMIZERS = ("adam", "sgd")
DECAY_RULES = ("loss_increases", "not_best", "late_epochs")


@dataclass
class TrainingConfig:
    """Optimiser, schedule and stopping.

    Attributes:
        learning_rate: base learning rate.
        decay: factor on the learning rate whenever ``decay_when`` says so.
        min_learning_rate: training stops once the learning rate falls below it.
        max_grad_norm: gradients are clipped to this norm.
        select: validation metric whose best value chooses the model.
        checkpoint_minutes: a checkpoint is written after every epoch and at least this often.
        patience: stop after so many validations without a better value of ``select``; ``null``
            for no such limit.
        max_steps: stop after this many updates; ``null`` for no limit. Evaluation stays complete,
            since its scores are recorded; a quick trial needs a smaller corpus as well.
        optimizer: ``adam`` or ``sgd``, the latter without momentum.
        weight_decay: ``λ`` of the penalty ``λ/2 ‖w‖²``, added to the gradient.
        decay_when: the validation loss increases (``loss_increases``); ``select`` is not the best
            seen (``not_best``); or after every epoch from ``decay_from`` on (``late_epochs``).
        decay_from: first epoch, counted from one, after which ``late_epochs`` decays.
    """

    learning_rate: float = MISSING
    decay: float = MISSING
    min_learning_rate: float = MISSING
    max_grad_norm: float = MISSING
    batch_size: int = MISSING
    max_epochs: int = MISSING
    validate_every: int = MISSING
    select: str = MISSING
    checkpoint_minutes: float = 10.0
    max_steps: int | None = None
    patience: int | None = late(None)
    optimizer: str = late("adam")
    weight_decay: float = late(0.0)
    decay_when: str = late("loss_increases")
    decay_from: int = late(1)

    def __post_init__(self) -> None:
        """Refuse values with which no training runs."""
        for key in ("learning_rate", "max_grad_norm", "batch_size", "max_epochs", "validate_every"):
            require(getattr(self, key) > 0, f"training.{key}", getattr(self, key), "a number > 0")
        require(self.learning_rate < inf, "training.learning_rate", inf, "a finite number > 0")
        ok = self.max_steps is None or self.max_steps >= 0
        require(ok, "training.max_steps", self.max_steps, "a number >= 0 or null")
        require(0 < self.decay <= 1, "training.decay", self.decay, "a number in (0, 1]")
        require_choice("training.optimizer", self.optimizer, OPTIMIZERS)
        require_choice("training.decay_when", self.decay_when, DECAY_RULES)
        ok = self.weight_decay >= 0
        require(ok, "training.weight_decay", self.weight_decay, "a number >= 0")
        require(self.decay_from > 0, "training.decay_from", self.decay_from, "a number > 0")
        ok = self.patience is None or self.patience > 0
        require(ok, "training.patience", self.patience, "a number > 0 or null")


SCHEMAS: dict[str, dict[str, type]] = {"training": {"training": TrainingConfig}}
