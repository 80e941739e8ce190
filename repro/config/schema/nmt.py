"""Machine translation."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from repro.config.schema.checks import choice
from repro.config.schema.text_pairs import TextTaskConfig, TranslationDataConfig


@dataclass
class NmtConfig(TextTaskConfig):
    """Neural machine translation.

    Attributes:
        tuned_metric: by which ``decoding.tune_penalties`` chooses on validation data: ``bleu`` or
            ``bleu_lc``, of lower-cased tokens.
    """

    parts: ClassVar[Mapping[str, type]] = {**TextTaskConfig.parts, "data": TranslationDataConfig}

    tuned_metric: str = choice(("bleu", "bleu_lc"), "bleu", late=True)


SCHEMAS: dict[str, dict[str, type]] = {"task": {"nmt": NmtConfig}}
