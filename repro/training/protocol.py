"""Interface of tasks to the training loop."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from torch import Tensor, nn

BatchT = TypeVar("BatchT")


@dataclass
class Validation:
    """Outcome of one validation.

    Attributes:
        loss: mean loss, which may decide when the learning rate decays.
        metrics: further values by name, larger is better for the one that selects the model.
        details: further JSON values for the history, by name.
    """

    loss: float
    metrics: dict[str, float] = field(default_factory=dict)
    details: dict[str, Any] = field(default_factory=dict)


class Trainable(Protocol[BatchT]):
    """Interface of a model and its data to the training loop."""

    @property
    def selectors(self) -> tuple[str, ...]:
        """Names of the validation metrics that may select the model."""

    @property
    def tally(self) -> Mapping[str, float]:
        """Sums over the updates of this process; each is recorded per second of training."""

    @property
    def model(self) -> "nn.Module":
        """The model to train."""

    def batches(self, epoch: int) -> Sequence[BatchT]:
        """Return the batches of an epoch, from 0, which depend only on the epoch and the seed."""

    def loss(self, batch: BatchT) -> "tuple[Tensor, Tensor]":
        """Return the loss to minimize, a scalar, and the number of target symbols in it."""

    def validate(self) -> Validation:
        """Evaluate on validation data; called in evaluation mode, with gradients disabled."""
