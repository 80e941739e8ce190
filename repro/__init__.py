"""Rerun, check and build on four papers about sparse and structured attention."""

__version__ = "0.1.0"

NUMERIC_EPOCH = 10
"""Raised by every change that may change the numbers of an unchanged configuration."""
