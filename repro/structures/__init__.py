"""SparseMAP: sparse mixtures of combinatorial structures that have a MAP oracle."""

from repro.mappings import ConvergenceWarning
from repro.structures.active_set import Solution, sparsemap
from repro.structures.families import STRUCTURES, Arborescence, HeadStructure, LinearChain, Matching
from repro.structures.problem import InfeasibleError
from repro.structures.structure import Structure

__all__ = [
    "STRUCTURES",
    "Arborescence",
    "ConvergenceWarning",
    "HeadStructure",
    "InfeasibleError",
    "LinearChain",
    "Matching",
    "Solution",
    "Structure",
    "sparsemap",
]
