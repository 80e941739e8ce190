"""Pairs of texts: what translation and summarization share."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from omegaconf import MISSING

from repro.config.schema.checks import require
from repro.config.schema.groups import DataConfig, TaskConfig
from repro.config.schema.loss import FenchelYoungLossConfig
from repro.config.schema.mapping import MappingConfig
from repro.config.schema.seq2seq import RescoredBeamConfig, TranslatorConfig


@dataclass
class TextPairsConfig(DataConfig):
    """A corpus of text pairs and how it becomes symbols.

    Attributes:
        subset: accept another number of pairs than the corpus has.
        lowercase: both sides.
        strip_source_diacritics: replace letters of the source by those without marks.
        merges: of byte pair encoding; 0 keeps words whole.
        joint: learn merges from both sides together.
        vocabulary: most symbols of a side that are kept.
        shared: one vocabulary for both sides.
        max_length: training pairs with a longer side are left out.
    """

    subset: bool = False
    lowercase: bool = False
    strip_source_diacritics: bool = False
    merges: int = 0
    joint: bool = True
    vocabulary: int = 50_000
    shared: bool = False
    max_length: int = 50

    def __post_init__(self) -> None:
        """Refuse settings that leave nothing."""
        require(self.merges >= 0, "data.merges", self.merges, "a number >= 0")
        for key in ("vocabulary", "max_length"):
            require(getattr(self, key) > 0, f"data.{key}", getattr(self, key), "a number > 0")


@dataclass
class TranslationDataConfig(TextPairsConfig):
    """A parallel corpus, read from ``source`` to ``target``."""

    source: str = MISSING
    target: str = MISSING


@dataclass
class TextTaskConfig(TaskConfig):
    """A task from text to text.

    Attributes:
        analysed: validation examples whose attention is stored for the figures.
    """

    parts: ClassVar[Mapping[str, type]] = {
        "data": TextPairsConfig,
        "mapping": MappingConfig,
        "loss": FenchelYoungLossConfig,
        "model": TranslatorConfig,
        "decoding": RescoredBeamConfig,
    }

    analysed: int = 40

    def __post_init__(self) -> None:
        """Refuse a negative number."""
        require(self.analysed >= 0, "task.analysed", self.analysed, "a number >= 0")


SCHEMAS: dict[str, dict[str, type]] = {
    "data": {"text_pairs": TextPairsConfig, "translation": TranslationDataConfig}
}
