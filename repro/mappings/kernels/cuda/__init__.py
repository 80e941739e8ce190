"""Kernels for CUDA devices, compiled by Triton at first use; imported only then."""
