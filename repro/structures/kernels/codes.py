"""The structures that kernels know; numba is not needed to read this."""

SEQUENCE = 0
ARBORESCENCE = 1
SINGLE_ROOT = 2
MATCHING = 3
PARTS = 4
"""Any set of parts: a slot for each part, with the value 0 where it is chosen and -1 elsewhere."""
