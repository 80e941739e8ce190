"""Structures: ``conf/structure``."""

from dataclasses import dataclass

from omegaconf import MISSING


@dataclass
class StructureConfig:
    """A structure; ``name`` is its key in ``STRUCTURES``."""

    name: str = MISSING


@dataclass
class PairStructureConfig(StructureConfig):
    """A structure of word pairs: it takes scores ``(B, m, n)`` and lengths ``(B, 2)``."""


SCHEMAS: dict[str, dict[str, type]] = {"structure": {"pairs": PairStructureConfig}}
