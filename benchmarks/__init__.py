"""Timings of mappings and losses relative to the code that they replace, after their tests pass."""
