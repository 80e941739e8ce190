"""Interface of tasks to the training loop."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from torch import Tensor, nn

BatchT = TypeVar("BatchT")


@dataclass
class Validation:
    """Outcome of one validation.

    Attributes:
        loss: mean loss; the learning rate is decayed when it increases.
        metrics: further values, among them the one that chooses the model; larger is better.
        details: what else the history keeps, values of JSON by name.
    """

    loss: float
    metrics: dict[str, float] = field(default_factory=dict)
    details: dict[str, Any] = field(default_factory=dict)


class Trainable(Protocol[BatchT]):
    """A model and its data, as the loop sees them."""

    @property
    def selectors(self) -> tuple[str, ...]:
        """Names of the validation metrics that may choose the model."""

    @property
    def tally(self) -> Mapping[str, float]:
        """Sums over the updates of this process; each is recorded per second of training."""

    @property
    def model(self) -> nn.Module:
        """The model to train."""

    def batches(self, epoch: int) -> Sequence[BatchT]:
        """Batches of one epoch (counted from 0), a pure function of the epoch and the seed."""

    def loss(self, batch: BatchT) -> tuple[Tensor, Tensor]:
        """Loss to minimise (a scalar with a graph), and the number of target symbols it covers."""

    def validate(self) -> Validation:
        """Evaluate on validation data; the model is in evaluation mode, without gradients."""
