"""Construction of mappings and losses from their configuration."""

from collections.abc import Callable
from dataclasses import asdict
from functools import cache
from types import ModuleType
from typing import Any

import repro.mappings
import repro.structures
from repro.config.errors import ConfigError
from repro.config.paths import declared_in, extended
from repro.config.schema import FenchelYoungLossConfig, MappingConfig, StructuredLossConfig
from repro.config.schema.groups import StructureConfig
from repro.config.schema.loss import EntmaxLossConfig
from repro.config.schema.mapping import BoundedConfig
from repro.losses import LinearEntmaxLoss
from repro.losses.structured import (
    CRFLoss,
    MarginCRFLoss,
    MarginSparseMAPLoss,
    SparseMAPLoss,
    StructuredLoss,
    StructuredPerceptronLoss,
    StructuredSVMLoss,
)
from repro.mappings import (
    MAPPINGS,
    Entmax,
    LearnedAlphaEntmax,
    ProbabilityMap,
    SqPnormMax,
)
from repro.mappings._published import FISTA_TOLERANCE, FistaPnormMax, PublishedEntmax
from repro.structures import STRUCTURES, Structure


def _entmax(alpha: float, solver: str) -> ProbabilityMap:
    """Create α-entmax with the solver of the configuration; softmax needs none."""
    if solver == "exact" or alpha == 1:
        return Entmax(alpha)
    try:
        return PublishedEntmax(alpha, solver)
    except ValueError as error:
        raise ConfigError(f"solver={solver}: {error}") from None


def _sq_pnorm_max(
    p: float = 1.5, gamma: float = 1.0, solver: str = "exact", tolerance: float = FISTA_TOLERANCE
) -> ProbabilityMap:
    """Create sq-pnorm-max with the solver of the configuration."""
    return SqPnormMax(p, gamma) if solver == "exact" else FistaPnormMax(p, gamma, tolerance)


_MODULES: dict[str, Callable[..., ProbabilityMap]] = {
    # A bounded mapping takes upper bounds in every call, which plain attention does not have.
    **{name: spec.module for name, spec in MAPPINGS.items() if not spec.bounded},
    "entmax": _entmax,
    "sq_pnorm_max": _sq_pnorm_max,
    "learned_alpha_entmax": LearnedAlphaEntmax,
}

_BOUNDED: dict[str, Callable[[], Any]] = {
    name: spec.module for name, spec in MAPPINGS.items() if spec.bounded
}

_ALPHA = {"sparsemax": 2.0}
"""α of the entmax losses that have a name of their own."""

_STRUCTURED: dict[str, Callable[..., StructuredLoss]] = {
    "structured_perceptron": StructuredPerceptronLoss,
    "structured_svm": StructuredSVMLoss,
    "crf": CRFLoss,
    "margin_crf": MarginCRFLoss,
    "sparsemap": SparseMAPLoss,
    "margin_sparsemap": MarginSparseMAPLoss,
}


@cache
def _extensions(package: ModuleType, attribute: str) -> dict[str, Callable[..., Any]]:
    """Collect ``attribute`` of the modules that ``REPRO_EXTENSIONS`` has for a package.

    They are imported when a mapping or structure is built, because :mod:`repro.mappings` and
    :mod:`repro.structures` neither import the configuration nor read environment variables.
    """
    folders, own = extended(package.__name__), getattr(package, attribute)
    package.__path__ += folders
    found = declared_in(package.__name__, folders, attribute, own)
    return {name: build for name, build in found.items() if name not in own}


def build_mapping(config: MappingConfig) -> ProbabilityMap:
    """Create the mapping that a ``mapping`` configuration names.

    Raises:
        ConfigError: there is no mapping of this name, or it needs bounds.
    """
    if isinstance(config, BoundedConfig):
        raise ConfigError(
            f"mapping={config.name} needs fertilities, which this model does not have; set "
            "mapping=softmax or another mapping without bounds"
        )
    settings = asdict(config)
    return _mapping(settings.pop("name"), settings)


def build_bounded_mapping(config: BoundedConfig) -> ProbabilityMap:
    """Create the mapping with upper bounds that a ``mapping`` configuration names.

    Raises:
        ConfigError: there is no such mapping.
    """
    if config.name not in _BOUNDED:
        raise ConfigError(f"no mapping {config.name!r}; choose from: {', '.join(_BOUNDED)}")
    return _BOUNDED[config.name]()


def build_loss_mapping(config: FenchelYoungLossConfig) -> ProbabilityMap:
    """Create the mapping of a loss, which also turns the trained scores into probabilities."""
    settings = asdict(config)
    return _mapping(settings.pop("name"), settings)


def build_linear_loss(config: FenchelYoungLossConfig, ignore_index: int) -> LinearEntmaxLoss | None:
    """Create the loss of a linear layer that never stores all scores, one value per target.

    Returns ``None`` unless the loss is an α-entmax loss with α > 1, for which this is faster too. A
    published solver also gives ``None``: it is chosen to measure its own time.
    """
    if isinstance(config, EntmaxLossConfig) and config.solver != "exact":
        return None
    alpha = config.alpha if isinstance(config, EntmaxLossConfig) else _ALPHA.get(config.name, 1.0)
    if alpha == 1:
        return None
    return LinearEntmaxLoss(alpha, ignore_index, reduction="none")


def build_structure(config: StructureConfig) -> Structure:
    """Create the structure that a ``structure`` configuration names.

    Raises:
        ConfigError: there is no structure of this name.
    """
    settings = asdict(config)
    name, known = settings.pop("name"), STRUCTURES | _extensions(repro.structures, "STRUCTURES")
    if name not in known:
        raise ConfigError(f"no structure {name!r}; choose from: {', '.join(known)}")
    structure: Structure = known[name](**settings)
    return structure


def build_structured_loss(config: StructuredLossConfig, structure: Structure) -> StructuredLoss:
    """Create the loss, one value per instance, that a structured ``loss`` configuration names.

    Raises:
        ConfigError: there is no structured loss of this name.
    """
    settings = asdict(config)
    name = settings.pop("name")
    if name not in _STRUCTURED:
        raise ConfigError(f"no structured loss {name!r}; choose from: {', '.join(_STRUCTURED)}")
    return _STRUCTURED[name](structure, reduction="none", **settings)


def _mapping(name: str, settings: dict[str, Any]) -> ProbabilityMap:
    known = _MODULES | _extensions(repro.mappings, "MAPPINGS")
    if name not in known:
        raise ConfigError(f"no mapping {name!r}; choose from: {', '.join(known)}")
    return known[name](**settings)
