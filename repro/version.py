"""Versions: of the package, and of the mathematics that its numbers depend on."""

__version__ = "0.1.0"

NUMERIC_EPOCH = 10
"""Version of the mathematics: incremented when a definition, the stopping rule of an algorithm or a
protocol changes, not with the last bit of a sum."""
