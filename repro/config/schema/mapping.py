"""Mappings: ``conf/mapping``."""

from dataclasses import dataclass
from math import inf

from omegaconf import MISSING

from repro.config.schema.checks import require, require_choice


@dataclass
class MappingConfig:
    """A mapping from scores to probabilities; ``name`` is its key in ``MAPPINGS``."""

    name: str = MISSING


@dataclass
class GammaConfig(MappingConfig):
    """Softmax and sparsemax: ``gamma`` is the strength of the regularisation."""

    gamma: float = 1.0

    def __post_init__(self) -> None:
        """Refuse a temperature that is not positive."""
        require(self.gamma > 0, "mapping.gamma", self.gamma, "a number > 0")


@dataclass
class EntmaxConfig(MappingConfig):
    """α-entmax; ``alpha`` 1 is softmax, 2 is sparsemax."""

    alpha: float = MISSING

    def __post_init__(self) -> None:
        """Refuse α < 1, for which the entropy is not strongly concave on the simplex."""
        require(self.alpha >= 1, "mapping.alpha", self.alpha, "a number >= 1")


@dataclass
class LearnedAlphaConfig(MappingConfig):
    """α-entmax with a learned α = 1 + sigmoid(a) that starts at ``alpha``."""

    alpha: float = 1.5

    def __post_init__(self) -> None:
        """Refuse a start outside the range of the parametrisation."""
        require(1 < self.alpha < 2, "mapping.alpha", self.alpha, "a number between 1 and 2")


@dataclass
class NormmaxConfig(MappingConfig):
    """Normmax; ``alpha`` is the order of the norm."""

    alpha: float = 2.0

    def __post_init__(self) -> None:
        """Refuse an order for which the regulariser is not strictly convex on the simplex."""
        require(1 < self.alpha < inf, "mapping.alpha", self.alpha, "a finite number > 1")


@dataclass
class FusedmaxConfig(GammaConfig):
    """Fusedmax; ``lam`` is the weight of the total variation."""

    lam: float = 0.1

    def __post_init__(self) -> None:
        """Refuse a penalty that is not convex."""
        super().__post_init__()
        require(0 <= self.lam < inf, "mapping.lam", self.lam, "a finite number >= 0")


@dataclass
class OscarmaxConfig(GammaConfig):
    """Oscarmax; ``lam`` is the weight of the OSCAR penalty, ``variant`` exact or as published."""

    lam: float = 0.01
    variant: str = "exact"

    def __post_init__(self) -> None:
        """Refuse a penalty that is not convex, and an unknown variant."""
        super().__post_init__()
        require(0 <= self.lam < inf, "mapping.lam", self.lam, "a finite number >= 0")
        require_choice("mapping.variant", self.variant, ("exact", "paper"))


@dataclass
class SqPnormMaxConfig(GammaConfig):
    """Sq-pnorm-max; ``p`` is the order of the norm, 2 is sparsemax."""

    p: float = 1.5

    def __post_init__(self) -> None:
        """Refuse an order outside of (1, 2]."""
        super().__post_init__()
        require(1 < self.p <= 2, "mapping.p", self.p, "a number in (1, 2]")


@dataclass
class BoundedConfig(MappingConfig):
    """Csoftmax and csparsemax; ``exhaustion`` is ``c``, what words with fertility left gain."""

    exhaustion: float = 0.2

    def __post_init__(self) -> None:
        """Refuse an infinite gain."""
        ok = 0 <= self.exhaustion < inf
        require(ok, "mapping.exhaustion", self.exhaustion, "a finite number >= 0")


SCHEMAS: dict[str, dict[str, type]] = {
    "mapping": {
        "bounded": BoundedConfig,
        "gamma": GammaConfig,
        "entmax": EntmaxConfig,
        "learned_alpha": LearnedAlphaConfig,
        "normmax": NormmaxConfig,
        "fusedmax": FusedmaxConfig,
        "oscarmax": OscarmaxConfig,
        "sq_pnorm_max": SqPnormMaxConfig,
    }
}
