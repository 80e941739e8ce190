"""Machine translation."""

from dataclasses import dataclass

from omegaconf import MISSING

from repro.config.schema.checks import choice
from repro.config.schema.text_pairs import TextRun, TextTaskConfig, TranslationDataConfig


@dataclass
class NmtConfig(TextTaskConfig):
    """Neural machine translation.

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


RUNS = (NmtRun,)
SCHEMAS: dict[str, dict[str, type]] = {"task": {"nmt": NmtConfig}}
