"""How long the mappings and losses take, beside what they replace, behind a gate of tests."""
