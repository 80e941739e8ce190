"""One training loop for all tasks, with exact resume."""
