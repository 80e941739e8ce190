"""Mappings from scores to probability vectors; independent of the rest of the package.

Functions: :func:`softmax`, :func:`sparsemax`, :func:`entmax`, :func:`entmax15`,
:func:`fusedmax`, :func:`oscarmax`, :func:`sq_pnorm_max`, :func:`normmax`, :func:`budget`, and,
under upper bounds, :func:`csoftmax`, :func:`csparsemax`. Modules with the same names in CamelCase
share the interface :class:`ProbabilityMap`. :data:`MAPPINGS` lists them all. :func:`regularized`
derives a mapping from any differentiable regulariser.
"""

from repro.mappings._bounded import Budget, Csoftmax, Csparsemax, budget, csoftmax, csparsemax
from repro.mappings._entmax import entmax, entmax15, softmax, sparsemax
from repro.mappings._grouped import Fusedmax, Oscarmax, fusedmax, oscarmax
from repro.mappings._norm import Normmax, SqPnormMax, normmax, sq_pnorm_max
from repro.mappings.modules import (
    Entmax,
    Entmax15,
    LearnedAlphaEntmax,
    ProbabilityMap,
    Softmax,
    Sparsemax,
)
from repro.mappings.registry import MAPPINGS, MappingSpec
from repro.mappings.regularized import regularized

__all__ = [
    "MAPPINGS",
    "Budget",
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
