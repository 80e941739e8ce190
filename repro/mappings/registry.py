"""The single list of mappings that configuration, law tests, benchmarks and plots read."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from repro.mappings._entmax import entmax
from repro.mappings._reference import (
    entmax_by_bisection,
    softmax_by_definition,
    sparsemax_by_sorting,
)
from repro.mappings._simplex import softmax, sparsemax
from repro.mappings.modules import Entmax, ProbabilityMap, Softmax, Sparsemax


@dataclass(frozen=True)
class MappingSpec:
    """One mapping.

    Attributes:
        name: key in configuration, tables and figures.
        module: makes the module with its default settings.
        function: the public function, called as ``function(scores, mask=None, dim=-1)``.
        reference: slow oracle along the last axis in float64; None if there is none.
        sparse: whether it returns exact zeros on finite scores.
        color: plot colour.
        marker: plot marker.
    """

    name: str
    module: Callable[[], ProbabilityMap]
    function: Callable[..., Tensor]
    reference: Callable[[Tensor], Tensor] | None
    sparse: bool
    color: str
    marker: str


_SPECS = (
    MappingSpec("softmax", Softmax, softmax, softmax_by_definition, False, "#4477aa", "o"),
    MappingSpec("sparsemax", Sparsemax, sparsemax, sparsemax_by_sorting, True, "#ee6677", "s"),
    MappingSpec("entmax", Entmax, entmax, entmax_by_bisection, True, "#228833", "^"),
)

MAPPINGS: dict[str, MappingSpec] = {spec.name: spec for spec in _SPECS}
"""Every mapping by name."""
