"""Mappings: ``conf/mapping``."""

from dataclasses import dataclass
from typing import ClassVar

from omegaconf import MISSING

from repro.config.schema.checks import choice, number

ENTMAX_SOLVERS = ("exact", "sort", "bisection")
PNORM_SOLVERS = ("exact", "fista")


@dataclass
class MappingConfig:
    """A mapping from scores to probabilities; ``name`` is its key in ``MAPPINGS``.

    ``clusters`` is whether figures mark equal weights, which need not be of adjacent words.
    """

    clusters: ClassVar[bool] = False
    name: str = MISSING


@dataclass
class UnboundedConfig(MappingConfig):
    """A mapping without upper bounds: any attention can use it."""


@dataclass
class GammaConfig(UnboundedConfig):
    """Softmax and sparsemax: ``gamma`` is the strength of the regularization."""

    gamma: float = number("(0, inf)", 1.0)


@dataclass
class EntmaxConfig(UnboundedConfig):
    """α-entmax; ``alpha`` 1 is softmax, 2 is sparsemax."""

    alpha: float = number("[1, inf)")  # order of the entropy
    # `exact`, or an algorithm of Peters et al. (2019): `sort` (Algorithm 2, for α = 1.5 and 2) or
    # `bisection` (Algorithm 1, for any α > 1).
    solver: str = choice(ENTMAX_SOLVERS, "exact")


@dataclass
class LearnedAlphaConfig(UnboundedConfig):
    """α-entmax with a learned α = 1 + sigmoid(a) that starts at ``alpha``."""

    alpha: float = number("(1, 2)", 1.5)


@dataclass
class AlphaConfig(UnboundedConfig):
    """A mapping with an order ``alpha`` above 1, such as that of a strictly convex norm."""

    alpha: float = number("(1, inf)", 2.0)


@dataclass
class FusedmaxConfig(GammaConfig):
    """Fusedmax; ``lam`` is the weight of the total variation."""

    lam: float = number("[0, inf)", 0.1)


@dataclass
class OscarmaxConfig(GammaConfig):
    """Oscarmax; ``lam`` is the weight of the OSCAR penalty, ``variant`` exact or as published."""

    clusters: ClassVar[bool] = True
    lam: float = number("[0, inf)", 0.01)
    variant: str = choice(("exact", "paper"), "exact")


@dataclass
class SqPnormMaxConfig(GammaConfig):
    """Sq-pnorm-max."""

    p: float = number("(1, 2]", 1.5)  # order of the norm; 2 is sparsemax
    # `exact`, or `fista`: accelerated projected gradient descent, as published.
    solver: str = choice(PNORM_SOLVERS, "exact")
    tolerance: float = number("(0, 1)", 0.01)  # residual at which `fista` stops


@dataclass
class BoundedConfig(MappingConfig):
    """Csoftmax and csparsemax."""

    exhaustion: float = number("[0, inf)", 0.2)  # `c`, the bonus per unit of fertility left
    # Whether the bonus is a constant in the backward pass, as in the released program of Malaviya
    # et al. (2018).
    detach_exhaustion: bool = False


SCHEMAS: dict[str, dict[str, type]] = {
    "mapping": {
        "bounded": BoundedConfig,
        "unbounded": UnboundedConfig,
        "gamma": GammaConfig,
        "entmax": EntmaxConfig,
        "learned_alpha": LearnedAlphaConfig,
        "alpha": AlphaConfig,
        "fusedmax": FusedmaxConfig,
        "oscarmax": OscarmaxConfig,
        "sq_pnorm_max": SqPnormMaxConfig,
    }
}
