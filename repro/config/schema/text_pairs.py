"""Pairs of texts: machine translation and sentence summarization."""

from dataclasses import dataclass, field, fields
from typing import ClassVar

from omegaconf import MISSING

from repro.config.errors import ConfigError
from repro.config.schema.checks import choice, identifier, number
from repro.config.schema.groups import DataConfig, TaskConfig
from repro.config.schema.seq2seq import RescoredBeamConfig, Seq2SeqRun

DIACRITICS = ("none", "source", "target", "both")

SEARCH_SETTINGS = frozenset(
    {f"decoding.{field.name}" for field in fields(RescoredBeamConfig)} - {"decoding.batch_size"}
) | {"task.stored_examples", "task.shown"}
"""Settings that only search and later steps read; validation reads ``decoding.batch_size``."""


@dataclass
class TextSettings:
    """Settings for turning text into tokens.

    Attributes:
        lowercase: lower-case both sides, before any other step.
        strip_diacritics: sides whose diacritics are removed: ``none``, ``source``, ``target`` or
            ``both``.
        merges: number of merges of byte pair encoding; 0 keeps words whole.
        joint: learn merges from both sides together.
    """

    lowercase: bool = False
    strip_diacritics: str = choice(DIACRITICS, "none")
    merges: int = number("[0, inf)", 0)
    joint: bool = True


@dataclass
class EncodingSettings:
    """Settings for turning tokens into ids.

    Attributes:
        vocabulary: largest number of symbols to keep per side, special ones not counted.
        shared: use one vocabulary for both sides.
        max_length: training pairs with a longer side are left out.
    """

    vocabulary: int = number("(0, inf)", 50_000)
    shared: bool = False
    max_length: int = number("(0, inf)", 50)


@dataclass
class TextPairsConfig(TextSettings, EncodingSettings, DataConfig):
    """A corpus of text pairs and its preprocessing.

    Attributes:
        check_size: refuse a corpus whose number of pairs is not the expected one.
        max_test_length: test pairs with more tokens on either side, counted before the split into
            subwords, are left out of hypotheses, references and metrics; ``null`` keeps all.
        tokenised: whether the files of ``folder`` are tokenized; published corpora declare it.
    """

    check_size: bool = True
    max_test_length: int | None = number("(0, inf)", None)
    tokenised: bool = False


@dataclass
class TranslationDataConfig(TextPairsConfig):
    """A parallel corpus, read from ``source`` to ``target``."""

    source: str = identifier()
    target: str = identifier()


@dataclass
class TextTaskConfig(TaskConfig):
    """A task from text to text.

    Attributes:
        stored_examples: number of validation examples whose attention is stored for figures.
        shown: sentences, source or target, of the papers' figures. The first pair with each of
            them, in validation, test or training data, is stored too, without effect on metrics.
    """

    selectors: ClassVar[tuple[str, ...]] = ("token_accuracy",)

    stored_examples: int = number("[0, inf)", 40)
    shown: list[str] = field(default_factory=list)


@dataclass
class TextRun(Seq2SeqRun):
    """A run of a task from text to text."""

    task: TextTaskConfig = MISSING
    data: TextPairsConfig = MISSING
    decoding: RescoredBeamConfig = MISSING

    def __post_init__(self) -> None:
        """Refuse contradictory length limits."""
        super().__post_init__()
        if self.decoding.min_length > self.decoding.max_length:
            raise ConfigError(
                f"decoding.min_length is {self.decoding.min_length}; expected a number of at most "
                f"decoding.max_length, {self.decoding.max_length}"
            )


@dataclass
class NmtConfig(TextTaskConfig):
    """Machine translation.

    Attributes:
        tuned_metric: metric by which ``decoding.tune_penalties`` selects on validation data:
            ``bleu``, or ``bleu_lc`` on lower-cased tokens.
    """

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
