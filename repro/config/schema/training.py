"""Training: ``conf/training``, the same keys for every task."""

from dataclasses import dataclass
from typing import Any, ClassVar

from omegaconf import MISSING

from repro.config.errors import ConfigError
from repro.config.schema.checks import check_fields, choice, number

SCHEDULES = ("decay_if_loss_increases", "decay_if_not_best", "decay_after_epoch")
"""Rules by which the learning rate decays."""


@dataclass
class TrainingConfig:
    """Optimizer, schedule and stopping."""

    added: ClassVar[dict[str, Any]] = {"graphs": "off"}
    unread: ClassVar[tuple[str, ...]] = ("checkpoint_minutes",)

    learning_rate: float = number("(0, inf)")  # base learning rate
    decay: float = number("(0, 1]")  # factor by which the `schedule` multiplies the learning rate
    # Training stops once the learning rate falls below it.
    min_learning_rate: float = number("[0, inf)")
    max_grad_norm: float = number("(0, inf)")  # gradients are clipped to this norm
    batch_size: int = number("(0, inf)")
    # Stop after this many epochs; `null` for no limit, if `max_steps` is set.
    max_epochs: int | None = number("(0, inf)")
    # Epochs from one validation to the next; training also ends with one.
    validate_every: int = number("(0, inf)")
    monitor: str = MISSING  # validation metric whose best value selects the model
    # A checkpoint is written at least this often, and after a row of the history if the last is
    # older than five seconds.
    checkpoint_minutes: float = number("[0, inf)", 10.0)
    # Stop after this many updates; `null` for no limit. Evaluation stays complete, since its scores
    # are recorded; a quick trial needs a smaller corpus as well.
    max_steps: int | None = number("(0, inf)", None)
    # Stop after this many validations without a better value of `monitor`; `null` for no such
    # limit.
    patience: int | None = number("(0, inf)", None)
    optimizer: str = choice(("adam", "sgd"), "adam")  # `adam` or `sgd`, the latter without momentum
    # `λ` of the penalty `λ/2 ‖w‖²`, added to the gradient.
    weight_decay: float = number("[0, inf)", 0.0)
    # When the learning rate decays: if the validation loss increases (`decay_if_loss_increases`);
    # if `monitor` is not the best seen (`decay_if_not_best`); or after every epoch from
    # `decay_from` on (`decay_after_epoch`).
    schedule: str = choice(SCHEDULES, "decay_if_loss_increases")
    # First epoch, counted from one, after which `decay_after_epoch` decays.
    decay_from: int = number("(0, inf)", 1)
    # Updates from one validation to the next, in place of `validate_every`. The history then has
    # one row for each validation, not each epoch.
    validate_every_steps: int | None = number("(0, inf)", None)
    # `auto` to capture updates on CUDA as graphs, which are replayed as one launch; `off` to launch
    # every operator, the default until capture has been tested on a card.
    graphs: str = choice(("auto", "off"), "off")

    def __post_init__(self) -> None:
        """Refuse values out of range, and settings that contradict each other."""
        check_fields(self, "training.")
        if self.max_epochs is None and self.max_steps is None:
            raise ConfigError(
                "training.max_epochs and training.max_steps are both null; expected a number for "
                "one of them"
            )
        if self.validate_every_steps is not None and self.schedule == "decay_after_epoch":
            raise ConfigError(
                "training.schedule=decay_after_epoch decays after epochs; expected "
                "training.validate_every_steps=null, or another schedule"
            )


SCHEMAS: dict[str, dict[str, type]] = {"training": {"training": TrainingConfig}}
