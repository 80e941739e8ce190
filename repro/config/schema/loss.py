"""Losses: ``conf/loss``."""

from dataclasses import dataclass

from omegaconf import MISSING

from repro.config.schema.checks import choice, number
from repro.config.schema.mapping import ENTMAX_SOLVERS


@dataclass
class LossConfig:
    """A loss; subclasses document which names they accept."""

    name: str = MISSING


@dataclass
class FenchelYoungLossConfig(LossConfig):
    """A Fenchel–Young loss over classes; ``name`` is the key of the mapping that generates it."""


@dataclass
class EntmaxLossConfig(FenchelYoungLossConfig):
    """The α-entmax loss; ``solver`` is that of the mapping that generates it."""

    alpha: float = number("[1, inf)")
    solver: str = choice(ENTMAX_SOLVERS, "exact")


@dataclass
class StructuredLossConfig(LossConfig):
    """A loss over whole structures: perceptron or CRF; ``name`` is its key in ``instantiate``."""


@dataclass
class MarginLossConfig(StructuredLossConfig):
    """Structured SVM and margin CRF; ``cost`` is the cost of one wrong part."""

    cost: float = number("(0, inf)", 1.0)


@dataclass
class SparseMAPLossConfig(StructuredLossConfig):
    """SparseMAP loss; ``max_iter`` bounds the iterations of the active set method."""

    max_iter: int = number("(0, inf)")


@dataclass
class MarginSparseMAPLossConfig(SparseMAPLossConfig):
    """Margin SparseMAP loss; ``cost`` is the cost of one wrong part."""

    cost: float = number("(0, inf)", 1.0)


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
