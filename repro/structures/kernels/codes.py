"""Codes of structures and statuses of solutions, in a module that does not import numba."""

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

SEQUENCE = 0
ARBORESCENCE = 1
SINGLE_ROOT = 2
MATCHING = 3

ROUNDING_UNIT = 2.0**-50
"""Assumed rounding error of a sum, relative to the sum of absolute values: 8 unit roundoffs."""

RUNNING, CONVERGED, EXHAUSTED, INFEASIBLE, INVALID = range(5)
"""Status of a solution: ``EXHAUSTED`` if iterations or floating-point precision ran out."""
