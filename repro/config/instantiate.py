"""Objects from configuration: mappings and losses."""

from collections.abc import Callable
from dataclasses import asdict

from repro.config.errors import ConfigError
from repro.config.schema import LossConfig, MappingConfig
from repro.losses import FenchelYoungLoss
from repro.mappings import MAPPINGS, LearnedAlphaEntmax, ProbabilityMap

_MODULES: dict[str, Callable[..., ProbabilityMap]] = {
    # A bounded mapping takes upper bounds in every call, which plain attention does not have.
    **{name: spec.module for name, spec in MAPPINGS.items() if not spec.bounded},
    "learned_alpha_entmax": LearnedAlphaEntmax,
}


def build_mapping(config: MappingConfig) -> ProbabilityMap:
    """The mapping that a ``mapping`` configuration names.

    Raises:
        ConfigError: there is no mapping of this name.
    """
    settings = asdict(config)
    return _mapping(settings.pop("name"), settings)


def build_loss_mapping(config: LossConfig) -> ProbabilityMap:
    """The mapping that generates a loss, and that turns trained scores into probabilities."""
    settings = asdict(config)
    settings.pop("label_smoothing")
    return _mapping(settings.pop("name"), settings)


def build_loss(config: LossConfig, mapping: ProbabilityMap, ignore_index: int) -> FenchelYoungLoss:
    """The Fenchel–Young loss of a mapping, summed over all targets but ``ignore_index``."""
    return FenchelYoungLoss(
        mapping,
        ignore_index=ignore_index,
        reduction="sum",
        label_smoothing=config.label_smoothing,
    )


def _mapping(name: str, settings: dict[str, float]) -> ProbabilityMap:
    if name not in _MODULES:
        raise ConfigError(f"no mapping {name!r}; choose from: {', '.join(_MODULES)}")
    return _MODULES[name](**settings)
