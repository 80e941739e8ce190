"""Running: one run, a sweep of runs, an ensemble, and whole experiments."""
