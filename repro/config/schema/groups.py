"""Groups that every task has, or may have: what all of their choices share."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from omegaconf import MISSING

from repro.config.schema.checks import check_fields, identifier, number


@dataclass
class TaskConfig:
    """A task; ``name`` is its key in ``repro.tasks``.

    Attributes:
        parts: the kind of configuration that the task takes for each group that is its own
            choice; a group that is not named here is none of this task.
        selectors: validation metrics that ``training.select`` may name.
    """

    parts: ClassVar[Mapping[str, type]] = {}
    selectors: ClassVar[tuple[str, ...]] = ()

    name: str = MISSING

    def __post_init__(self) -> None:
        """Refuse values out of range at once: other groups interpolate those of the task."""
        check_fields(self, "task.")


@dataclass
class DataConfig:
    """Which corpus is read: the original one, or a generated one in the same format."""

    corpus: str = identifier()
    generated: bool = False
    seed: int = number("[0, 9223372036854775808)", 2018)


@dataclass
class ModelConfig:
    """A model; ``name`` says which."""

    name: str = MISSING


@dataclass
class DecodingConfig:
    """How outputs are searched for."""


SCHEMAS: dict[str, dict[str, type]] = {"data": {"data": DataConfig}}
