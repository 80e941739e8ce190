"""Compiled kernels behind the mappings: used for plain tensors, never needed for correctness."""
