"""Sentence summarization."""

from dataclasses import dataclass

from repro.config.schema.text_pairs import TextTaskConfig


@dataclass
class SummarizationConfig(TextTaskConfig):
    """Titles of news sentences."""


SCHEMAS: dict[str, dict[str, type]] = {"task": {"summarization": SummarizationConfig}}
