"""Times of the mappings and losses, beside the code that they replace, behind a gate of tests."""
