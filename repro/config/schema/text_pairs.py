"""Pairs of texts: machine translation and sentence summarization."""

from dataclasses import dataclass, field
from typing import ClassVar

from omegaconf import MISSING

from repro.config.errors import ConfigError
from repro.config.schema.checks import added_later, choice, identifier, number, renamed
from repro.config.schema.groups import DataConfig, TaskConfig
from repro.config.schema.seq2seq import RescoredBeamConfig, Seq2SeqRun, TranslatorConfig

DIACRITICS = ("none", "source", "target", "both")


@dataclass
class TextSettings:
    """Settings for turning text into tokens.

    Attributes:
        lowercase: both sides, before anything else.
        strip_diacritics: sides whose letters lose their marks: ``none``, ``source``, ``target``
            or ``both``.
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
        vocabulary: most symbols of a side that are kept, special ones not counted.
        shared: one vocabulary for both sides.
        max_length: training pairs with a longer side are left out.
    """

    vocabulary: int = number("(0, inf)", 50_000)
    shared: bool = False
    max_length: int = number("(0, inf)", 50)


@dataclass
class TextPairsConfig(TextSettings, EncodingSettings, DataConfig):
    """A corpus of text pairs and how it becomes symbols.

    Attributes:
        check_size: refuse another number of pairs than the corpus has.
        max_test_length: test pairs of which a side has more tokens, counted before they are split
            into subwords, are left out of hypotheses, references and metrics; ``null`` keeps all.
        tokenised: whether the files of ``folder`` are tokenised; published corpora declare it.
    """

    check_size: bool = renamed("subset", field(default=True), {True: False, False: True})
    max_test_length: int | None = number("(0, inf)", None, added_later=True)
    tokenised: bool = added_later(False)


@dataclass
class TranslationDataConfig(TextPairsConfig):
    """A parallel corpus, read from ``source`` to ``target``."""

    source: str = identifier()
    target: str = identifier()


@dataclass
class TextTaskConfig(TaskConfig):
    """A task from text to text.

    Attributes:
        stored_examples: validation examples whose attention is stored for the figures.
        shown: sentences, source or target, of the papers' figures. The first pair with each of
            them, in the validation, test or training data, is stored too and changes no metric.
    """

    selectors: ClassVar[tuple[str, ...]] = ("token_accuracy",)

    stored_examples: int = renamed("analysed", number("[0, inf)", 40))
    shown: list[str] = added_later([])


@dataclass
class TextRun(Seq2SeqRun):
    """A run of a task from text to text."""

    task: TextTaskConfig = MISSING
    data: TextPairsConfig = MISSING
    model: TranslatorConfig = MISSING
    decoding: RescoredBeamConfig = MISSING

    def __post_init__(self) -> None:
        """Refuse a search that finds no output, and unknown words of subwords to be replaced."""
        super().__post_init__()
        if self.decoding.min_length > self.decoding.max_length:
            raise ConfigError(
                f"decoding.min_length is {self.decoding.min_length}; expected a number of at most "
                f"decoding.max_length, {self.decoding.max_length}"
            )
        if self.decoding.replace_unknown and self.data.merges:
            raise ConfigError(
                f"decoding.replace_unknown=true needs whole words, but data.merges is "
                f"{self.data.merges}; set data.merges=0, or decoding.replace_unknown=false"
            )


@dataclass
class NmtConfig(TextTaskConfig):
    """Machine translation.

    Attributes:
        tuned_metric: by which ``decoding.tune_penalties`` chooses on validation data: ``bleu`` or
            ``bleu_lc``, of lower-cased tokens.
    """

    tuned_metric: str = choice(("bleu", "bleu_lc"), "bleu", added_later=True)


@dataclass
class NmtRun(TextRun):
    """A run of machine translation."""

    task: NmtConfig = MISSING
    data: TranslationDataConfig = MISSING


@dataclass
class SummarizationConfig(TextTaskConfig):
    """Titles of news sentences."""


@dataclass
class SummarizationRun(TextRun):
    """A run of sentence summarization."""

    task: SummarizationConfig = MISSING


RUNS = (NmtRun, SummarizationRun)
SCHEMAS: dict[str, dict[str, type]] = {
    "task": {"nmt": NmtConfig, "summarization": SummarizationConfig},
    "data": {"text_pairs": TextPairsConfig, "translation": TranslationDataConfig},
}
