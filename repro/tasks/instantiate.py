"""Construction of mappings and losses from their configuration."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import cache
from types import ModuleType
from typing import Any, TypeVar

import repro.mappings
import repro.models
import repro.structures
from repro.config.errors import ConfigError
from repro.config.paths import declared_in, extended
from repro.config.schema import (
    FenchelYoungLossConfig,
    MappingConfig,
    RunConfig,
    StructuredLossConfig,
)
from repro.config.schema.groups import StructureConfig
from repro.config.schema.loss import EntmaxLossConfig
from repro.config.schema.mapping import BoundedConfig
from repro.config.schema.seq2seq import SequenceModelConfig
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
    Entmax,
    LearnedAlphaEntmax,
    MappingSpec,
    ProbabilityMap,
    SqPnormMax,
)
from repro.models.seq2seq.translator import Translator, TranslatorParts
from repro.structures import Structure
from repro.tasks.published_mappings import FISTA_TOLERANCE, FistaPnormMax, PublishedEntmax

# These packages neither import the configuration nor read environment variables.
for _package in (repro.mappings, repro.structures):
    _package.__path__ += extended(_package.__name__)

ChoiceT = TypeVar("ChoiceT")


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


_CONFIGURED: dict[str, Callable[..., ProbabilityMap]] = {
    "entmax": _entmax,
    "sq_pnorm_max": _sq_pnorm_max,
    "learned_alpha_entmax": LearnedAlphaEntmax,
}
"""Mappings whose settings are not those of the module alone, or that share a module."""

_ALPHA = {"sparsemax": 2.0}
"""α of the entmax losses that have a name of their own."""

_STRUCTURED: dict[str, type[StructuredLoss]] = {
    "structured_perceptron": StructuredPerceptronLoss,
    "structured_svm": StructuredSVMLoss,
    "crf": CRFLoss,
    "margin_crf": MarginCRFLoss,
    "sparsemap": SparseMAPLoss,
    "margin_sparsemap": MarginSparseMAPLoss,
}


@cache
def _declared(package: ModuleType, attribute: str, kind: Any = Callable) -> dict[str, Any]:
    """Collect ``attribute`` of a package and of the modules that ``REPRO_EXTENSIONS`` has for it.

    These are imported when a mapping or structure is built.
    """
    own = getattr(package, attribute)
    return declared_in(package.__name__, extended(package.__name__), attribute, kind, own)


def check_choices(config: RunConfig) -> None:
    """Check that what the choices of a run name exists, without building a model.

    Raises:
        ConfigError: there is no mapping, structure, loss or model of a name, or it does not take
            the settings.
    """
    if isinstance(config.mapping, BoundedConfig):
        build_bounded_mapping(config.mapping)
    elif config.mapping is not None:
        build_mapping(config.mapping)
    if config.structure is not None:
        _known(_declared(repro.structures, "STRUCTURES"), "structure", config.structure.name)
    if isinstance(config.loss, FenchelYoungLossConfig):
        build_loss_mapping(config.loss)
    elif isinstance(config.loss, StructuredLossConfig):
        _known(_STRUCTURED, "loss", config.loss.name)
    if isinstance(config.model, SequenceModelConfig):
        _known(_models(), "model", config.model.name)


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
    return _mapping(config)


def build_bounded_mapping(config: BoundedConfig) -> ProbabilityMap:
    """Create the mapping with upper bounds that a ``mapping`` configuration names.

    Raises:
        ConfigError: there is no such mapping.
    """
    return _known(_modules(bounded=True), "mapping", config.name)()


def build_loss_mapping(config: FenchelYoungLossConfig) -> ProbabilityMap:
    """Create the mapping of a loss, which also turns the trained scores into probabilities.

    Raises:
        ConfigError: there is no mapping of this name, or it has no regularizer.
    """
    mapping = _mapping(config)
    if type(mapping).omega is ProbabilityMap.omega:
        raise ConfigError(f"loss={config.name}: {type(mapping).__name__} defines no omega")
    return mapping


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


def build_structure(config: StructureConfig, **given: Any) -> Structure:
    """Create the structure that a ``structure`` configuration names, with further settings given.

    Raises:
        ConfigError: there is no structure of this name.
    """
    settings = asdict(config) | given
    known = _declared(repro.structures, "STRUCTURES")
    structure: Structure = _built(known, "structure", settings)
    return structure


def build_structured_loss(config: StructuredLossConfig, structure: Structure) -> StructuredLoss:
    """Create the loss, one value per instance, that a structured ``loss`` configuration names.

    Raises:
        ConfigError: there is no structured loss of this name, or the structure lacks its sum.
    """
    settings = asdict(config)
    loss = _known(_STRUCTURED, "loss", settings.pop("name"))
    sums = type(structure).log_partition is not Structure.log_partition
    if issubclass(loss, MarginCRFLoss) and not sums:
        name = type(structure).__name__
        raise ConfigError(f"loss={config.name}: {name} defines no log_partition")
    return loss(structure, reduction="none", **settings)


def build_translator(config: SequenceModelConfig, parts: TranslatorParts) -> Translator:
    """Create the model that a ``model`` configuration names, of a ``MODELS`` of ``repro.models``.

    Raises:
        ConfigError: there is no model of this name.
    """
    model: Translator = _known(_models(), "model", config.name)(config, parts)
    return model


@cache
def _models() -> dict[str, Callable[[SequenceModelConfig, TranslatorParts], Translator]]:
    return declared_in(repro.models.__name__, repro.models.__path__, "MODELS")


def _mapping(config: MappingConfig | FenchelYoungLossConfig) -> ProbabilityMap:
    settings = asdict(config)
    kind = "mapping" if isinstance(config, MappingConfig) else "loss"
    mapping: ProbabilityMap = _built(_modules() | _CONFIGURED, kind, settings)
    return mapping


def _modules(bounded: bool = False) -> dict[str, Callable[..., ProbabilityMap]]:
    """Collect the modules of all mappings with upper bounds, or of those without.

    A bounded mapping takes bounds in every call, which plain attention does not have.
    """
    specs = _declared(repro.mappings, "MAPPINGS", MappingSpec)
    return {name: spec.module for name, spec in specs.items() if spec.bounded == bounded}


def _built(choices: Mapping[str, Callable[..., Any]], kind: str, settings: dict[str, Any]) -> Any:
    """Call a choice with its settings; what an extension's class lacks is refused in one line."""
    name = settings.pop("name")
    build = _known(choices, kind, name)
    try:
        return build(**settings)
    except TypeError as error:
        raise ConfigError(f"{kind}={name}: {error}") from error


def _known(choices: Mapping[str, ChoiceT], kind: str, name: str) -> ChoiceT:
    if name not in choices:
        raise ConfigError(f"{kind}.name is {name!r}; expected one of {', '.join(choices)}")
    return choices[name]
