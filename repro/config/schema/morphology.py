"""Morphological inflection."""

from dataclasses import dataclass, field
from typing import ClassVar

from omegaconf import MISSING

from repro.config.schema.checks import choice, identifier, number
from repro.config.schema.groups import TaskConfig
from repro.config.schema.mapping import UnboundedConfig
from repro.config.schema.seq2seq import BeamConfig, Seq2SeqRun


@dataclass
class ScheduleConfig:
    """Length of training for one data setting."""

    max_epochs: int = number("(0, inf)")  # epochs of training
    validate_every: int = number("(0, inf)")  # epochs between validations
    # First epoch, counted from one, after which a `training.schedule` that counts epochs decays the
    # learning rate.
    decay_from: int = number("(0, inf)", 1)


@dataclass
class MorphologyConfig(TaskConfig):
    """Morphological inflection (CoNLL–SIGMORPHON 2018, task 1)."""

    selectors: ClassVar[tuple[str, ...]] = ("accuracy",)
    unread: ClassVar[tuple[str, ...]] = ("shown",)
    unordered: ClassVar[tuple[str, ...]] = ("languages",)

    setting: str = choice(("medium", "high"))  # training set size: `medium` or `high`
    # Languages to train and test on; `null` for all that have the setting.
    languages: list[str] | None = identifier(None)
    # Training length for each setting.
    schedule: dict[str, ScheduleConfig] = field(default_factory=dict)
    # Number of validation examples per language whose attention and complete set of hypotheses are
    # stored for the figures.
    stored_examples: int = number("[0, inf)", 40)
    # Lemmas, alone or followed by a form, of the papers' figures. Every example with one of them,
    # in validation, test or training data, is stored too, without effect on metrics.
    shown: list[str] = field(default_factory=list)


@dataclass
class MorphologyRun(Seq2SeqRun):
    """A run of morphological inflection."""

    corpus_settings: ClassVar[tuple[str, ...]] = ("data.", "task.languages", "task.setting")

    task: MorphologyConfig = MISSING
    mapping: UnboundedConfig = MISSING
    decoding: BeamConfig = MISSING


RUNS = (MorphologyRun,)
SCHEMAS: dict[str, dict[str, type]] = {"task": {"morphology": MorphologyConfig}}
