"""Base schemas of the configuration groups that every task has, or may have."""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from omegaconf import MISSING

from repro.config.errors import ConfigError
from repro.config.schema.checks import check_fields, identifier, number


@dataclass
class TaskConfig:
    """A task; ``name`` is its key in ``repro.tasks``."""

    selectors: ClassVar[tuple[str, ...]] = ()  # validation metrics that `training.monitor` may name

    name: str = MISSING

    def __post_init__(self) -> None:
        """Refuse values out of range at once: other groups interpolate those of the task."""
        check_fields(self, "task.")


@dataclass
class DataConfig:
    """Settings of the corpus."""

    corpus: str = identifier()  # name of the corpus; with `folder`, the name of the folder
    # Whether the corpus is generated, in the format of the published one; never with `folder`.
    generated: bool = False
    seed: int = number("[0, 9223372036854775808)", 2018)  # seed of a generated corpus
    # User-supplied files instead of a published or generated corpus; relative to `data_dir`.
    folder: str | None = None

    def __post_init__(self) -> None:
        """Let the folder replace the corpus that a scale or protocol names."""
        if self.folder == "":
            raise ConfigError("data.folder is ''; expected a folder, or null")
        if self.folder is not None:
            self.folder = os.path.normpath(self.folder)
            self.generated = False
            self.corpus = re.sub(r"[^\w.-]+|^\W+", "-", Path(self.folder).name).strip("-.") or "own"


@dataclass
class ModelConfig:
    """Settings of a model; ``name`` selects which."""

    name: str = MISSING


@dataclass
class StructureConfig:
    """A structure; ``name`` is its key in ``STRUCTURES``."""

    name: str = MISSING


@dataclass
class PairStructureConfig(StructureConfig):
    """A structure of word pairs: it takes scores ``(B, m, n)`` and lengths ``(B, 2)``."""


@dataclass
class HeadStructureConfig(StructureConfig):
    """A structure of dependency trees, a ``HeadStructure``; the task sets its ``single_root``."""


@dataclass
class DecodingConfig:
    """Settings of the search for outputs."""


SCHEMAS: dict[str, dict[str, type]] = {
    "data": {"data": DataConfig},
    "structure": {"pairs": PairStructureConfig, "heads": HeadStructureConfig},
}
