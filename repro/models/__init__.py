"""Models; each receives its mappings as objects and never chooses one by name."""
