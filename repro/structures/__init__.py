"""Structures with a MAP oracle, and SparseMAP: sparse mixtures of structures."""

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
