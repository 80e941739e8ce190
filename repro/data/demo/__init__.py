"""Generated corpora in the on-disk layout of the real ones, for the scale ``demo``."""
