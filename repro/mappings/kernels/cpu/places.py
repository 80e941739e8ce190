"""Where an entry lies under bounds."""

EMPTY, FREE, FULL = 0, 1, 2
"""Places of an entry: at zero, strictly inside its bounds, at its upper bound."""
NOWHERE = 3
"""No entry's place."""
