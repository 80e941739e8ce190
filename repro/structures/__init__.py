"""SparseMAP: sparse mixtures of combinatorial structures that have a MAP oracle."""

from repro.structures.active_set import ConvergenceWarning, Solution, sparsemap
from repro.structures.any_oracle import MapOracle
from repro.structures.families import Arborescence, LinearChain, Matching
from repro.structures.structure import InfeasibleError, Structure

__all__ = [
    "Arborescence",
    "ConvergenceWarning",
    "InfeasibleError",
    "LinearChain",
    "MapOracle",
    "Matching",
    "Solution",
    "Structure",
    "sparsemap",
]
