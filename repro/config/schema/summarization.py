"""Sentence summarization."""

from dataclasses import dataclass

from omegaconf import MISSING

from repro.config.schema.text_pairs import TextRun, TextTaskConfig


@dataclass
class SummarizationConfig(TextTaskConfig):
    """Titles of news sentences."""


@dataclass
class SummarizationRun(TextRun):
    """A run of sentence summarization."""

    task: SummarizationConfig = MISSING


RUNS = (SummarizationRun,)
SCHEMAS: dict[str, dict[str, type]] = {"task": {"summarization": SummarizationConfig}}
