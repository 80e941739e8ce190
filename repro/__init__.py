"""Rerun, check and build on four papers about sparse and structured attention."""

__version__ = "0.1.0"

NUMERIC_EPOCH = 10
"""Version of the numerics, incremented when an unchanged configuration may give new numbers."""
