"""Kernels for the processor, compiled by numba at first use; imported only then."""
