"""Machine translation."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from repro.config.schema.text_pairs import TextTaskConfig, TranslationDataConfig


@dataclass
class NmtConfig(TextTaskConfig):
    """Neural machine translation."""

    parts: ClassVar[Mapping[str, type]] = {**TextTaskConfig.parts, "data": TranslationDataConfig}


SCHEMAS: dict[str, dict[str, type]] = {"task": {"nmt": NmtConfig}}
