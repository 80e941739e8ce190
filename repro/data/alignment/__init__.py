"""Word alignment of sentence pairs, as fast_align computes it."""
