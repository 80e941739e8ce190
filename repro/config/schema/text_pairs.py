"""Pairs of texts: machine translation and sentence summarization."""

from dataclasses import dataclass, field, fields
from typing import ClassVar

from omegaconf import MISSING

from repro.config.errors import ConfigError
from repro.config.schema.checks import choice, identifier, number
from repro.config.schema.groups import DataConfig, TaskConfig
from repro.config.schema.mapping import BoundedConfig
from repro.config.schema.seq2seq import RescoredBeamConfig, Seq2SeqRun, TranslatorConfig

DIACRITICS = ("none", "source", "target", "both")

SEARCH_SETTINGS = frozenset(
    {f"decoding.{field.name}" for field in fields(RescoredBeamConfig)} - {"decoding.batch_size"}
) | {"task.stored_examples", "task.shown"}
"""Settings that only search and later steps read; validation reads ``decoding.batch_size``."""


@dataclass
class TextSettings:
    """Settings for turning text into tokens."""

    lowercase: bool = False  # lower-case both sides, before any other step
    # Sides whose diacritics are removed: `none`, `source`, `target` or `both`.
    strip_diacritics: str = choice(DIACRITICS, "none")
    # Number of merges of byte pair encoding; 0 keeps words whole.
    merges: int = number("[0, inf)", 0)
    joint: bool = True  # learn merges from both sides together


@dataclass
class EncodingSettings:
    """Settings for turning tokens into ids."""

    # Largest number of symbols to keep per side, special ones not counted.
    vocabulary: int = number("(0, inf)", 50_000)
    shared: bool = False  # use one vocabulary for both sides
    max_length: int = number("(0, inf)", 50)  # training pairs with a longer side are left out


@dataclass
class TextPairsConfig(TextSettings, EncodingSettings, DataConfig):
    """A corpus of text pairs and its preprocessing."""

    check_size: bool = True  # refuse a corpus whose number of pairs is not the expected one
    # Test pairs with more tokens on either side, counted before the split into subwords, are left
    # out of hypotheses, references and metrics; `null` keeps all.
    max_test_length: int | None = number("(0, inf)", None)
    # Whether the files of `folder` are tokenized; published corpora declare it.
    tokenised: bool = False


@dataclass
class TranslationDataConfig(TextPairsConfig):
    """A parallel corpus, read from ``source`` to ``target``."""

    source: str = identifier()
    target: str = identifier()


@dataclass
class TextTaskConfig(TaskConfig):
    """A task from text to text."""

    selectors: ClassVar[tuple[str, ...]] = ("token_accuracy",)
    unread: ClassVar[tuple[str, ...]] = ("shown",)

    # Number of validation examples whose attention is stored for figures.
    stored_examples: int = number("[0, inf)", 40)
    # Sentences, source or target, of the papers' figures. The first pair with each of them, in
    # validation, test or training data, is stored too, without effect on metrics.
    shown: list[str] = field(default_factory=list)


@dataclass
class TextRun(Seq2SeqRun):
    """A run of a task from text to text."""

    task: TextTaskConfig = MISSING
    data: TextPairsConfig = MISSING
    decoding: RescoredBeamConfig = MISSING

    def __post_init__(self) -> None:
        """Refuse bounds of models without fertilities, and contradictory length limits."""
        super().__post_init__()
        if isinstance(self.mapping, BoundedConfig) and not isinstance(self.model, TranslatorConfig):
            raise ConfigError(
                f"mapping={self.mapping.name} needs model.fertility, which this model does not have"
                "; choose a mapping without bounds, such as mapping=softmax, or model=translator"
            )
        if self.decoding.min_length > self.decoding.max_length:
            raise ConfigError(
                f"decoding.min_length is {self.decoding.min_length}; expected a number of at most "
                f"decoding.max_length, {self.decoding.max_length}"
            )


@dataclass
class NmtConfig(TextTaskConfig):
    """Machine translation."""

    # By which `decoding.tune_penalties` selects; `bleu_lc` is on lower-cased tokens.
    tuned_metric: str = choice(("bleu", "bleu_lc"), "bleu")


@dataclass
class NmtRun(TextRun):
    """A run of machine translation."""

    task: NmtConfig = MISSING
    data: TranslationDataConfig = MISSING


@dataclass
class SummarizationConfig(TextTaskConfig):
    """Summarization of news sentences by titles."""


@dataclass
class SummarizationRun(TextRun):
    """A run of sentence summarization."""

    task: SummarizationConfig = MISSING


RUNS = (NmtRun, SummarizationRun)
SCHEMAS: dict[str, dict[str, type]] = {
    "task": {"nmt": NmtConfig, "summarization": SummarizationConfig},
    "data": {"text_pairs": TextPairsConfig, "translation": TranslationDataConfig},
}
