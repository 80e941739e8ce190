"""Pairs of texts: what translation and summarization share."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from repro.config.schema.checks import LATE, choice, identifier, number
from repro.config.schema.groups import DataConfig, TaskConfig
from repro.config.schema.loss import FenchelYoungLossConfig
from repro.config.schema.mapping import MappingConfig
from repro.config.schema.seq2seq import RescoredBeamConfig, TranslatorConfig

DIACRITICS = ("none", "source", "target", "both")


@dataclass
class TextPairsConfig(DataConfig):
    """A corpus of text pairs and how it becomes symbols.

    Attributes:
        subset: accept another number of pairs than the corpus has.
        lowercase: both sides.
        strip_diacritics: sides whose letters lose their marks: ``none``, ``source``, ``target``
            or ``both``.
        merges: of byte pair encoding; 0 keeps words whole.
        joint: learn merges from both sides together.
        vocabulary: most symbols of a side that are kept.
        shared: one vocabulary for both sides.
        max_length: training pairs with a longer side are left out.
        max_test_length: test pairs of which a side has more tokens, counted before they are split
            into subwords, are left out of hypotheses, references and metrics; ``null`` keeps all.
    """

    subset: bool = False
    lowercase: bool = False
    strip_diacritics: str = choice(DIACRITICS, "none")
    merges: int = number("[0, inf)", 0)
    joint: bool = True
    vocabulary: int = number("(0, inf)", 50_000)
    shared: bool = False
    max_length: int = number("(0, inf)", 50)
    max_test_length: int | None = number("(0, inf)", None, late=True)


@dataclass
class TranslationDataConfig(TextPairsConfig):
    """A parallel corpus, read from ``source`` to ``target``."""

    source: str = identifier()
    target: str = identifier()


@dataclass
class TextTaskConfig(TaskConfig):
    """A task from text to text.

    Attributes:
        analysed: validation examples whose attention is stored for the figures.
        shown: sentences, source or target, of the papers' figures. The first pair with each of
            them, in the validation, test or training data, is stored too and changes no metric.
    """

    parts: ClassVar[Mapping[str, type]] = {
        "data": TextPairsConfig,
        "mapping": MappingConfig,
        "loss": FenchelYoungLossConfig,
        "model": TranslatorConfig,
        "decoding": RescoredBeamConfig,
    }

    selectors: ClassVar[tuple[str, ...]] = ("token_accuracy",)

    analysed: int = number("[0, inf)", 40)
    shown: list[str] = field(default_factory=list, metadata={LATE: True})


SCHEMAS: dict[str, dict[str, type]] = {
    "data": {"text_pairs": TextPairsConfig, "translation": TranslationDataConfig}
}
