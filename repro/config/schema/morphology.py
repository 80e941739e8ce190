"""Morphological inflection."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from omegaconf import MISSING

from repro.config.schema.checks import require, require_choice
from repro.config.schema.groups import DataConfig, TaskConfig
from repro.config.schema.loss import FenchelYoungLossConfig
from repro.config.schema.mapping import MappingConfig
from repro.config.schema.seq2seq import BeamConfig, Seq2SeqConfig


@dataclass
class ScheduleConfig:
    """How long a data setting trains: epochs, and epochs between validations."""

    max_epochs: int = MISSING
    validate_every: int = MISSING


@dataclass
class MorphologyConfig(TaskConfig):
    """Morphological inflection (CoNLL–SIGMORPHON 2018, task 1).

    Attributes:
        setting: training set size: ``medium`` or ``high``.
        languages: to train and test on; ``null`` takes every one that has the setting.
        schedule: training length for each setting.
        analysed: validation examples of each language whose attention and complete set of
            hypotheses are stored for the figures.
    """

    parts: ClassVar[Mapping[str, type]] = {
        "data": DataConfig,
        "mapping": MappingConfig,
        "loss": FenchelYoungLossConfig,
        "model": Seq2SeqConfig,
        "decoding": BeamConfig,
    }

    setting: str = MISSING
    languages: list[str] | None = None
    schedule: dict[str, ScheduleConfig] = field(default_factory=dict)
    analysed: int = 40

    def __post_init__(self) -> None:
        """Refuse an unknown setting, and a negative number of examples."""
        require_choice("task.setting", self.setting, ("medium", "high"))
        require(self.analysed >= 0, "task.analysed", self.analysed, "a number >= 0")


SCHEMAS: dict[str, dict[str, type]] = {"task": {"morphology": MorphologyConfig}}
