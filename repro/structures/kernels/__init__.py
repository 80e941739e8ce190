"""Compiled kernels of the structures; numba is imported with them, at the first call."""
