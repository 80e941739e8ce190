"""Mappings from scores to probability vectors; usable alone, imports nothing else of the package.

Functions: :func:`softmax`, :func:`sparsemax`, :func:`entmax`. Modules with the same names in
CamelCase share the interface :class:`ProbabilityMap`. :data:`MAPPINGS` lists them all.
"""

from repro.mappings._entmax import entmax
from repro.mappings._simplex import softmax, sparsemax
from repro.mappings.modules import (
    Entmax,
    LearnedAlphaEntmax,
    ProbabilityMap,
    Softmax,
    Sparsemax,
)
from repro.mappings.registry import MAPPINGS, MappingSpec

__all__ = [
    "MAPPINGS",
    "Entmax",
    "LearnedAlphaEntmax",
    "MappingSpec",
    "ProbabilityMap",
    "Softmax",
    "Sparsemax",
    "entmax",
    "softmax",
    "sparsemax",
]
