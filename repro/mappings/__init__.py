"""Mappings from scores to probability vectors; independent of the rest of the package.

Functions: :func:`softmax`, :func:`sparsemax`, :func:`entmax`, :func:`entmax15`,
:func:`fusedmax`, :func:`oscarmax`, :func:`sq_pnorm_max`, :func:`normmax`, :func:`budget`, and,
under upper bounds, :func:`csoftmax`, :func:`csparsemax`. Modules with the same names in CamelCase
share the interface :class:`ProbabilityMap`. :func:`regularized` derives a mapping from any
differentiable regularizer. :data:`MAPPINGS` lists them all, for configuration, property tests,
benchmarks and plots.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from torch import Tensor

from repro.mappings import _reference as slow
from repro.mappings._bounded import Budget, Csoftmax, Csparsemax, budget, csoftmax, csparsemax
from repro.mappings._entmax import entmax, entmax15, softmax, sparsemax
from repro.mappings._grouped import Fusedmax, Oscarmax, fusedmax, oscarmax
from repro.mappings._norm import Normmax, SqPnormMax, normmax, sq_pnorm_max
from repro.mappings.modules import (
    ConvergenceWarning,
    Entmax,
    Entmax15,
    LearnedAlphaEntmax,
    ProbabilityMap,
    Softmax,
    Sparsemax,
)
from repro.mappings.regularized import regularized

__all__ = [
    "MAPPINGS",
    "Budget",
    "ConvergenceWarning",
    "Csoftmax",
    "Csparsemax",
    "Entmax",
    "Entmax15",
    "Fusedmax",
    "LearnedAlphaEntmax",
    "MappingSpec",
    "Normmax",
    "Oscarmax",
    "ProbabilityMap",
    "Softmax",
    "Sparsemax",
    "SqPnormMax",
    "budget",
    "csoftmax",
    "csparsemax",
    "entmax",
    "entmax15",
    "fusedmax",
    "normmax",
    "oscarmax",
    "regularized",
    "softmax",
    "sparsemax",
    "sq_pnorm_max",
]

LineStyle = str | tuple[int, tuple[float, ...]]
"""Matplotlib line style: a name, or an offset and the lengths of dashes and gaps in points."""
_DASHED, _DOTTED, _DASH_DOTTED = (0, (6, 2)), (0, (1, 1.2)), (0, (5, 1.5, 1, 1.5))


@dataclass(frozen=True)
class MappingSpec:
    """Description of one mapping.

    Attributes:
        name: key in configuration, tables and figures.
        module: callable that creates the module with its default settings.
        function: the public function, called as ``function(scores, mask=None, dim=-1)``.
        reference: slow implementation on the last axis in float64 to test against.
        sparse: whether it returns exact zeros on finite scores.
        color: plot color.
        marker: plot marker.
        line: plot line style; no two mappings share color and line.
        bounded: whether function, module and reference take upper bounds as second argument.
        sequential: whether the order of the entries matters; then even an allowed entry of mass
            zero separates its neighbors.
    """

    name: str
    module: Callable[[], ProbabilityMap]
    function: Callable[..., Tensor]
    reference: Callable[..., Tensor]
    sparse: bool
    color: str
    marker: str
    bounded: bool = False
    sequential: bool = False
    line: LineStyle = "-"


MAPPINGS: dict[str, MappingSpec] = {spec.name: spec for spec in (
    MappingSpec("softmax", Softmax, softmax, slow.softmax_by_definition, False, "#4477aa", "o",
                line=_DASHED),
    MappingSpec("sparsemax", Sparsemax, sparsemax, slow.sparsemax_by_sorting, True, "#ee6677", "s"),
    MappingSpec("entmax", Entmax, entmax, slow.entmax_by_bisection, True, "#228833", "^"),
    MappingSpec("fusedmax", Fusedmax, fusedmax, slow.fusedmax_by_splitting, True, "#ccbb44", "s",
                sequential=True, line=_DASH_DOTTED),
    MappingSpec("oscarmax", Oscarmax, oscarmax, slow.oscarmax_by_pooling, True, "#997700", "o"),
    MappingSpec("sq_pnorm_max", SqPnormMax, sq_pnorm_max, slow.sq_pnorm_max_by_bisection, True,
                "#228833", "d", line=_DOTTED),
    MappingSpec("csoftmax", Csoftmax, csoftmax, slow.csoftmax_by_bisection, False, "#4477aa", "v",
                bounded=True, line=_DOTTED),
    MappingSpec("csparsemax", Csparsemax, csparsemax, slow.csparsemax_by_bisection, True,
                "#ee6677", "D", bounded=True, line=_DOTTED),
    MappingSpec("normmax", Normmax, normmax, slow.normmax_by_bisection, True, "#aa3377", "P",
                line=_DASH_DOTTED),
    MappingSpec("budget", partial(Budget, k=1.0), partial(budget, k=1.0), slow.budget_by_bisection,
                True, "#66ccee", "X"),
)}  # fmt: skip
"""All mappings by name."""
