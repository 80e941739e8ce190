"""Mappings from scores to probability vectors; independent of the rest of the package.

Functions: :func:`softmax`, :func:`sparsemax`, :func:`entmax`, :func:`entmax15`,
:func:`fusedmax`, :func:`oscarmax`, :func:`sq_pnorm_max`, :func:`normmax`, :func:`budget`, and,
under upper bounds, :func:`csoftmax`, :func:`csparsemax`. Modules with the same names in CamelCase
share the interface :class:`ProbabilityMap`. :func:`regularized` derives a mapping from any
differentiable regularizer. :data:`MAPPINGS` lists them all, for configuration, property tests
and benchmarks.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import Tensor

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


def _undeclared(*arguments: Any, **settings: Any) -> Tensor:
    raise NotImplementedError("this mapping is declared by its module alone")


@dataclass(frozen=True)
class MappingSpec:
    """Description of one mapping; those of the package declare everything.

    Attributes:
        name: key in configuration, tables and figures.
        module: callable that creates the module, from its settings as keywords.
        function: the public function, called as ``function(scores, mask=None, dim=-1)``.
        sparse: whether it returns exact zeros on finite scores.
        bounded: whether function and module take upper bounds as second argument.
        sequential: whether the order of the entries matters; then even an allowed entry of mass
            zero separates its neighbors.
        kernel: whether it has kernels.
    """

    name: str
    module: Callable[..., ProbabilityMap]
    function: Callable[..., Tensor] = _undeclared
    sparse: bool = True
    bounded: bool = False
    sequential: bool = False
    kernel: bool = False


MAPPINGS: dict[str, MappingSpec] = {spec.name: spec for spec in (
    MappingSpec("softmax", Softmax, softmax, sparse=False),
    MappingSpec("sparsemax", Sparsemax, sparsemax, kernel=True),
    MappingSpec("entmax", Entmax, entmax, kernel=True),
    MappingSpec("fusedmax", Fusedmax, fusedmax, sequential=True, kernel=True),
    MappingSpec("oscarmax", Oscarmax, oscarmax, kernel=True),
    MappingSpec("sq_pnorm_max", SqPnormMax, sq_pnorm_max, kernel=True),
    MappingSpec("csoftmax", Csoftmax, csoftmax, sparse=False, bounded=True, kernel=True),
    MappingSpec("csparsemax", Csparsemax, csparsemax, bounded=True, kernel=True),
    MappingSpec("normmax", Normmax, normmax),
    MappingSpec("budget", partial(Budget, k=1.0), partial(budget, k=1.0), kernel=True),
)}  # fmt: skip
"""All mappings by name."""
