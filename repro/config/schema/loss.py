"""Losses: ``conf/loss``."""

from dataclasses import dataclass

from omegaconf import MISSING

from repro.config.schema.checks import require


@dataclass
class LossConfig:
    """A loss; what its ``name`` means is said by each kind of loss."""

    name: str = MISSING


@dataclass
class FenchelYoungLossConfig(LossConfig):
    """A Fenchel–Young loss of one choice; ``name`` is the key of the mapping that generates it."""

    label_smoothing: float = 0.0

    def __post_init__(self) -> None:
        """Refuse a smoothing that is not a probability."""
        ok = 0 <= self.label_smoothing < 1
        require(ok, "loss.label_smoothing", self.label_smoothing, "a number in [0, 1)")


@dataclass
class EntmaxLossConfig(FenchelYoungLossConfig):
    """The α-entmax loss."""

    alpha: float = MISSING

    def __post_init__(self) -> None:
        """Refuse α < 1."""
        super().__post_init__()
        require(self.alpha >= 1, "loss.alpha", self.alpha, "a number >= 1")


@dataclass
class StructuredLossConfig(LossConfig):
    """A loss of whole structures: perceptron or CRF; ``name`` is its key in ``instantiate``."""


@dataclass
class MarginLossConfig(StructuredLossConfig):
    """Structured SVM and margin CRF; ``cost`` is what one wrong part costs."""

    cost: float = 1.0

    def __post_init__(self) -> None:
        """Refuse a cost that rewards wrong parts."""
        require(self.cost > 0, "loss.cost", self.cost, "a number > 0")


@dataclass
class SparseMAPLossConfig(StructuredLossConfig):
    """SparseMAP loss; ``max_iter`` bounds the iterations of the active set method."""

    max_iter: int = MISSING

    def __post_init__(self) -> None:
        """Refuse a solver that makes no step."""
        require(self.max_iter > 0, "loss.max_iter", self.max_iter, "a number > 0")


@dataclass
class MarginSparseMAPLossConfig(SparseMAPLossConfig):
    """Margin SparseMAP loss; ``cost`` is what one wrong part costs."""

    cost: float = 1.0

    def __post_init__(self) -> None:
        """Refuse a solver that makes no step, and a cost that rewards wrong parts."""
        super().__post_init__()
        require(self.cost > 0, "loss.cost", self.cost, "a number > 0")


SCHEMAS: dict[str, dict[str, type]] = {
    "loss": {
        "loss": FenchelYoungLossConfig,
        "entmax_loss": EntmaxLossConfig,
        "structured": StructuredLossConfig,
        "margin": MarginLossConfig,
        "sparsemap": SparseMAPLossConfig,
        "margin_sparsemap": MarginSparseMAPLossConfig,
    }
}
