"""Structures that kernels know and the status of solutions; numba is not needed to read this."""

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

SEQUENCE = 0
ARBORESCENCE = 1
SINGLE_ROOT = 2
MATCHING = 3
PARTS = 4
"""Any set of parts: a slot for each part, with the value 0 where it is chosen and -1 elsewhere."""

ROUNDING_UNIT = 2.0**-50
"""Bound of a sum's rounding error, relative to its terms; eight times the unit roundoff."""

RUNNING, CONVERGED, EXHAUSTED, INFEASIBLE, INVALID = range(5)
"""Status of a solution: exhausted means that iterations, or the precision of floats, ran out."""
